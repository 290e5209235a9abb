// What is kept for the viewer: tables that scroll, with conditions, sums and files; and long texts.
import { file, get } from './api.js';
import { aside, button, card, copyButton, countText, el, empty, fact, heading, inRow, numberText, own, pager, shortID, sizeText, soft, svg, table, timeText, visible } from './dom.js';
import { Grid } from './grid.js';

export const live = true;

/** @typedef {{ column: string, op: string, value: string }} Condition */
let offset = 0;
/** @type {any} */
let shown; // { handle, where, columns, order, down, group, sums, grid, first, figures } of what is shown

export async function load(route) {
  const [handle] = route.rest;
  if (!handle) { shown = undefined; return { list: await get('artifacts', { offset }) }; }
  if (shown?.handle !== handle) shown = { handle, where: [], columns: undefined, group: [], sums: [], panel: '', version: 0 };
  const data = await rows(0, 100);
  const kept = (await get('artifacts', { limit: 500 })).artifacts.find((one) => one.handle === handle);
  return { kept, data, version: ++shown.version };
}

const grouped = () => shown.group.length > 0 || shown.sums.length > 0;

// asked are the parameters of what is shown: those of the selector "table" of tool_view.
function asked() {
  const { where, columns, order, down, group, sums } = shown;
  const out = {};
  if (where.length) out.where = `[${where.map(conditionText).join()}]`;
  if (grouped()) {
    if (group.length) out.group_by = JSON.stringify(group);
    out.aggregate = JSON.stringify(sums.length ? sums.map(({ op, column }) => ({ op, ...(column && { column }) })) : [{ op: 'count' }]);
  } else if (columns) out.columns = JSON.stringify(columns);
  if (order) out.order_by = JSON.stringify([{ column: order, desc: Boolean(down) }]);
  return out;
}

// number is the text of a number as it stands, so that it keeps its digits.
const number = (text) => (/^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text.trim()) ? text.trim() : undefined);

function conditionText({ column, op, value }) {
  const text = JSON.stringify(value), exact = number(value) ?? (/^(true|false)$/.test(value) ? value : undefined);
  const [given, wanted] = op === 'empty' ? ['null', 'true'] : op === 'filled' ? ['null', 'false']
    : op === 'eq' ? ['in', exact ? `[${exact},${text}]` : `[${text}]`] : op === 'ne' ? ['not_in', exact ? `[${exact},${text}]` : `[${text}]`]
      : ['lt', 'le', 'gt', 'ge'].includes(op) ? [op, number(value) ?? text] : [op, text];
  return `{"column":${JSON.stringify(column)},"op":"${given}","value":${wanted}}`;
}

const rows = (from, limit, signal = undefined) => get(`artifacts/${encodeURIComponent(shown.handle)}`, { ...asked(), offset: from, limit }, signal);

// nameText is where a result is from, without the hash of the tool's id.
const nameText = (kept) => shortID(kept?.label) || kept?.handle || shown.handle;

export function view(state, context) { return state.list ? listing(state.list, context) : one(state, context); }

function listing(list, context) {
  const now = Date.now();
  if (list.page.total === 0) {
    return [heading('Tables'), empty('Nothing is kept for you', el('p', {}, 'When a tool answers with a table or a long text, the agent reads a part, and all of it is kept here for a while.'), el('p', {}, el('a', { class: 'button primary', href: '#/catalog' }, 'Try a tool')))];
  }
  return [
    heading('Tables', `${countText(list.page.total, 'result')} kept for you, ${sizeText(list.size_bytes)}. Only you see them.`),
    table([['From', 'name'], ['Kind'], ['Rows', 'number'], ['Size', 'number'], ['Age', 'number'], ['Ends in', 'number'], ['Handle']],
      list.artifacts.map((a) => ({ key: a.handle, cells: [el('a', { href: `#/tables/${encodeURIComponent(a.handle)}` }, nameText(a)), a.kind === 'table' ? 'table' : a.media_type, a.rows === undefined ? '' : numberText(a.rows), sizeText(a.size_bytes),
        timeText((now - Date.parse(a.created)) / 1000), timeText((Date.parse(a.expires) - now) / 1000), aside(a.handle)] })), 'Kept results'),
    pager(list.page, (to) => { offset = to; context.refresh(); }),
  ];
}

