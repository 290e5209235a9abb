// Where the gateway's files are, and what looks after it.
import { get, post } from './api.js';
import { aside, button, card, clockText, code, countText, el, empty, fact, heading, soft, table, timeText } from './dom.js';
import { finding, tell, told } from './edit.js';

let conf = { key: '', set: true }; // the configuration in effect: what is asked for, and the answer
let timer;
let mends; // the finding whose plan is shown
let report; // of the doctor: looking, or findings and when they were found

export async function load(_route, context) {
  const [setup, overview] = await Promise.all([get('setup'), get('overview', { limit: 1 }), context.me.operates ? settings() : undefined]);
  return { setup, overview };
}

const perPage = 200;

// settings asks for the configuration in effect, or for the page behind what is there.
async function settings(more = false) {
  const { key, set } = conf;
  const answer = await get('config', { key, set: set ? '1' : '', limit: perPage, offset: more ? conf.answer.settings.length : 0 });
  if (key !== conf.key || set !== conf.set) return; // a later question has been asked
  conf.answer = more ? { ...answer, settings: [...conf.answer.settings, ...answer.settings] } : answer;
}

export function view({ setup, overview }, context) {
  return [
    heading('Setup', `${overview.name} ${overview.version}`),
    el('dl', { class: 'facts' }, fact('Mode', overview.mode), fact('Up', timeText(overview.uptime)), fact('You are', context.me.principal, context.me.operates ? 'an operator' : 'a viewer'), fact('Tokens', setup.tokens ? 'needed' : 'not needed', setup.tokens ? '' : 'this machine alone')),
    card('Files', el('dl', { class: 'list' },
      el('dt', {}, 'Configuration'), el('dd', {}, setup.config ? el('code', {}, setup.config) : 'none: the gateway runs with defaults'),
      el('dt', {}, 'Agreed definitions'), el('dd', {}, setup.lock ? el('code', {}, setup.lock) : 'none')),
    soft('A change of the configuration applies while the gateway runs.')),
    told(context), effective(context), check(context),
    card('For programs', el('p', {}, el('a', { href: 'api/v1/openapi.json' }, '/api/v1/openapi.json'), ' describes all that this page reads. ', el('a', { href: 'metrics' }, '/metrics'), ' has figures for Prometheus, ', el('a', { href: 'healthz' }, '/healthz'), ' the state. There are pages for ', el('a', { href: './' }, 'the start'), ' and for ', el('a', { href: 'status' }, 'agents'), '.')),
  ];
}

// effective shows the configuration in effect, for operators.
function effective(context) {
  if (!context.me.operates || !conf.answer) return '';
  const again = (change, more) => context.run(async () => { Object.assign(conf, change); await settings(more); context.draw(); });
  const { settings: all, page } = conf.answer;
  return card('Configuration in effect', el('div', { class: 'controls' },
    el('input', { type: 'search', id: 'setting', placeholder: 'key, such as mcpServers.files', 'aria-label': 'Only keys that start with this text', autocomplete: 'off', maxlength: '200', value: conf.key,
      input: (event) => { const key = event.target.value.trim(); clearTimeout(timer); timer = setTimeout(() => again({ key }), 150); } }),
    el('label', {}, el('input', { type: 'checkbox', id: 'defaults', checked: !conf.set, change: (event) => again({ set: !event.target.checked }) }), ' with defaults'),
    el('span', { class: 'soft', role: 'status' }, countText(page.total, 'key'))),
  all.length ? table([['Key', 'name'], ['Value', 'text'], ['From', 'name']], all.map((one) => ({ key: one.key, cells: [el('code', {}, one.key), valueOf(one.value), one.source] })), 'Configuration in effect') : empty(conf.key ? 'No such key' : 'Nothing is set', el('p', {}, conf.key ? 'No key that has a value begins so.' : 'All keys have their defaults.')),
  all.length < page.total ? el('p', {}, button({ click: () => again({}, true) }, 'More keys')) : '',
  soft('Secrets are ***. ', el('code', {}, 'weir config show --origins'), ' prints the same.'));
}

const valueOf = (value) => (value === '***' ? aside('*** hidden') : Array.isArray(value) ? value.join(' ') : String(value));

const order = ['fail', 'warn', 'ok'];

// check runs weir doctor, for operators.
function check(context) {
  if (!context.me.operates) {
    return card('Check', el('p', {}, 'In a shell, these say what is wrong, who can mend it and how:'), code('weir doctor\nweir config check', 'Commands', 'command'),
      soft('Operators see it here.', ' ', button({ class: 'quiet', click: context.operate }, 'Operate')));
  }
  const { looking, findings, at } = report ?? {};
  const count = (level) => (findings ?? []).filter((one) => one.level === level).length;
  return card('Check', el('p', { class: 'row' }, button({ id: 'check', class: findings ? undefined : 'primary', disabled: looking, click: () => look(context) }, looking ? 'Looking around…' : findings ? 'Look again' : 'Look around'),
    el('span', { class: 'soft', role: 'status' }, findings ? `${clockText(at)}: ${count('fail')} broken, ${count('warn')} to look at, ${count('ok')} fine` : 'The configuration, the programs of servers, the servers, the clients, the service and the disk, as weir doctor does, in 5 seconds at most.')),
  order.flatMap((level) => (findings ?? []).filter((one) => one.level === level)).map((one) => el('div', { 'data-key': `${one.id} ${one.thing} ${one.text}` }, finding(one), one.mends ? mending(one, context) : '')));
}

// mending offers what weir can do about a finding: first the plan, then the change.
function mending(one, context) {
  const planned = mends === one;
  const show = (which) => () => { mends = which; context.draw(); };
  const mend = () => context.run(async () => {
    const done = await post('doctor/fix', { id: one.id, thing: one.thing, mends: one.mends });
    mends = undefined;
    tell(`Done: ${done.mends}.${done.operation ? '' : ' weir undo does not take it back.'}`, done);
    await look(context);
  });
  return planned ? el('p', { class: 'row notice' }, el('span', {}, 'weir will: ', el('code', {}, one.mends)), button({ id: 'mend', class: 'primary', click: mend }, 'Do it'), button({ click: show() }, 'Cancel'))
    : el('p', {}, button({ class: 'mend', click: show(one) }, 'Mend…'));
}

async function look(context) {
  report = { ...report, looking: true };
  context.draw();
  const before = report;
  const ok = await context.run(async () => { report = { ...await get('doctor'), at: Date.now() }; });
  if (!ok) report = { ...before, looking: false };
  context.draw();
}
