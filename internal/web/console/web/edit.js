// What operators change of the servers: they add, edit, switch, remove and take back. A change names the file that was seen.
import { change, get, post, Refused } from './api.js';
import { aside, button, card, countText, el, empty, heading, inRow, own, pretty, soft, stateText } from './dom.js';

const at = (name) => `servers/${encodeURIComponent(name)}`;

// last is the last change: what was done, its number, and the servers that it touched.
let last;

// told says what the last change did, with the way back.
export function told(context) {
  if (!last) return '';
  const { text, operation, problem, failed, servers = [], notes = [], busy, findings } = last;
  return el('div', { class: `notice ${problem || failed || servers.some((one) => one.error) ? 'bad' : ''}`, role: 'status', 'data-key': 'told' },
    el('p', {}, text, ' ', operation ? button({ class: 'quiet', disabled: busy, click: () => undo(context) }, busy ? 'Taking it back…' : 'Undo') : '',
      button({ class: 'quiet', click: () => { last = undefined; context.draw(); } }, 'Close')),
    problem ? el('p', { class: 'text' }, `The gateway does not use the new file: ${problem}`) : '',
    failed ? el('p', { class: 'text' }, `It is made, and a later step failed: ${failed}`) : '',
    servers.length ? el('ul', { class: 'rows' }, servers.map((one) => el('li', {}, el('a', { href: `#/${at(one.name)}` }, one.name), ' ', stateText(one.state), ' ', one.error ? el('span', { class: 'text' }, one.error) : countText(one.tools, 'tool')))) : '',
    (findings ?? []).map((one) => finding(one, ' after the change')), notes.map((one) => soft(one)));
}

// tell says what a change did that told shows.
export function tell(text, done) { last = { ...done, text }; }

const levels = { ok: ['●', 'ok'], warn: ['◆', 'wait'], fail: ['▲', 'bad'] };
const levelNames = { ok: 'fine', warn: 'to look at', fail: 'broken' };

// finding shows what the doctor found: the thing, what is wrong with it, and who mends it how.
export function finding(one, when = '') {
  const [mark, kind] = levels[one.level] ?? levels.warn;
  return el('div', { class: 'finding' },
    el('p', {}, el('span', { class: kind, 'aria-hidden': 'true' }, `${mark} `), el('span', { class: 'hidden' }, `${levelNames[one.level] ?? one.level}: `), el('strong', {}, one.thing), ' ', el('span', { class: 'text' }, one.text)),
    one.lines?.length ? el('pre', { tabindex: '0', role: 'region', 'aria-label': `What ${one.thing} wrote${when}` }, one.lines.join('\n')) : '',
    one.fix ? soft(`${one.owner}: ${one.fix}`) : '');
}

async function undo(context) {
  const mine = last;
  mine.busy = true;
  context.draw();
  const ok = await context.run(async () => { last = { ...await post(`operations/${mine.operation}/undo`), text: `Taken back: ${mine.text}` }; });
  if (!ok) mine.busy = false;
  await context.refresh();
}

// finish keeps what a change did. For a server that failed it asks the doctor.
export async function finish(text, answer) {
  last = { ...answer, text };
  const failed = (answer.servers ?? []).find((one) => one.error);
  if (failed) last.findings = (await get('doctor', { name: failed.name }).catch(() => undefined))?.findings.filter((one) => one.level !== 'ok');
}

// amend changes the entry of a server as it is now.
async function amend(name, patch, text, context) {
  if (!context.me.operates) return context.operate();
  await context.run(async () => {
    const { tag } = await get(`${at(name)}/entry`);
    await finish(text, patch ? await change('PATCH', at(name), { change: patch }, tag) : await change('DELETE', at(name), {}, tag));
    if (!patch) context.open('servers');
  });
  return context.refresh();
}

// buttons are what an operator does with a server of the configuration.
export function buttons(server, entry, context) {
  if (!entry) return [];
  const off = entry.entry.disabled === true;
  return [
    el('a', { class: 'button', href: `#/${at(server.name)}/edit` }, 'Edit'),
    button({ click: () => amend(server.name, { disabled: off ? null : true }, `${server.name} is ${off ? 'enabled' : 'disabled'}.`, context) }, off ? 'Enable' : 'Disable'),
    button({ class: 'danger', click: () => amend(server.name, undefined, `${server.name} is removed.`, context) }, 'Remove'),
  ];
}