const ops = [['contains', 'contains'], ['eq', 'is'], ['ne', 'is not'], ['lt', 'less than'], ['le', 'at most'], ['gt', 'more than'], ['ge', 'at least'],
  ['prefix', 'begins with'], ['suffix', 'ends with'], ['regex', 'matches'], ['empty', 'is empty'], ['filled', 'is not empty']];
const sums = [['count', 'count'], ['count_distinct', 'distinct values'], ['sum', 'sum'], ['avg', 'mean'], ['min', 'least'], ['max', 'most'], ['first', 'first'], ['last', 'last']];
const forms = [['sheet', 'CSV for spreadsheets'], ['csv', 'CSV as it is'], ['json', 'JSON'], ['ndjson', 'JSON lines'], ['arrow', 'Arrow']];
const nameOf = (list, key) => list.find(([one]) => one === key)?.[1] ?? key;
const options = (list, chosen = undefined) => list.map(([value, text]) => el('option', { value, selected: value === chosen }, text));
const columnOptions = (names, chosen = undefined) => options(names.map((name) => [name, name]), chosen);

function one({ kept, data, version }, context) {
  const again = (changes) => { Object.assign(shown, changes); return context.refresh(); };
  const crumbs = el('p', { class: 'crumbs' }, el('a', { href: '#/tables' }, 'Tables'), ' / ', shown.handle);
  const about = [kept?.rows === undefined ? '' : countText(kept.rows, 'row'), kept ? sizeText(kept.size_bytes) : ''].filter(Boolean).join(', ');
  if (data.text !== undefined && !data.rows) {
    return [crumbs, heading(nameText(kept), about, copyButton(shown.handle, 'Copy the handle'), button({ class: 'primary', click: () => context.run(() => save(context, 'bytes')) }, 'Save')),
      el('pre', { tabindex: '0', role: 'region', 'aria-label': 'The beginning of the text' }, data.text), data.notice ? soft(data.notice) : '', how(data)];
  }
  const named = (kept?.columns ?? data.columns ?? []).filter((name) => name !== '_row_id');
  const every = [...named, ...(shown.columns ?? []).filter((name) => !named.includes(name))];
  shown.more = kept?.more_columns;
  const visibleColumns = grouped() ? data.columns : ['_row_id', ...(shown.columns ?? every)].filter((name) => name !== '_row_id' || data.columns?.includes(name));
  shown.grid ??= new Grid('Rows', (from, limit, signal) => ask(from, limit, signal, context), (column) => again({ order: column, down: shown.order === column && !shown.down }), openRow);
  if (shown.drawn !== version) { shown.drawn = version; shown.grid.show(data, visibleColumns, { column: shown.order, down: shown.down }); }
  const total = data.total ?? 0;
  return [
    crumbs,
    heading(nameText(kept), about, copyButton(shown.handle, 'Copy the handle'),
      el('form', { class: 'row', submit: (event) => { event.preventDefault(); const as = new FormData(event.target).get('as'); context.run(() => save(context, as)); } },
        el('select', { name: 'as', 'aria-label': 'Form of the file' }, options(forms)), el('button', { class: 'primary' }, shown.saving ?? 'Save'))),
    filters(every, again),
    tools(every, again, context),
    total > 0 ? own(`grid ${shown.handle}`, shown.grid.node) : empty('No row fits', el('p', {}, button({ click: () => again({ where: [] }) }, 'Show all rows'))),
    el('p', { class: 'soft', role: 'status', id: 'matched' }, grouped() ? countText(total, 'group') : shown.where.length ? `${countText(total, 'row')} of ${numberText(kept?.rows ?? total)}` : countText(total, 'row'),
      data.more_columns ? `, and ${countText(data.more_columns, 'more column')} that ${data.more_columns === 1 ? 'is' : 'are'} not shown` : '', total > 0 ? '. Click a row, or choose one with the arrow keys and Enter, to read all of it.' : '.'),
    grouped() && total > 0 ? bars(data) : '',
    how(data),
  ];
}

