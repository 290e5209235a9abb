// What can be called: found as agents find it or by path, all of an entry, and a call of it.
import { get } from './api.js';
import { aside, bad, card, code, copyButton, countText, el, empty, heading, keyed, numberText, own, serverLink, soft } from './dom.js';
import { pageSize, Tree } from './tree.js';
import { begin, lastTries, tryIt } from './try.js';

export const live = true; // what a person reads and enters stays where it is
export const keepsFocus = true;

let query = '', kind = 'tool', found, timer, again, asked = 0;
let tree; // of what is found without a query: { of, key, view }
const unfolded = { tool: new Set(), resource: new Set(), prompt: new Set() }; // paths
let trial; // of the entry that is shown
const mostLeft = 10;
const left = new Map(); // id → a trial that was left while its call ran or asked

export async function load(route) {
  const [id] = route.rest;
  if (!found || !document.getElementById('found')) await search(); // what servers offer may have changed since
  if (trial && trial.id !== id && (trial.running || trial.questions)) {
    left.set(trial.id, trial);
    if (left.size > mostLeft) left.delete(left.keys().next().value);
  }
  if (!id) { trial = undefined; return {}; }
  const [entry, why] = await Promise.all([get('catalog/entry', { id }), query ? get('catalog/why', { id, query }).catch(() => undefined) : undefined]);
  if (trial?.id !== id) trial = left.get(id) ?? begin(entry);
  left.delete(id);
  const of = entry.kind === 'resource_template' ? 'resource' : entry.kind;
  if (!query && kind !== of) { // the tree is that of the entry
    kind = of;
    await search();
  }
  return { entry, why };
}

async function search() {
  const turn = ++asked;
  const answer = await get('catalog', query ? { kind, query, limit: 50 } : { kind, path: '/', limit: pageSize });
  if (turn === asked) found = answer;
}

const address = (id) => `#/catalog/${encodeURIComponent(id)}`;

export function view(data, context) {
  const soon = () => { clearTimeout(timer); timer = setTimeout(() => context.run(async () => { await search(); context.draw(); }), 150); };
  return [
    heading('Catalog', 'Search as an agent does, or look through the servers'),
    el('form', { class: 'controls', role: 'search', submit: (event) => { event.preventDefault(); soon(); } },
      el('input', { type: 'search', id: 'query', maxlength: '1000', placeholder: 'what it should do', 'aria-label': 'Search the catalog', autocomplete: 'off', value: query, input: (event) => { query = event.target.value.trim(); soon(); } }),
      el('select', { id: 'kind', 'aria-label': 'Kind', change: (event) => { kind = event.target.value; soon(); } }, [['tool', 'Tools'], ['resource', 'Resources'], ['prompt', 'Prompts']].map(([value, text]) => el('option', { value, selected: value === kind }, text)))),
    el('div', { class: `split${data.entry ? ' chosen' : ''}` },
      el('div', { id: 'found', class: 'list' }, found.query ? hits(data) : paths(context, data)),
      el('div', { id: 'entry' }, data.entry ? entryOf(data, context) : [empty('Choose an entry', soft('Its definition, what it costs in tokens, and a form to try it.')), lastTries()])),
  ];
}

const narrow = matchMedia('(max-width: 60rem)'); // the list or an entry is shown, as in console.css
let last; // the entry that was shown
let revealed; // the entry whose folders were unfolded

// drawn gives the focus to an entry that takes the place of the list, and back to its row when the list is there again.
export function drawn(data) {
  const id = data.entry?.id;
  if (id === last) return;
  if (id && narrow.matches) {
    scrollTo(0, 0);
    /** @type {HTMLElement | null} */ (document.querySelector('#entry h2'))?.focus();
  } else if (!id && last && (narrow.matches || document.activeElement === document.body)) {
    const hit = [...document.querySelectorAll('.hits li')].find((one) => /** @type {HTMLElement} */ (one).dataset.key === last)?.querySelector('a');
    if (hit) hit.focus();
    else if (!found.query && tree?.view.find(last)) { /* the row has the focus */ } else document.getElementById('query')?.focus();
  }
  if (id && !found.query && revealed !== `${tree?.key} ${id}`) {
    revealed = `${tree?.key} ${id}`;
    tree?.view.reveal(data.entry.path, id);
  }
  last = id;
}