// adding is what is being added: a text, or a server of the registry.
let adding = { from: 'text' };

const labelled = (text, id, field, about) => el('div', { class: 'field' }, el('label', { for: id }, text), about ? el('p', { class: 'soft', id: `${id}-about` }, about) : '', field);

// addView is the page that adds servers.
export function addView(context) {
  if (context.route.query.get('from') === 'registry' && !adding.asked) adding = { from: 'registry', asked: true };
  return [
    el('p', { class: 'crumbs' }, el('a', { href: '#/servers' }, 'Servers'), ' / Add'),
    heading('Add a server', 'You see what happens before it does, and can take it back'), told(context), ...addPanel(context),
  ];
}

// addPanel is what adds servers, for the page and for a gateway without any.
export function addPanel(context) {
  if (!context.me.operates) return [empty('For operators', el('p', {}, 'To add a server runs a program, so it is for operators of this gateway.'), el('p', {}, button({ class: 'primary', click: context.operate }, 'Operate')))];
  const tab = (from, name) => button({ 'aria-pressed': String(adding.from === from), click: () => { adding = { from, asked: true }; context.draw(); } }, name);
  return [
    el('div', { class: 'row', role: 'group', 'aria-label': 'Where the server comes from' }, tab('text', 'Paste'), tab('registry', 'Search the registry')),
    adding.from === 'registry' && !adding.published ? shelf(context) : card('', adding.published ? published(context) : pasting(context), adding.plan ? planned(context) : ''),
  ];
}

function pasting(context) {
  adding.form ??= el('form', { class: 'form', submit: (event) => { event.preventDefault(); plan(context); } },
    labelled('A URL, a command line, or servers of any client as JSON, TOML or YAML', 'paste', el('textarea', { id: 'paste', name: 'text', rows: '6', spellcheck: 'false', required: true, 'aria-describedby': 'paste-about' }), 'For example: the URL of a remote server, uvx mcp-server-time, or {"mcpServers": {…}}. Secrets in it go into the store of the gateway’s user.'),
    labelled('Name, if the text has none', 'paste-name', el('input', { id: 'paste-name', name: 'name', autocomplete: 'off', spellcheck: 'false' })),
    el('p', {}, el('button', { class: 'primary' }, 'Show the plan')));
  return own('pasting', adding.form);
}

// given is what is sent to plan and to add.
function given() {
  const values = adding.form ? Object.fromEntries(new FormData(adding.form)) : {};
  if (!adding.published) return { text: values.text ?? '', name: values.name || undefined };
  const { 'server-name': name, ...answers } = values;
  return { published: adding.published.id, name: name || undefined, answers: Object.fromEntries(Object.entries(answers).filter(([, value]) => value !== '')) };
}

async function plan(context) {
  adding.plan = undefined;
  await context.run(async () => {
    adding.given = given();
    adding.plan = await post('servers', { ...adding.given, plan: true });
  });
  context.draw();
  document.getElementById('confirm')?.focus();
}

const list = (title, items) => (items.length ? [el('h2', {}, title), el('ul', { class: 'rows' }, items)] : '');

// planRows show a plan: what comes, what stays, which secrets are kept.
export const planRows = (plan) => [
  list(`Into ${plan.file}`, (plan.adds ?? []).map((one) => el('li', {}, el('strong', {}, one.name), ' ', el('code', {}, one.starts)))),
  list('Left out', (plan.stay ?? []).map((one) => el('li', {}, el('strong', {}, one.name), ' ', aside(one.why)))),
  list('Secrets that go into the store', (plan.secrets ?? []).map((one) => el('li', {}, el('code', {}, one)))),
  list('Notes', (plan.notes ?? []).map((one) => el('li', { class: 'soft' }, one))),
];