const how = (data) => el('details', {}, el('summary', {}, 'How an agent reads this'), el('pre', { tabindex: '0', role: 'region', 'aria-label': 'The call' }, `tool_view ${JSON.stringify({ handle: shown.handle, selector: data.selector })}`));

// ask asks for rows. Where that fails, it says why.
async function ask(from, limit, signal, context) {
  let answer;
  await context.run(async () => {
    try { answer = await rows(from, limit, signal); } catch (error) { if (!signal.aborted) throw error; }
  });
  return answer;
}

const chip = (text, remove) => button({ class: 'tag', 'aria-label': `Remove: ${text}`, click: remove }, `${text} ✕`);

function filters(columns, again) {
  return el('form', { class: 'controls', submit: (event) => {
    event.preventDefault();
    const given = new FormData(event.target), op = String(given.get('op')), value = String(given.get('value'));
    if (value === '' && !['empty', 'filled'].includes(op)) return;
    event.target.elements.value.value = '';
    again({ where: [...shown.where, { column: given.get('column'), op, value: ['empty', 'filled'].includes(op) ? '' : value }] });
  } },
  el('select', { name: 'column', 'aria-label': 'Column' }, columnOptions(columns)), el('select', { name: 'op', 'aria-label': 'Condition' }, options(ops)),
  el('input', { type: 'search', name: 'value', 'aria-label': 'Value', placeholder: 'value', autocomplete: 'off' }), el('button', {}, 'Filter'),
  shown.where.map((one, i) => chip(`${one.column} ${nameOf(ops, one.op)} ${one.value}`.trim(), () => again({ where: shown.where.filter((_, k) => k !== i) }))));
}

// tools are the panels for columns, sums and the figures of a column, of which one is open.
function tools(columns, again, context) {
  const tab = (name, text) => button({ class: 'quiet', 'aria-expanded': String(shown.panel === name), 'aria-controls': 'panel', click: () => { shown.panel = shown.panel === name ? '' : name; context.draw(); } }, text);
  const panel = { columns: choice, sums: summing, figures: figuring }[shown.panel];
  return el('div', { class: 'tools' },
    inRow(tab('columns', shown.columns ? `Columns: ${shown.columns.length} of ${columns.length}` : 'Columns'), tab('sums', grouped() ? 'Groups and sums ●' : 'Groups and sums'), tab('figures', 'Figures of a column')),
    el('div', { id: 'panel', hidden: !panel }, panel ? panel(columns, again, context) : ''));
}

const widest = 60; // columns of which tool_view shows all

// further shows a column beyond those that are listed, if there is one of this name.
async function further(columns, field, again) {
  const of = shown, name = field.value, chosen = (shown.columns ?? columns).filter((one) => one !== name);
  await get(`artifacts/${encodeURIComponent(shown.handle)}`, { columns: JSON.stringify([name]), limit: 1 });
  field.value = '';
  if (shown !== of) return; // another table is shown by now
  await again({ columns: [...chosen.slice(0, widest - 1), name] });
}

