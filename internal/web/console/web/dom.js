// Elements. Texts of servers are untrusted: they become text nodes and nothing else.

const svgNames = 'http://www.w3.org/2000/svg';

function build(node, properties, children) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (typeof value === 'function') listen(node, key, value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat(Infinity)) {
    if (child === undefined || child === null || child === '' || child === false) continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return node;
}

// el makes an element: el('td', { class: 'number' }, 'text', other). A function among the properties is a listener.
export const el = (name, properties = {}, ...children) => build(document.createElement(name), properties, children);

// button, soft and aside are elements that many pages have: a button of no form, a paragraph and a part of a line in a soft colour.
export const button = (properties, ...children) => el('button', { type: 'button', ...properties }, ...children);
export const soft = (...children) => el('p', { class: 'soft' }, ...children);
export const inRow = (...children) => el('p', { class: 'row' }, ...children);
export const bad = (...children) => el('p', { class: 'notice bad' }, ...children);
export const serverLink = (name) => el('a', { href: `#/servers/${encodeURIComponent(name)}` }, name);
// shortID is a tool_id without its hash.
export const shortID = (id) => id?.replace(/#[0-9a-f]+$/, '') ?? '';
export const aside = (...children) => el('span', { class: 'soft' }, ...children);

// svg makes an element of a drawing.
export const svg = (name, properties = {}, ...children) => build(document.createElementNS(svgNames, name), properties, children);

// listen adds a listener that render can exchange.
function listen(node, kind, work) {
  if (!node.work) node.work = {};
  if (!node.work[kind]) node.addEventListener(kind, hear);
  node.work[kind] = work;
}

function hear(event) { event.currentTarget.work[event.type]?.(event); }

// render makes the children of an element those that are given. What is equal stays, with its focus, selection, scroll
// position and what a person entered. An element with data-own keeps its children.
export function render(at, ...children) {
  const fresh = el('div', {}, ...children);
  patch(at, [...fresh.childNodes]);
}

function patch(at, nodes) {
  const keyed = new Map();
  for (const child of at.children) if (child.dataset?.key) keyed.set(child.dataset.key, child);
  let old = at.firstChild;
  for (const node of nodes) {
    const match = node.dataset?.key ? keyed.get(node.dataset.key) : old;
    if (!match || !alike(match, node)) { at.insertBefore(node, old); continue; }
    if (match === old) old = old.nextSibling;
    else at.insertBefore(match, old);
    update(match, node);
  }
  while (old) {
    const next = old.nextSibling;
    old.remove();
    old = next;
  }
}

const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && a.dataset?.key === b.dataset?.key;

function update(old, fresh) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== 'open') old.removeAttribute(name);
  for (const { name, value } of fresh.attributes) if (name !== 'open' && old.getAttribute(name) !== value) old.setAttribute(name, value);
  for (const kind of Object.keys(old.work ?? {})) if (!fresh.work?.[kind]) delete old.work[kind];
  for (const [kind, work] of Object.entries(fresh.work ?? {})) listen(old, kind, work);
  if (!old.dataset?.own) patch(old, [...fresh.childNodes]);
}

// own is a place for an element that keeps what a person enters, such as a form.
export const own = (key, node) => el('div', { 'data-own': 'yes', 'data-key': key }, node.isConnected ? '' : node);

// keyed makes a part keep its place: a part before it may come and go.
export const keyed = (key, node) => { node.dataset.key = key; return node; };

