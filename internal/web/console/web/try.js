// Try: a form for an entry of the catalog, its call with what the server says and asks on the way, and the answer.
import { request } from './api.js';
import { aside, button, card, clockText, code, countText, el, inRow, keyed, own, pretty, soft, table } from './dom.js';
import { exactly, form, schemaOf, secretName, spell } from './form.js';

const mostTries = 10, mostHeard = 200, mostRows = 200;
const triesKey = 'weir-tries';

// A trial is what a person does with one entry: { id, form, tool, params(raw, dry), … }. begin makes it, and undefined for an
// entry of which the definition cannot be read.
export function begin(e) {
  const base = { id: e.id, name: e.title || e.raw_name, kind: e.kind, how: 'agent', heard: [] };
  const id = JSON.stringify(e.id);
  try {
    switch (e.kind) {
      case 'tool': return { ...base, form: form(e.input_schema ? schemaOf(e.input_schema.text) : {}), tool: 'tool_execute', params: (raw, dry) => `{"tool_id":${id},"args":${raw}${dry ? ',"dry_run":true' : ''}}` };
      case 'resource': return { ...base, form: undefined, tool: 'resource_read', params: () => `{"resource_id":${id}}` };
      case 'resource_template': {
        const names = [...(e.uri ?? '').matchAll(/\{[+#./;?&]?([^}]+)\}/g)].flatMap(([, list]) => list.split(',').map((name) => name.replace(/[*:].*$/, '')));
        const mine = { ...base, form: undefined, tool: 'resource_read', params: (raw) => `{"resource_id":${id},"args":${raw}}` };
        mine.form = form({ type: 'object', properties: Object.fromEntries(names.map((name) => [name, { type: 'string' }])) }, (name, value) => complete({ type: 'ref/resource', uri: e.id }, name, value, mine));
        return mine;
      }
      case 'prompt': {
        const all = e.arguments ? JSON.parse(e.arguments.text) : [];
        const mine = { ...base, form: undefined, tool: 'prompt_get', params: (raw) => `{"prompt_id":${id},"args":${raw}}` };
        mine.form = form({ type: 'object', properties: Object.fromEntries(all.map((one) => [one.name, { type: 'string', description: one.description }])), required: all.filter((one) => one.required).map((one) => one.name) },
          (name, value) => complete({ type: 'ref/prompt', name: e.id }, name, value, mine));
        return mine;
      }
    }
  } catch { return undefined; }
  return undefined;
}

// complete returns what the server suggests for an argument, next to those that are entered.
async function complete(ref, name, value, mine) {
  const { [name]: _, ...others } = mine.form.peek();
  const answer = JSON.parse(await request('completion/complete', '', JSON.stringify({ ref, argument: { name, value }, context: { arguments: others } })));
  return answer.result?.completion?.values ?? [];
}

let drawing = false;
let inSight; // the trial that is drawn
const soon = (context) => {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => { drawing = false; context.draw(); });
};

// send sends a call, or its answers to questions, and keeps what comes of it.
async function send(mine, tool, params, more, context) {
  mine.running = new AbortController();
  mine.answer = mine.failed = mine.questions = undefined;
  context.draw();
  const since = performance.now();
  try {
    const answer = await request('tools/call', tool, `{"name":${JSON.stringify(tool)},"arguments":${params}${more}}`, { signal: mine.running.signal, hear: (message) => { hear(mine, message); soon(context); } });
    const { result } = JSON.parse(answer);
    if (result?.resultType === 'input_required') mine.questions = asked(tool, params, result);
    else mine.answer = answer;
  } catch (error) {
    mine.failed = mine.running.signal.aborted ? 'You cancelled the call.' : error.message;
  }
  mine.took += performance.now() - since;
  mine.running = undefined;
  if (!mine.questions && mine.raw !== undefined && mine.kind !== 'program') remember(mine);
  context.draw();
  if (mine.questions && mine === inSight) /** @type {HTMLElement | null} */ (document.querySelector('#questions :is(.field :is(input, select, textarea), textarea, a)') ?? document.getElementById(mine.questions.all.some((one) => one.approval) ? 'decline' : 'accept'))?.focus();
}

function start(mine, dry, context) {
  const raw = mine.form ? mine.form.raw() : '{}';
  if (raw === undefined || mine.running) return;
  Object.assign(mine, { raw, heard: [], progress: undefined, took: 0 });
  send(mine, mine.tool, mine.params(raw, dry), '', context);
}

// view asks for a task: its result, or its end.
function viewTask(mine, handle, type, context) {
  mine.took = 0;
  send(mine, 'tool_view', JSON.stringify({ handle, selector: { type } }), '', context);
}

// hear keeps a notification that came before the answer.
function hear(mine, { method, params }) {
  if (method === 'notifications/progress') mine.progress = params;
  if (method.startsWith('notifications/tasks/')) return; // the same as progress
  const text = method === 'notifications/progress' ? params?.message : method === 'notifications/message' ? params?.data : method;
  if (text === undefined || text === null || text === '') return;
  mine.heard.push({ at: Date.now(), level: method === 'notifications/message' ? params.level : method === 'notifications/progress' ? 'progress' : 'notice', text: typeof text === 'string' ? text : JSON.stringify(text) });
  if (mine.heard.length > mostHeard) mine.heard.shift();
}

// asked makes a form of each question that a server asks before it answers.
function asked(tool, params, { inputRequests, requestState }) {
  const all = Object.entries(inputRequests ?? {}).map(([key, { method, params: p = {} }]) => {
    if (method === 'sampling/createMessage') {
      const input = el('textarea', { id: `says-${key}`, rows: '4', 'aria-label': 'The answer of the model' });
      const said = (p.messages ?? []).map((one) => `${one.role}: ${[one.content].flat().map((part) => part?.text ?? `[${part?.type}]`).join(' ')}`);
      return { key, sampling: true, title: 'The server asks for a completion of a model', text: [p.systemPrompt, ...said].filter(Boolean).join('\n\n'), node: input,
        accept: () => ({ role: 'assistant', content: { type: 'text', text: input.value }, model: 'a person at the console', stopReason: 'endTurn' }) };
    }
    if (method !== 'elicitation/create') return { key, title: `The server asks ${method}, which this page cannot answer`, text: '', accept: () => ({ action: 'cancel' }) };
    if (p.mode === 'url') {
      const safe = /^https?:\/\//i.test(p.url ?? '');
      return { key, title: 'The server sends you to a web page', text: p.message, node: safe ? el('p', {}, el('a', { href: p.url, target: '_blank', rel: 'noopener noreferrer' }, p.url)) : el('code', {}, p.url ?? ''), accept: () => ({ action: 'accept' }) };
    }
    if (key.startsWith('approve-') && Object.keys(p.requestedSchema?.properties ?? {}).length === 0) return { key, approval: true, title: 'The policy asks for your yes', text: p.message, accept: () => ({ action: 'accept' }) };
    const fields = form(p.requestedSchema ?? {});
    return { key, approval: key.startsWith('approve-'), title: key.startsWith('approve-') ? 'The policy asks for your yes' : 'The server asks you', text: p.message, node: fields.node, accept: () => { const raw = fields.raw(); return raw === undefined ? undefined : { action: 'accept', content: new Verbatim(raw) }; } };
  });
  return { tool, params, state: requestState, all };
}

// Verbatim is a JSON text within an answer: its numbers keep their digits.
class Verbatim { constructor(text) { this.text = text; } }

const spelled = (value) => (value instanceof Verbatim ? value.text : value && typeof value === 'object' ? `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}:${spelled(one)}`).join(',')}}` : JSON.stringify(value));

function reply(mine, action, context) {
  const { tool, params, state, all } = mine.questions;
  const answers = {};
  for (const one of all) {
    answers[one.key] = action === 'accept' ? one.accept() : { action };
    if (answers[one.key] === undefined) return; // the form says what is wrong
  }
  send(mine, tool, params, `,"inputResponses":${spelled(answers)}${state === undefined ? '' : `,"requestState":${JSON.stringify(state)}`}`, context);
}

// questions shows what the server asks.
function questions(mine, context) {
  const { all } = mine.questions, approvals = all.every((one) => one.approval);
  const answer = (action, text, kind) => button({ id: action, class: kind, click: () => reply(mine, action, context) }, text);
  return el('section', { id: 'questions', class: 'notice asks', 'aria-label': 'Questions of the server' }, all.map((one) => el('div', { 'data-key': one.key }, el('h3', {}, one.title), one.text ? el('p', { class: 'text' }, one.text) : '',
    one.node ? own(`answer ${one.key}`, one.node) : '')),
  soft(approvals ? mine.kind === 'program' ? 'The calls before are made. Your answer stays at the gateway.' : 'Nothing has run yet. Your answer stays at the gateway.' : 'What you enter goes to this server.'),
  inRow(approvals ? [answer('accept', 'Allow this call', 'primary'), answer('decline', 'Do not run it')] : [answer('accept', 'Send the answer', 'primary'), answer('decline', 'Decline'), answer('cancel', 'Cancel the call')]));
}

// said shows the notifications of a call as they come.
function said(mine) {
  const { progress, total } = mine.progress ?? {};
  return [
    mine.progress && mine.running ? inRow(el('progress', { max: total ? String(total) : undefined, value: total ? String(progress) : undefined, 'aria-label': 'Progress' }), aside(total ? `${progress} of ${total}` : '')) : '',
    mine.heard.length ? keyed('heard', el('details', { open: true }, el('summary', {}, `${countText(mine.heard.length, 'message')} of the server`), el('pre', { class: 'log', id: 'heard', tabindex: '0', role: 'log', 'aria-label': 'Messages of the server' }, mine.heard.map((one) =>
      el('div', {}, aside(clockText(one.at), ' '), el('span', { class: /err|crit|alert|emerg/.test(one.level) ? 'bad' : /warn/.test(one.level) ? 'wait' : 'soft' }, one.level, ' '), one.text))))) : '',
  ];
}

export function tryIt(mine, e, context) {
  inSight = mine;
  const title = { prompt: 'Get it', resource: 'Read it', resource_template: 'Read one', program: 'Run it' }[e.kind] ?? 'Try it';
  return keyed('try', card(title, mine.form ? own(`form ${e.id}`, mine.form.node) : '',
    inRow(button({ id: 'call', class: 'primary', disabled: Boolean(mine.running || mine.questions), click: () => start(mine, false, context) }, mine.running ? 'Running…' : e.kind === 'tool' ? 'Call' : e.kind === 'program' ? 'Run' : e.kind === 'prompt' ? 'Get' : 'Read'),
      e.kind === 'tool' ? button({ disabled: Boolean(mine.running || mine.questions), click: () => start(mine, true, context) }, 'Dry run') : '',
      mine.running ? button({ id: 'stop', click: () => mine.running?.abort() }, 'Cancel') : '',
      e.kind === 'tool' && mine.form ? button({ class: 'quiet', click: async (event) => { const raw = mine.form.raw(); if (raw === undefined) return; const button = event.currentTarget; await navigator.clipboard.writeText(shell(e.id, raw)); button.textContent = 'Copied'; } }, 'Copy as weir call') : ''),
    soft('A call has your rights at ', el('code', {}, '/mcp'), ', and counts as one of an agent.', e.destructive ? ' This tool may destroy data.' : ''),
    said(mine), mine.questions ? keyed('questions', questions(mine, context)) : '',
    mine.failed ? el('p', { class: 'notice bad', role: 'alert' }, mine.failed) : '', mine.answer ? keyed('outcome', outcome(mine, context)) : '', triesOf(mine)));
}

const shell = (id, raw) => `weir call '${id.replaceAll("'", "'\\''")}' --json='${raw.replaceAll("'", "'\\''")}'`;

const plain = (value) => Boolean(value) && Object.getPrototypeOf(value) === Object.prototype;

// rowsOf finds the rows in a result: an array of objects, as it is or as the only array of an object.
function rowsOf(text) {
  if (!/^\s*[[{]/.test(text ?? '')) return undefined;
  try {
    const value = exactly(text);
    const all = Array.isArray(value) ? [value] : Object.values(value).filter(Array.isArray);
    const rows = all.length === 1 ? all[0] : [];
    return rows.length && rows.every(plain) ? rows : undefined;
  } catch { return undefined; }
}

function rowTable(rows) {
  const columns = [...new Set(rows.slice(0, mostRows).flatMap((row) => Object.keys(row)))].slice(0, 30);
  const cell = (value) => (value === undefined ? '' : typeof value === 'string' ? value : spell(value));
  const numeric = columns.map((name) => rows.slice(0, mostRows).every((row) => row[name] === undefined || row[name] === null || (/^-?\d/.test(cell(row[name])) && typeof row[name] !== 'string')));
  return [table(columns.map((name, i) => [name, numeric[i] ? 'number' : 'value']), rows.slice(0, mostRows).map((row) => columns.map((name) => cell(row[name]))), 'The result as a table'),
    rows.length > mostRows ? soft(`The first ${mostRows} of ${countText(rows.length, 'row')}.`) : ''];
}

const pictures = /^image\/(png|jpeg|gif|webp)$/;

// shown makes an element of one block of a result.
function shown(one) {
  if (one.text !== undefined) return code(one.text, 'The result');
  if (one.type === 'image' && pictures.test(one.mimeType) && /^[A-Za-z0-9+/=]*$/.test(one.data ?? '')) return el('img', { class: 'picture', alt: 'The picture that the tool returned', src: `data:${one.mimeType};base64,${one.data}` });
  if (one.type === 'resource' && one.resource?.text !== undefined) return code(one.resource.text, one.resource.uri ?? 'The resource');
  return code([`[${one.type}${one.mimeType ? ` ${one.mimeType}` : ''}]`, one.uri ?? one.resource?.uri ?? ''].join(' ').trim(), 'The result');
}

// outcome shows an answer as an agent reads it, as a table, or as the bytes that came.
function outcome(mine, context) {
  const message = JSON.parse(mine.answer);
  const result = message.result ?? {};
  const failed = Boolean(message.error || result.isError);
  const blocks = message.error ? [{ text: message.error.message }] : result.content ?? [];
  const texts = blocks.map((one) => one.text ?? '').join('\n');
  const handles = [...new Set(texts.match(/\bart_[A-Za-z0-9_-]+/g) ?? [])].slice(0, 3), tasks = [...new Set(texts.match(/\btask_[A-Za-z0-9_-]+/g) ?? [])].slice(0, 1);
  const rows = failed || blocks.length !== 1 ? undefined : rowsOf(blocks[0].text);
  const how = mine.how === 'table' && !rows ? 'agent' : mine.how;
  const tab = (value, name) => button({ class: 'quiet', 'aria-pressed': String(how === value), click: () => { mine.how = value; context.draw(); } }, name);
  const tasking = (type, text, handle) => button({ id: `task-${type}`, click: () => viewTask(mine, handle, type, context) }, text);
  return el('div', { id: 'outcome', class: 'outcome' },
    el('p', { class: 'row', role: 'status' }, el('strong', { class: failed ? 'bad' : 'ok' }, failed ? '▲ Error' : '● Result'), aside(`${mine.took.toFixed(0)} ms`), tab('agent', 'As an agent sees it'), rows ? tab('table', 'Table') : '', tab('raw', 'Raw'),
      handles.map((handle) => el('a', { href: `#/tables/${handle}` }, `Open ${handle}`))),
    tasks.map((handle) => inRow('It still runs, as a task. ', tasking('head', 'Wait for its result', handle), tasking('cancel', 'Cancel the task', handle))),
    how === 'raw' ? code(pretty(mine.answer), 'The raw answer') : how === 'table' ? rowTable(rows) : blocks.map(shown));
}