function hits(data) {
  if (found.cards.length === 0) return el('p', { role: 'status' }, `No ${kind} fits. Try other words.`);
  return el('ol', { class: 'hits' }, found.cards.map((one) => el('li', { 'data-key': one.id, class: data.entry?.id === one.id ? 'chosen' : undefined },
    el('a', { href: address(one.id) }, one.name), ' ', aside(one.namespace), el('p', { class: 'soft clip' }, one.description),
    el('p', { class: 'score' }, el('meter', { min: '0', max: '1', value: String(Math.min(1, one.score / (found.cards[0].score || 1))), 'aria-label': 'score' }), aside(` ${one.score?.toFixed(3) ?? 0}`), one.side_effects ? el('span', { class: 'tag' }, 'side effects') : ''))));
}

// paths shows what there is by path; the level below one is asked for when it is opened.
function paths(context, data) {
  clearTimeout(again);
  if (found.cards.length === 0) again = setTimeout(() => context.route.page === 'catalog' && !query && context.run(async () => { await search(); context.draw(); }), 1000); // servers may still start
  if (found.cards.length === 0) return soft(`There are no ${kind}s yet.`);
  if (tree?.of !== found) {
    const mine = kind;
    const ask = async (path, offset) => { let answer; await context.run(async () => { answer = await get('catalog', { kind: mine, path, offset, limit: pageSize }); }); return answer; };
    tree = { of: found, key: `tree ${asked}`, view: new Tree(`All ${kind}s`, found, ask, address, unfolded[mine]) };
  }
  tree.view.choose(data.entry?.id);
  return own(tree.key, tree.view.node);
}

const part = (title, doc) => (doc ? el('details', {}, el('summary', {}, title), code(doc.text, title), doc.cut ? soft('This is the beginning; the rest is too long to show.') : '') : '');

function entryOf({ entry: e, why }, context) {
  return el('article', { 'data-key': e.id },
    el('p', { class: 'crumbs' }, el('a', { href: '#/catalog' }, 'Catalog'), ' / ', serverLink(e.upstream)),
    el('h2', { class: 'big', tabindex: '-1' }, e.title || e.raw_name),
    el('p', { class: 'id' }, el('code', { id: 'tool-id' }, e.id), ' ', copyButton(e.id)),
    el('p', {}, (e.tags ?? []).map((tag) => el('span', { class: `tag ${{ 'read-only': 'good', destructive: 'danger' }[tag] ?? ''}` }, tag)), aside(countText(e.tokens, 'token'))),
    e.uri ? el('p', {}, el('code', {}, e.uri)) : '',
    e.schema_error ? bad(`Its schema is broken: ${e.schema_error}`) : '',
    el('p', { class: 'text description' }, e.description || 'Its server gives no description.'), e.description_cut ? soft('This is the beginning; the rest is too long to show.') : '',
    why?.words?.length ? reasons(why) : '',
    trial ? tryIt(trial, e, context) : '',
    card('Definition', part('What an agent reads', { text: e.card }), part('Input schema', e.input_schema), part('Output schema', e.output_schema), part('Arguments', e.arguments), part('Annotations', e.annotations)));
}

const percent = (share) => `${Math.round(100 * share)} %`;
const matches = { form: ', another form of it', synonym: ', a synonym', related: ', a related word' };

// reasons shows what each word of the query adds to the score, in which fields, and the cosine where there are vectors.
const reasons = (why) => keyed('why', card(why.rank ? `Why it is number ${numberText(why.rank)}` : 'Why it does not fit', el('dl', { class: 'why' }, why.words.map((one) => el('div', {},
  el('dt', {}, one.word), el('dd', {}, el('meter', { min: '0', max: '1', value: String(one.share), 'aria-label': `share of ${one.word}` }), ' ',
    one.share ? [percent(one.share), one.match && one.match !== 'word' ? aside(` through ${one.through}${matches[one.match]}`) : ''] : 'not in it',
    one.fields ? el('div', {}, one.fields.map((f) => el('span', { class: 'tag', title: `One occurrence in this field counts ${f.weight}` }, `${f.field} × ${f.weight}: ${percent(f.share)}`))) : ''))),
  why.cosine === undefined ? '' : el('div', {}, el('dt', {}, 'meaning'), el('dd', {}, el('meter', { min: '0', max: '1', value: String(Math.max(0, why.cosine)), 'aria-label': 'cosine' }), ` cosine ${why.cosine.toFixed(3)}`))),
  soft('Shares of the best match by words: field × what one occurrence there counts. Names, spelling and neighbours of words add a little.')));
