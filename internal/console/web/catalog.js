// What can be called: found as agents find it, or by path.
import { get } from './api.js';
import { copyButton, el, numberText, pages } from './dom.js';

let parts; // of the panel, once it is there
let asked = 0; // only the answer of the last question is shown

export async function show(at, context) {
  if (!parts) {
    parts = {
      query: el('input', { type: 'search', id: 'query', maxlength: '1000', placeholder: 'what it should do', 'aria-label': 'Search', autocomplete: 'off' }),
      kind: el('select', { id: 'kind', 'aria-label': 'Kind' }, [['tool', 'tools'], ['resource', 'resources'], ['prompt', 'prompts']].map(([value, text]) => el('option', { value }, text))),
      list: el('div', { id: 'found' }),
      detail: el('div', { id: 'entry' }, el('p', { class: 'soft' }, 'Choose one to see all of it.')),
    };
    let timer;
    const soon = () => { clearTimeout(timer); timer = setTimeout(() => context.run(() => list(context)), 200); };
    parts.query.addEventListener('input', soon);
    parts.kind.addEventListener('change', soon);
    at.replaceChildren(el('form', { class: 'controls', role: 'search', submit: (event) => { event.preventDefault(); soon(); } }, parts.query, parts.kind),
      el('div', { class: 'split' }, parts.list, parts.detail));
    await list(context);
  }
}

export const refreshes = false; // what somebody reads stays where it is

async function list(context, offset = 0) {
  const turn = ++asked;
  const kind = parts.kind.value;
  const query = parts.query.value.trim();
  if (!query) {
    const root = await branch(context, kind, '/', 0);
    if (turn === asked) parts.list.replaceChildren(root);
    return;
  }
  const found = await get('catalog', { kind, query, offset, limit: 20 });
  if (turn !== asked) return;
  parts.list.replaceChildren(
    found.cards.length === 0 ? el('p', { role: 'status' }, `No ${kind} matches. Try other words.`) : el('ol', { class: 'hits' }, found.cards.map((card) => el('li', {},
      opener(context, card, card.id), el('p', { class: 'soft' }, card.description), el('p', {}, tags(card), el('span', { class: 'soft' }, `score ${card.score?.toFixed(3) ?? 0}`))))),
    pages(found.page, (to) => context.run(() => list(context, to))) ?? '');
}

const tags = (card) => (card.tags ?? []).map((tag) => el('span', { class: 'tag' }, tag));

const opener = (context, card, text) => el('button', { type: 'button', 'data-id': card.id, click: () => context.run(() => entry(card.id)) }, text);

// branch is one level of the tree; those below it are asked for when they are opened.
async function branch(context, kind, path, offset) {
  const { cards, page } = await get('catalog', { kind, path, offset });
  if (cards.length === 0 && path === '/') return el('p', { class: 'soft' }, 'There is nothing here yet.');
  const all = el('ul', { class: path === '/' && offset === 0 ? 'tree' : undefined }, cards.map((card) => {
    if (!card.folder) return el('li', {}, opener(context, card, card.name), el('span', { class: 'soft' }, card.side_effects ? ' has side effects' : ''));
    const folder = el('details', { toggle: () => {
      if (!folder.open || folder.dataset.asked) return;
      folder.dataset.asked = 'yes';
      context.run(async () => {
        try { folder.append(await branch(context, kind, card.id, 0)); } catch (error) { delete folder.dataset.asked; folder.open = false; throw error; }
      });
    } }, el('summary', {}, card.name, ' ', el('span', { class: 'soft' }, /^\d+ \w+/.exec(card.description)?.[0])));
    return el('li', {}, folder);
  }));
  const next = offset + page.limit;
  if (next < page.total) {
    const more = el('li', {}, el('button', { type: 'button', click: () => context.run(async () => more.replaceWith(...(await branch(context, kind, path, next)).children)) }, `more (${numberText(page.total - next)})`));
    all.append(more);
  }
  return all;
}

const part = (title, doc) => (doc ? [el('h2', {}, title), el('pre', {}, doc.text), doc.cut ? el('p', { class: 'soft' }, 'This is the beginning; the rest is too long to show.') : ''] : []);

async function entry(id) {
  const e = await get('catalog/entry', { id });
  parts.detail.replaceChildren(
    el('h3', {}, e.title || e.raw_name),
    el('p', {}, el('code', { id: 'tool-id' }, e.id), ' ', copyButton(e.id)),
    el('p', { class: 'soft' }, `${e.kind.replace('_', ' ')} ${e.raw_name} of ${e.upstream}, at ${e.path}${e.uri ? `, ${e.uri}` : ''}`),
    el('p', {}, (e.tags ?? []).map((tag) => el('span', { class: 'tag' }, tag))),
    e.schema_error ? el('p', { class: 'bad' }, `Its schema is broken: ${e.schema_error}`) : '',
    el('h2', {}, 'Description'),
    el('p', { class: 'description' }, e.description || 'It says nothing of itself.'), e.description_cut ? el('p', { class: 'soft' }, 'This is the beginning; the rest is too long to show.') : '',
    el('h2', {}, `Card, ${numberText(e.tokens)} tokens`), el('pre', {}, e.card),
    ...part('Input schema', e.input_schema), ...part('Output schema', e.output_schema), ...part('Annotations', e.annotations),
  );
  if (matchMedia('(max-width: 48rem)').matches) parts.detail.scrollIntoView();
}