// --- The last tries, in this tab alone, without results and without what may be a secret. ---

const known = /\bgh[pousr]_\w{20,}|\bsk-[\w-]{16,}|\bxox[a-z]-[\w-]{10,}|\bAKIA[0-9A-Z]{16}|\beyJ[\w-]+\.[\w-]+\.|-----BEGIN|\bBearer\s+\S/;

// scrubbed returns a value without what may be a secret.
function scrubbed(value, name = '') {
  if (secretName(name) || (typeof value === 'string' && known.test(value))) return undefined;
  if (Array.isArray(value)) return value.map((one) => scrubbed(one)).filter((one) => one !== undefined);
  if (plain(value)) return Object.fromEntries(Object.entries(value).map(([key, one]) => [key, scrubbed(one, key)]).filter(([, one]) => one !== undefined));
  return value;
}

const tries = () => { try { return JSON.parse(sessionStorage.getItem(triesKey) ?? '[]'); } catch { return []; } };

function remember(mine) {
  const raw = spell(scrubbed(exactly(mine.raw)));
  const bad = mine.failed !== undefined || Boolean(JSON.parse(mine.answer ?? '{}').error || JSON.parse(mine.answer ?? '{}').result?.isError);
  const all = [{ id: mine.id, name: mine.name, raw: raw.length > 8192 ? '{}' : raw, at: Date.now(), took: Math.round(mine.took), bad }, ...tries()].slice(0, mostTries);
  mine.raw = undefined;
  try { sessionStorage.setItem(triesKey, JSON.stringify(all)); } catch { /* the browser keeps no more */ }
}

