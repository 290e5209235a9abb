// Elements. Texts come from servers that nobody trusts: they become text nodes and nothing else does.

// el makes an element: el('td', { class: 'number' }, 'text', other). A function among the properties is a listener.
export function el(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === false) continue;
    if (typeof value === 'function') node.addEventListener(key, value);
    else node.setAttribute(key, value === true ? '' : value);
  }
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === '') continue;
    node.append(child instanceof Node ? child : document.createTextNode(visible(String(child))));
  }
  return node;
}

// visible shows characters that would turn or hide a text: directions, and what has no width.
export const visible = (text) => text.replace(/[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u061c\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]/g,
  (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, '0')}`);

export const numberText = (n) => Number(n ?? 0).toLocaleString('en');

export function timeText(seconds) {
  const [unit, size] = seconds >= 86400 ? ['d', 86400] : seconds >= 3600 ? ['h', 3600] : seconds >= 60 ? ['min', 60] : ['s', 1];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

export function sizeText(bytes) {
  const [unit, size] = bytes >= 1 << 20 ? ['MB', 1 << 20] : bytes >= 1 << 10 ? ['KB', 1 << 10] : ['bytes', 1];
  return `${size === 1 ? bytes : (bytes / size).toFixed(1)} ${unit}`;
}

export const savedText = (read, raw) => (raw > 0 ? `${Math.round(100 * (1 - read / raw))}%` : '-');

// table makes a table. A column is [title, class]; a row is an array of texts and elements.
export function table(columns, rows, properties = {}) {
  return el('div', { class: 'wide' }, el('table', properties,
    el('thead', {}, el('tr', {}, columns.map(([title, kind]) => el('th', { class: kind, scope: 'col' }, title)))),
    el('tbody', {}, rows.map((row) => el('tr', {}, row.map((cell, i) => el('td', { class: columns[i]?.[1] }, cell)))))));
}

// pages are the buttons of a list of which a part is shown; nothing where that is all.
export function pages(page, show) {
  const end = Math.min(page.offset + page.limit, page.total);
  if (page.offset === 0 && end === page.total) return undefined;
  return el('div', { class: 'pages' },
    el('button', { type: 'button', 'data-keep': 'before', disabled: page.offset === 0, click: () => show(Math.max(0, page.offset - page.limit)) }, 'Before'),
    `${numberText(Math.min(page.offset + 1, end))} to ${numberText(end)} of ${numberText(page.total)}`,
    el('button', { type: 'button', 'data-keep': 'next', disabled: end >= page.total, click: () => show(page.offset + page.limit) }, 'Next'));
}

// copyButton copies a text, as it is.
export function copyButton(text, label = 'Copy') {
  const button = el('button', { type: 'button', click: async () => {
    try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; } catch { button.textContent = 'Not allowed here'; }
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}