function planned(context) {
  const { plan, busy } = adding;
  return el('section', { class: 'outcome', 'aria-label': 'The plan' }, planRows(plan),
    plan.adds.length === 0 ? plan.questions?.length ? '' : el('p', { role: 'status' }, 'There is nothing to add.')
      : inRow(button({ id: 'confirm', class: 'primary', disabled: busy, click: () => confirm(context) }, busy ? 'Adding, and waiting for the start…' : `Add ${countText(plan.adds.length, 'server')}`),
        aside('The gateway starts what you add, as its own user.')));
}

async function confirm(context) {
  const mine = adding;
  mine.busy = true;
  context.draw();
  await context.run(async () => {
    const answer = await change('POST', 'servers', mine.given, mine.plan.tag).catch(async (error) => {
      if (error.status === 409) mine.plan = await post('servers', { ...mine.given, plan: true });
      throw error;
    });
    adding = { from: 'text' };
    await finish(`Added ${answer.adds.map((one) => one.name).join(', ')}.`, answer);
    context.open('servers');
  });
  mine.busy = false;
  return context.refresh();
}

function shelf(context) {
  adding.search ??= el('form', { class: 'controls', submit: (event) => { event.preventDefault(); search(context, new FormData(event.target).get('words')); } },
    el('input', { type: 'search', name: 'words', 'aria-label': 'What the server should do', placeholder: 'what the server should do', autocomplete: 'off', maxlength: '200', required: true }), el('button', { class: 'primary' }, 'Search'));
  const { hits, searching } = adding;
  return card('The MCP Registry', own('shelf', adding.search), searching ? el('p', { role: 'status' }, 'Asking the registry…') : '',
    hits?.age ? soft('The registry cannot be reached; this is an earlier answer.') : '',
    hits ? hits.servers.length === 0 ? el('p', { role: 'status' }, 'The registry has nothing for these words.') : el('ul', { class: 'rows' }, hits.servers.map((one) => el('li', { 'data-key': one.id },
      button({ class: 'quiet', click: () => { adding = { from: 'registry', asked: true, hits, published: one }; plan(context); } }, one.title || one.id), ' ', aside(`${one.id} ${one.version}`), el('div', { class: 'clip' }, one.description)))) : '',
    soft('Publishers write these texts. A server of the registry is a program of theirs.'));
}

async function search(context, words) {
  const mine = adding;
  mine.searching = true;
  context.draw();
  await context.run(async () => { mine.hits = await get('registry', { query: words }); });
  mine.searching = false;
  context.draw();
}

// published asks what a server of the registry needs.
function published(context) {
  const { published: one, plan: said } = adding;
  if (said && !adding.form) {
    adding.form = el('form', { class: 'form', submit: (event) => { event.preventDefault(); plan(context); } },
      labelled('Name', 'server-name', el('input', { id: 'server-name', name: 'server-name', placeholder: one.id.split('/').at(-1), autocomplete: 'off', spellcheck: 'false' })),
      (said.questions ?? []).map((question, i) => {
        const common = { id: `question-${i}`, name: question.id, required: question.needed, 'aria-describedby': question.description ? `question-${i}-about` : undefined };
        return labelled(`${question.id}${question.needed ? ' (needed)' : ''}`, common.id, question.choices?.length
          ? el('select', common, el('option', { value: '' }, question.default ? `${question.default} if left out` : 'not set'), question.choices.map((choice) => el('option', { value: choice }, choice)))
          : el('input', { ...common, type: question.secret ? 'password' : 'text', placeholder: question.default, autocomplete: 'off', spellcheck: 'false' }), question.description);
      }),
      inRow(el('button', {}, 'Show the plan')));
  }
  return [
    el('h2', {}, one.title || one.id), soft(`${one.id} ${one.version}`), el('p', { class: 'text' }, one.description),
    el('p', {}, button({ class: 'quiet', click: () => { adding = { from: 'registry', asked: true, hits: adding.hits }; context.draw(); } }, 'Back to the search')),
    adding.form ? own('published', adding.form) : '',
  ];
}

// editing is the entry that is being edited: as it was seen, with the tag of its file.
let editing;

export async function loadEdit(name, context) {
  if (!context.me.operates) return { edit: name };
  if (editing?.name !== name) editing = begin(await get(`${at(name)}/entry`));
  return { edit: name };
}