// visible shows characters that would turn or hide a text: directions, and what has no width.
export const visible = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
  (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

export const numberText = (n) => Number(n ?? 0).toLocaleString('en');

// countText is a number with its noun: 1 tool, 2 tools.
export const countText = (n, noun) => `${numberText(n)} ${noun}${Number(n) === 1 ? '' : 's'}`;

export function timeText(seconds) {
  const [unit, size] = seconds >= 86400 ? ['d', 86400] : seconds >= 3600 ? ['h', 3600] : seconds >= 60 ? ['min', 60] : ['s', 1];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

// clockText is a time of day, of 24 hours.
export const clockText = (time) => new Date(time).toLocaleTimeString('en-GB', { hourCycle: 'h23' });

export function durationText(ms) {
  if (ms === undefined || ms === null) return '';
  return ms >= 10_000 ? `${(ms / 1000).toFixed(0)} s` : ms >= 1000 ? `${(ms / 1000).toFixed(1)} s` : ms >= 10 ? `${ms.toFixed(0)} ms` : `${ms.toFixed(1)} ms`;
}

export function sizeText(bytes) {
  const [unit, size] = bytes >= 1 << 30 ? ['GB', 1 << 30] : bytes >= 1 << 20 ? ['MB', 1 << 20] : bytes >= 1 << 10 ? ['KB', 1 << 10] : ['bytes', 1];
  return `${size === 1 ? bytes : (bytes / size).toFixed(1)} ${unit}`;
}

export const savedText = (read, raw) => (raw > 0 ? `${Math.max(0, Math.round(100 * (1 - read / raw)))} %` : '–');

const marks = { ready: '●', idle: '●', ok: '●', up: '●', starting: '◐', draining: '◐', gone: '■', failed: '▲', degraded: '▲', apart: '▲', stopped: '■', disabled: '○', 'left out': '○' };

// stateText is a state in words, with a mark of its own shape.
export const stateText = (state) => el('span', { class: `state ${String(state).replace(' ', '-')}` }, el('span', { 'aria-hidden': 'true' }, marks[state] ?? '○'), ' ', state);

// heading is the head of a page: its title, what it is about, and what can be done.
export const heading = (title, about, ...actions) => el('div', { class: 'heading' }, el('div', {}, el('h1', { tabindex: '-1' }, title), about ? soft(about) : ''), actions.length ? el('div', { class: 'actions' }, ...actions) : '');

export const card = (title, ...children) => el('section', { class: 'card' }, title ? el('h2', {}, title) : '', ...children);

// empty says what a page would show, and what to do.
export const empty = (title, ...children) => el('div', { class: 'empty' }, el('h2', {}, title), ...children);

export const fact = (name, value, about) => el('div', { class: 'fact' }, el('dt', {}, name), el('dd', {}, value), about ? el('dd', { class: 'soft' }, about) : '');

// table makes a table. A column is [title, class]; a row is an array of texts and elements, or { key, cells, class }.
export function table(columns, rows, label) {
  return el('div', { class: 'wide', tabindex: '0', role: 'region', 'aria-label': label }, el('table', {},
    el('thead', {}, el('tr', {}, columns.map(([title, kind]) => el('th', { class: kind, scope: 'col' }, title)))),
    el('tbody', {}, rows.map((row) => {
      const { key, cells, class: kind } = Array.isArray(row) ? { cells: row } : row;
      return el('tr', { 'data-key': key, class: kind }, cells.map((cell, i) => el('td', { class: columns[i]?.[1] }, cell)));
    }))));
}

// pager shows the buttons of a list of which a part is shown; nothing where that is all.
export function pager(page, show) {
  const end = Math.min(page.offset + page.limit, page.total);
  if (page.offset === 0 && end === page.total) return '';
  return el('div', { class: 'pages' },
    button({ disabled: page.offset === 0, click: () => show(Math.max(0, page.offset - page.limit)) }, 'Previous'),
    el('span', {}, `${numberText(Math.min(page.offset + 1, end))} to ${numberText(end)} of ${numberText(page.total)}`),
    button({ disabled: end >= page.total, click: () => show(page.offset + page.limit) }, 'Next'));
}

// copyButton copies a text, as it is.
export function copyButton(text, label = 'Copy') {
  return button({ class: 'quiet', click: async (event) => {
    const button = event.currentTarget;
    try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; } catch { button.textContent = 'Not allowed here'; }
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
}

// code is a block of text to read or to copy.
export const code = (text, label, kind = '') => el('div', { class: `code ${kind}` }, el('pre', { tabindex: '0', role: 'region', 'aria-label': label }, text), copyButton(text));

// pretty indents JSON and keeps the spelling of its numbers.
export function pretty(raw) {
  const out = [];
  let depth = 0, line = '';
  const flush = () => { out.push(line); line = '  '.repeat(depth); };
  for (const [token] of raw.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{},:]|[^\s[\]{},:"]+/g)) {
    if (token === '{' || token === '[') { line += token; depth++; flush(); }
    else if (token === '}' || token === ']') {
      depth--;
      if (line.trim() === '' && /[[{]$/.test(out.at(-1) ?? '')) { line = out.pop() + token; } else { flush(); line += token; }
    } else if (token === ',') { line += token; flush(); }
    else line += token === ':' ? ': ' : token;
  }
  out.push(line);
  return out.join('\n');
}