function choice(columns, again, context) {
  const chosen = new Set(shown.columns ?? columns);
  return el('fieldset', { class: 'card' }, el('legend', { class: 'hidden' }, 'Columns that are shown and saved'),
    el('p', { class: 'checks' }, columns.map((name) => el('label', {}, el('input', { type: 'checkbox', checked: chosen.has(name), change: (event) => {
      if (event.target.checked) chosen.add(name); else chosen.delete(name);
      if (chosen.size === 0) { event.target.checked = true; return; }
      const kept = columns.filter((one) => chosen.has(one));
      again({ columns: kept.length === columns.length ? undefined : kept, order: kept.includes(shown.order) ? shown.order : undefined });
    } }), ' ', name))),
    shown.more ? el('form', { class: 'row', submit: (event) => { event.preventDefault(); const field = event.target.elements.column; context.run(() => further(columns, field, again)); } },
      el('input', { name: 'column', required: true, maxlength: '500', autocomplete: 'off', 'aria-label': 'Another column, by its name', placeholder: 'another column, by its name' }), el('button', {}, 'Show it'), aside(`${countText(shown.more, 'more column')} ${shown.more === 1 ? 'is' : 'are'} not listed; ${numberText(widest)} fit.`)) : '',
    inRow(button({ disabled: !shown.columns, click: () => again({ columns: undefined }) }, 'Show all columns'), grouped() ? aside('Groups and sums have columns of their own.') : ''));
}

function summing(columns, again) {
  const back = { order: undefined, down: false };
  return el('div', { class: 'card' },
    el('form', { class: 'controls', submit: (event) => {
      event.preventDefault();
      const given = new FormData(event.target), group = String(given.get('group')), op = String(given.get('sum')), column = String(given.get('of'));
      again({ ...back, group: group && !shown.group.includes(group) ? [...shown.group, group] : shown.group,
        sums: shown.sums.some((one) => one.op === op && one.column === (op === 'count' ? '' : column)) ? shown.sums : [...shown.sums, { op, column: op === 'count' ? '' : column }] });
    } },
    el('label', {}, 'Group by ', el('select', { name: 'group' }, el('option', { value: '' }, 'nothing'), columnOptions(columns))),
    el('label', {}, 'show ', el('select', { name: 'sum', 'aria-label': 'Figure' }, options(sums))), el('label', {}, 'of ', el('select', { name: 'of', 'aria-label': 'Of which column' }, columnOptions(columns))), el('button', {}, 'Add')),
    grouped() ? inRow(shown.group.map((name) => chip(`by ${name}`, () => again({ ...back, group: shown.group.filter((one) => one !== name) }))),
      shown.sums.map((one, i) => chip(`${nameOf(sums, one.op)}${one.column ? ` of ${one.column}` : ''}`, () => again({ ...back, sums: shown.sums.filter((_, k) => k !== i) }))),
      button({ click: () => again({ ...back, group: [], sums: [] }) }, 'Back to the rows')) : soft('A count needs no column. What is filtered out does not count.'));
}

// figuring shows what is in a column: its figures and its most frequent values.
function figuring(columns, _again, context) {
  const { figures } = shown;
  const choose = (column) => context.run(async () => {
    const of = shown;
    const base = `artifacts/${encodeURIComponent(shown.handle)}`, where = asked().where;
    const all = ['count', 'count_distinct', 'min', 'max', 'sum', 'avg'];
    const [facts, common] = await Promise.all([
      get(base, { where, aggregate: JSON.stringify(all.map((op) => ({ op, column, as: op }))) }),
      get(base, { where, limit: 10, group_by: JSON.stringify([column]), aggregate: JSON.stringify([{ op: 'count', as: 'how many rows' }]), order_by: JSON.stringify([{ column: 'how many rows', desc: true }]) }),
    ]);
    if (shown !== of) return; // another table is shown by now
    shown.figures = { column, facts: Object.fromEntries(facts.columns.map((name, i) => [name, facts.rows[0][i]])), common };
    context.draw();
  });
  const value = (name) => { const text = figures.facts[name]; return text === undefined || text === 'null' ? undefined : text.length > 24 ? `${text.slice(0, 23)}…` : text; };
  return el('div', { class: 'card' },
    inRow(el('label', {}, 'Column ', el('select', { name: 'column', change: (event) => choose(event.target.value) }, figures ? '' : el('option', { value: '' }, 'choose one'), columnOptions(columns, figures?.column)))),
    figures ? [
      el('dl', { class: 'facts' }, fact('Values', numberText(value('count')), 'that are not empty'), fact('Distinct', numberText(value('count_distinct'))),
        ...[['Least', 'min'], ['Most', 'max'], ['Sum', 'sum'], ['Mean', 'avg']].map(([name, key]) => (value(key) === undefined ? '' : fact(name, value(key))))),
      bars(figures.common, 'Most frequent values'),
    ] : '');
}