const lines = (text) => text.split('\n').map((line) => line.trim()).filter(Boolean);
const isPlain = (value) => typeof value === 'string' && !value.includes('\n') && value === value.trim() && value !== '';

// Members of an entry with a field of their own. read takes what is in the field; a value that does not fit stays in the JSON.
/** @type {[string, string, string, (value: any) => boolean, (value: any) => any, (text: string) => any][]} */
const fields = [
  ['command', 'Command', 'The program that is started', (v) => typeof v === 'string', (v) => v, (text) => text.trim() || undefined],
  ['args', 'Arguments', 'One on each line', (v) => Array.isArray(v) && v.every(isPlain), (v) => v.join('\n'), (text) => (lines(text).length ? lines(text) : undefined)],
  ['env', 'Variables', 'NAME=VALUE on each line; ••• stands for a secret that stays', isMap, (v) => mapText(v, '='), (text) => textMap(text, '=', 'Variables')],
  ['cwd', 'Folder', '', (v) => typeof v === 'string', (v) => v, (text) => text.trim() || undefined],
  ['url', 'URL', '', (v) => typeof v === 'string', (v) => v, (text) => text.trim() || undefined],
  ['headers', 'Headers', 'NAME: VALUE on each line; ••• stands for a secret that stays', isMap, (v) => mapText(v, ': '), (text) => textMap(text, ':', 'Headers')],
  ['namespace', 'Namespace', 'The first part of its tools’ ids; the name if it is left out', (v) => typeof v === 'string', (v) => v, (text) => text.trim() || undefined],
];

function isMap(value) { return value !== null && typeof value === 'object' && !Array.isArray(value) && Object.values(value).every(isPlain); }
function mapText(value, mark) { return Object.entries(value).map(([name, one]) => `${name}${mark}${one}`).join('\n'); }
function textMap(text, mark, what) {
  const all = lines(text).map((line) => {
    const i = line.indexOf(mark);
    if (i < 1) throw new Error(`${what}: “${line.slice(0, 40)}” is no NAME${mark}VALUE.`);
    return [line.slice(0, i).trim(), line.slice(i + mark.length).trim()];
  });
  return all.length ? Object.fromEntries(all) : undefined;
}

function begin({ name, file, tag, entry }) {
  const remote = typeof entry.url === 'string';
  const shown = fields.filter(([key, , , fits]) => (entry[key] === undefined ? !(remote ? ['command', 'args', 'env', 'cwd'] : ['url', 'headers']).includes(key) : fits(entry[key])));
  const inputs = shown.map(([key, label, about, , write]) => {
    const id = `entry-${key}`;
    const input = el(['args', 'env', 'headers'].includes(key) ? 'textarea' : 'input', { id, rows: '3', autocomplete: 'off', spellcheck: 'false', 'aria-describedby': about ? `${id}-about` : undefined });
    input.value = entry[key] === undefined ? '' : write(entry[key]);
    return [key, input, labelled(label, id, input, about)];
  });
  const json = el('textarea', { id: 'entry-json', rows: '14', spellcheck: 'false', 'aria-label': 'The entry as JSON' });
  const mine = { name, file, tag, entry, asJSON: false, rest: entry };
  const place = el('div', {});
  // value is the entry as the person wants it.
  mine.value = () => {
    if (mine.asJSON) {
      const value = JSON.parse(json.value);
      if (value === null || typeof value !== 'object' || Array.isArray(value)) throw new Error('The entry must be an object.');
      return value;
    }
    const value = { ...mine.rest };
    for (const [key, input] of inputs) {
      const read = fields.find(([one]) => one === key)[5](input.value);
      if (read === undefined) delete value[key]; else value[key] = read;
    }
    return value;
  };
  mine.toggle = () => {
    const value = mine.value();
    mine.asJSON = !mine.asJSON;
    if (mine.asJSON) json.value = pretty(JSON.stringify(value));
    else {
      const odd = fields.find(([key, , , fits]) => value[key] !== undefined && (!fits(value[key]) || !inputs.some(([one]) => one === key)));
      if (odd) { mine.asJSON = true; throw new Error(`${odd[1]} fits no field of the form, so it stays JSON.`); }
      mine.rest = value;
      for (const [key, input] of inputs) input.value = value[key] === undefined ? '' : fields.find(([one]) => one === key)[4](value[key]);
    }
    fill();
  };
  const fill = () => place.replaceChildren(...(mine.asJSON ? [json] : inputs.map(([, , node]) => node)));
  fill();
  mine.node = el('div', { class: 'form' }, place);
  return mine;
}