// forgetTries is for the end of a person's session in this tab.
export const forgetTries = () => sessionStorage.removeItem(triesKey);

const ended = (one) => el('span', { class: one.bad ? 'bad' : 'ok' }, one.bad ? '▲ error' : '● ok');

// lastTries lists the tries of all entries.
export function lastTries() {
  const all = tries();
  return all.length === 0 ? '' : card('Your last tries', el('ul', { class: 'rows' }, all.map((one) => el('li', {}, el('a', { href: `#/catalog/${encodeURIComponent(one.id)}` }, one.name), ' ', ended(one), ' ', aside(`${clockText(one.at)}, ${one.took} ms`), el('div', { class: 'soft clip' }, one.raw)))),
    soft('They stay in this tab, without results and secrets.'));
}

// triesOf lists the tries of an entry: one click enters their arguments again.
function triesOf(mine) {
  const all = mine.form ? tries().filter((one) => one.id === mine.id && one.raw !== '{}') : [];
  return all.length === 0 ? '' : keyed('tries', el('details', {}, el('summary', {}, `Your last ${all.length === 1 ? 'try' : `${all.length} tries`}`), el('ul', { class: 'rows' }, all.map((one) => el('li', {},
    button({ class: 'quiet', title: 'Enter these arguments again', click: () => mine.form.set(one.raw) }, el('code', {}, one.raw.slice(0, 120))), ' ', ended(one), ' ', aside(clockText(one.at)))))));
}
