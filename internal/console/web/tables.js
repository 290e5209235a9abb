// What is kept for the viewer: tables by page, sorted and filtered, and long texts.
import { credentials, get } from './api.js';
import { copyButton, countText, el, empty, heading, numberText, pager, sizeText, table, timeText } from './dom.js';

export const live = true;

const size = 100;
let offset = 0, shown; // shown: { handle, offset, order, down, column, op, value }

export async function load(route) {
  const [handle] = route.rest;
  if (!handle) { shown = undefined; return { list: await get('artifacts', { offset }) }; }
  if (shown?.handle !== handle) shown = { handle, offset: 0, op: 'contains', value: '' };
  return rows();
}

async function rows() {
  const list = await get('artifacts', { limit: 500 });
  const kept = list.artifacts.find((one) => one.handle === shown.handle);
  const asked = { offset: shown.offset, limit: size };
  if (shown.order) asked.order_by = JSON.stringify([{ column: shown.order, desc: Boolean(shown.down) }]);
  if (shown.value && shown.column) asked.where = JSON.stringify([{ column: shown.column, op: shown.op, value: valueOf(shown) }]);
  return { kept, data: await get(`artifacts/${encodeURIComponent(shown.handle)}`, asked) };
}

const valueOf = ({ op, value }) => (op !== 'contains' && value.trim() !== '' && !Number.isNaN(Number(value)) ? Number(value) : value);

export function view(state, context) { return state.list ? listing(state.list, context) : one(state, context); }

function listing(list, context) {
  const now = Date.now();
  if (list.page.total === 0) {
    return [heading('Tables'), empty('Nothing is kept for you', el('p', {}, 'When a tool answers with a table or a long text, the agent reads a part, and all of it is kept here for a while.'), el('p', {}, el('a', { href: '#/catalog' }, 'Try a tool')))];
  }
  return [
    heading('Tables', `${countText(list.page.total, 'result')} kept for you, ${sizeText(list.size_bytes)}. Only you see them.`),
    table([['Handle', 'name'], ['From', 'name'], ['Kind'], ['Rows', 'number'], ['Size', 'number'], ['Age', 'number'], ['Ends in', 'number']],
      list.artifacts.map((a) => ({ key: a.handle, cells: [el('a', { href: `#/tables/${encodeURIComponent(a.handle)}` }, a.handle), a.label, a.kind === 'table' ? 'table' : a.media_type, a.rows === undefined ? '' : numberText(a.rows), sizeText(a.size_bytes),
        timeText((now - Date.parse(a.created)) / 1000), timeText((Date.parse(a.expires) - now) / 1000)] })), 'Kept results'),
    pager(list.page, (to) => { offset = to; context.refresh(); }),
  ];
}

const ops = [['contains', 'contains'], ['eq', 'is'], ['ne', 'is not'], ['lt', 'less than'], ['gt', 'more than']];

function one({ kept, data }, context) {
  const page = { offset: shown.offset, limit: size, total: totalOf(data, kept) };
  const again = (changes) => { Object.assign(shown, changes); context.refresh(); };
  const columns = data.columns ?? [];
  return [
    el('p', { class: 'crumbs' }, el('a', { href: '#/tables' }, 'Tables'), ' / ', shown.handle),
    heading(kept?.label || shown.handle, kept ? [kept.rows === undefined ? '' : countText(kept.rows, 'row'), sizeText(kept.size_bytes)].filter(Boolean).join(', ') : '', copyButton(shown.handle, 'Copy the handle'), el('button', { type: 'button', click: () => context.run(() => save(shown.handle)) }, 'Save all')),
    data.text !== undefined ? el('pre', { tabindex: '0', role: 'region', 'aria-label': 'The beginning of the text' }, data.text) : [
      el('form', { class: 'controls', submit: (event) => {
        event.preventDefault();
        const given = new FormData(event.target);
        again({ column: given.get('column'), op: given.get('op'), value: given.get('value'), offset: 0 });
      } },
      el('select', { name: 'column', 'aria-label': 'Column' }, columns.filter((name) => name !== '_row_id').map((name) => el('option', { value: name }, name))),
      el('select', { name: 'op', 'aria-label': 'Condition' }, ops.map(([value, text]) => el('option', { value }, text))),
      el('input', { type: 'search', name: 'value', 'aria-label': 'Value', placeholder: 'value', autocomplete: 'off' }), el('button', {}, 'Filter'),
      shown.value ? el('button', { type: 'button', class: 'tag', click: () => again({ value: '', offset: 0 }) }, `${shown.column} ${shown.op} ${shown.value} ✕`) : ''),
      data.rows?.length ? grid(columns, data.rows, again) : el('p', { role: 'status' }, 'No row fits.'),
      data.more_columns ? el('p', { class: 'soft' }, `${countText(data.more_columns, 'more column')}.`) : '',
      pager(page, (to) => again({ offset: to })),
    ],
    data.notice ? el('p', { class: 'soft' }, data.notice) : '',
    el('details', {}, el('summary', {}, 'How an agent reads this'), el('pre', { tabindex: '0', role: 'region', 'aria-label': 'The call' }, `tool_view ${JSON.stringify({ handle: shown.handle, selector: data.selector })}`)),
  ];
}

// totalOf is the number of rows that fit, from the notice of the selector.
function totalOf(data, kept) {
  const [, of] = / of ([\d,]+)/.exec(data.notice ?? '') ?? [];
  return of ? Number(of.replaceAll(',', '')) : Math.max(kept?.rows ?? 0, shown.offset + (data.rows?.length ?? 0));
}

const isNumber = (cell) => /^-?\d[\d.eE+-]*$/.test(cell ?? '');

// grid shows rows in cells of one line; the title of a cell and the row itself have all of it.
function grid(columns, rows, again) {
  return el('div', { class: 'wide grid', tabindex: '0', role: 'region', 'aria-label': 'Rows' }, el('table', {},
    el('thead', {}, el('tr', {}, columns.map((name) => el('th', { scope: 'col', 'aria-sort': shown.order === name ? (shown.down ? 'descending' : 'ascending') : undefined },
      el('button', { type: 'button', class: 'quiet', click: () => again({ order: name, down: shown.order === name && !shown.down, offset: 0 }) }, name, shown.order === name ? (shown.down ? ' ↓' : ' ↑') : ''))))),
    el('tbody', {}, rows.map((row) => el('tr', {}, columns.map((_, i) => el('td', { class: isNumber(row?.[i]) ? 'number' : undefined, title: (row?.[i] ?? '').length > 40 ? row[i] : undefined }, row?.[i] ?? '')))))));
}

// save saves all of a result in the person's own folder. The token travels in a header.
async function save(handle) {
  const response = await fetch(`artifacts/${encodeURIComponent(handle)}`, { headers: credentials() });
  if (!response.ok) throw new Error(`the gateway answered ${response.status}`);
  const url = URL.createObjectURL(await response.blob());
  const kind = response.headers.get('Content-Type') ?? '';
  el('a', { href: url, download: `${handle}.${/json/.test(kind) ? 'json' : /csv/.test(kind) ? 'csv' : /text/.test(kind) ? 'txt' : 'bin'}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