// patchOf is the merge patch from one entry to another, undefined if they are the same.
function patchOf(from, to) {
  const patch = {};
  for (const key of new Set([...Object.keys(from), ...Object.keys(to)])) {
    const [a, b] = [from[key], to[key]];
    if (b === undefined) patch[key] = null;
    else if (isObject(a) && isObject(b)) { const inner = patchOf(a, b); if (inner) patch[key] = inner; }
    else if (JSON.stringify(a) !== JSON.stringify(b)) patch[key] = b;
  }
  return Object.keys(patch).length ? patch : undefined;
}

const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value);

export function editView(name, context) {
  const crumbs = el('p', { class: 'crumbs' }, el('a', { href: '#/servers' }, 'Servers'), ' / ', el('a', { href: `#/${at(name)}` }, name), ' / Edit');
  if (!context.me.operates || !editing) return [crumbs, heading(`Edit ${name}`), ...addPanel(context).slice(0, 1)];
  const mine = editing;
  const guarded = (work) => () => { try { mine.problem = ''; work(); } catch (error) { mine.problem = error instanceof SyntaxError ? `This is no JSON: ${error.message}` : error.message; } context.draw(); };
  return [
    crumbs, heading(`Edit ${name}`, mine.file),
    card('', inRow(button({ class: 'quiet', click: guarded(mine.toggle) }, mine.asJSON ? 'As a form' : 'As JSON')), own(`edit ${name}`, mine.node),
      mine.problem ? el('p', { class: 'bad', role: 'alert' }, mine.problem) : '',
      inRow(button({ id: 'save', class: 'primary', disabled: mine.busy, click: guarded(() => save(context, patchOf(mine.entry, mine.value()))) }, mine.busy ? 'Saving, and waiting for the start…' : 'Save'),
        button({ click: () => { editing = undefined; context.open('servers', name); } }, 'Cancel'))),
    mine.conflict ? conflict(context) : '',
  ];
}

async function save(context, patch) {
  const mine = editing;
  if (!patch) { mine.problem = 'There is nothing to save: the entry is as it was.'; return; }
  mine.busy = true;
  mine.patch = patch;
  context.draw();
  await context.run(async () => {
    try {
      const answer = await change('PATCH', at(mine.name), { change: patch }, mine.tag);
      await finish(`${mine.name} is changed.`, answer);
      editing = undefined;
      context.open('servers', mine.name);
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 409) throw error;
      mine.conflict = await get(`${at(mine.name)}/entry`);
    }
  });
  mine.busy = false;
  context.draw();
}

// conflict shows both versions where another change of the file came first.
function conflict(context) {
  const mine = editing, { conflict: theirs } = mine;
  const version = (title, entry) => el('div', {}, el('h3', {}, title), el('pre', { tabindex: '0', role: 'region', 'aria-label': title }, pretty(JSON.stringify(entry))));
  return el('section', { class: 'card wait', role: 'alert', 'aria-label': 'Another change' }, el('h2', {}, 'The file has changed since you opened it'),
    el('p', {}, 'Nothing is saved yet. Your change can be made to the newer entry: it touches only the members that you changed.'),
    el('div', { class: 'columns' }, version('In the file now', theirs.entry), version('Yours', merged(mine.entry, mine.patch))),
    inRow(button({ class: 'primary', click: () => { mine.tag = theirs.tag; mine.conflict = undefined; save(context, mine.patch); } }, 'Make my change to the newer entry'),
      button({ click: () => { editing = begin(theirs); context.draw(); } }, 'Drop mine, edit the newer one')));
}

function merged(value, patch) {
  const out = { ...value };
  for (const [key, one] of Object.entries(patch)) {
    if (one === null) delete out[key];
    else out[key] = isObject(one) && isObject(out[key]) ? merged(out[key], one) : one;
  }
  return out;
}