// bars draws the last column of groups, the first of which name them.
function bars({ columns = [], rows: groups = [], total = 0 }, title = undefined) {
  const last = columns.length - 1, shownGroups = groups.slice(0, 20);
  const values = shownGroups.map((row) => Number(row[last]));
  const most = Math.max(...values.map(Math.abs));
  if (last < 1 || values.length < 2 || !values.every(Number.isFinite) || !(most > 0)) return '';
  return card(title ?? `${columns[last]} by ${columns.slice(0, last).join(', ')}`, el('dl', { class: 'bars' }, shownGroups.map((row, i) => el('div', {},
    el('dt', { title: row.slice(0, last).join(', ') }, row.slice(0, last).join(', ') || '(empty)'),
    el('dd', {}, svg('svg', { class: 'hbar', 'aria-hidden': 'true' }, svg('rect', { class: values[i] < 0 ? 'bar bad' : 'bar', width: `${Math.max(0.5, (100 * Math.abs(values[i])) / most)}%`, height: '100%', rx: 2 })), el('span', {}, number(row[last]) && row[last].length < 16 ? values[i].toLocaleString('en', { maximumFractionDigits: 20 }) : row[last]))))),
  total > shownGroups.length ? soft(`The first ${shownGroups.length} of ${numberText(total)}.`) : '');
}

// openRow shows all of a row.
function openRow(index, columns, values) {
  const close = () => { dialog.close(); dialog.remove(); };
  const dialog = /** @type {HTMLDialogElement} */ (el('dialog', { class: 'record', 'aria-labelledby': 'record-title', close: () => dialog.remove() },
    el('h2', { id: 'record-title' }, `Row ${numberText(index + 1)}`),
    el('div', { class: 'values', tabindex: '0', role: 'region', 'aria-label': 'Its values' }, el('dl', { class: 'list' }, columns.map((name, i) => [el('dt', {}, name), el('dd', {}, values[i] === undefined ? aside('not there') : values[i])]))),
    inRow(button({ class: 'primary', click: close }, 'Close'), copyButton(visible(columns.map((name, i) => `${name}: ${values[i] ?? ''}`).join('\n'))))));
  document.body.append(dialog);
  dialog.showModal();
}

// save saves what is shown, all pages of it, in the person's own folder: on the way where the browser can, else when it has all.
async function save(context, form) {
  const { handle } = shown;
  const name = `${handle}.${form === 'bytes' ? 'txt' : form === 'sheet' ? 'csv' : form}`;
  const picker = /** @type {any} */ (window).showSaveFilePicker;
  let to;
  if (typeof picker === 'function') {
    try { to = await picker({ suggestedName: name }); } catch (error) { if (error.name === 'AbortError') return; }
  }
  shown.saving = 'Saving…';
  context.draw();
  try {
    const response = await file(`artifacts/${encodeURIComponent(handle)}/file`, form === 'bytes' ? { format: form } : { ...asked(), format: form });
    if (to) return void await response.body?.pipeTo(await to.createWritable());
    const url = URL.createObjectURL(await response.blob());
    el('a', { href: url, download: form === 'bytes' ? `${handle}.${extension(response.headers.get('Content-Type') ?? '')}` : name }).click();
    setTimeout(() => URL.revokeObjectURL(url), 10_000);
  } finally {
    if (shown) shown.saving = undefined;
    context.draw();
  }
}

const extension = (kind) => (/ndjson/.test(kind) ? 'ndjson' : /json/.test(kind) ? 'json' : /csv/.test(kind) ? 'csv' : /text/.test(kind) ? 'txt' : 'bin');
