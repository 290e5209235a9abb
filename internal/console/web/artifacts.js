// What is kept for the viewer: tables and long results.
import { get } from './api.js';
import { copyButton, el, numberText, pages, sizeText, table, timeText } from './dom.js';

let offset = 0, list, view;

export async function show(at, context) {
  const data = await get('artifacts', { offset });
  if (!list) {
    list = el('div', {});
    view = el('div', { id: 'preview' });
    at.replaceChildren(list, view);
  }
  const now = Date.now();
  list.replaceChildren(
    el('p', { class: 'soft' }, `${numberText(data.page.total)} kept for you, ${sizeText(data.size_bytes)}. Nobody sees what is another's.`),
    data.artifacts.length === 0 ? '' : table(
      [['Handle', 'id'], ['Kind'], ['From'], ['Size', 'number'], ['Rows', 'number'], ['Columns'], ['Age', 'number'], ['Left', 'number'], ['']],
      data.artifacts.map((a) => [
        el('code', {}, a.handle), a.kind === 'table' ? 'table' : a.media_type, a.label, sizeText(a.size_bytes), a.rows === undefined ? '' : numberText(a.rows),
        (a.columns ?? []).join(', ') + (a.more_columns ? ` and ${a.more_columns} more` : ''), timeText((now - Date.parse(a.created)) / 1000), timeText((Date.parse(a.expires) - now) / 1000),
        el('button', { type: 'button', 'data-keep': a.handle, click: () => context.run(() => preview(a.handle)) }, 'Look'),
      ])),
    pages(data.page, (to) => { offset = to; context.again(); }) ?? '',
  );
}

async function preview(handle) {
  const data = await get(`artifacts/${encodeURIComponent(handle)}`, { limit: 20 });
  view.replaceChildren(
    el('h2', {}, 'The beginning of ', el('code', {}, handle), ' ', copyButton(handle)),
    data.rows || data.columns ? table(data.columns.map((name) => [name]), data.rows.map((row) => data.columns.map((_, i) => row?.[i] ?? '')), { class: 'cells' }) : el('pre', {}, data.text ?? ''),
    data.more_columns ? el('p', { class: 'soft' }, `${numberText(data.more_columns)} more columns.`) : '',
    data.notice ? el('p', { class: 'soft' }, data.notice) : '',
  );
  view.scrollIntoView({ block: 'nearest' });
}
