// Where the gateway's files are, and what looks after it.
import { get } from './api.js';
import { card, clockText, code, countText, el, fact, heading, timeText } from './dom.js';
import { finding } from './edit.js';

let report; // of the doctor: looking, or findings and when they were found

export async function load() {
  const [setup, overview] = await Promise.all([get('setup'), get('overview', { limit: 1 })]);
  return { setup, overview };
}

export function view({ setup, overview }, context) {
  return [
    heading('Setup', `${overview.name} ${overview.version}`),
    el('dl', { class: 'facts' }, fact('Mode', overview.mode), fact('Up', timeText(overview.uptime)), fact('You are', context.me.principal, context.me.operates ? 'an operator' : 'a viewer'), fact('Tokens', setup.tokens ? 'needed' : 'not needed', setup.tokens ? '' : 'this machine alone')),
    card('Files', el('dl', { class: 'list' },
      el('dt', {}, 'Configuration'), el('dd', {}, setup.config ? el('code', {}, setup.config) : 'none: the gateway runs with defaults'),
      el('dt', {}, 'Agreed definitions'), el('dd', {}, setup.lock ? el('code', {}, setup.lock) : 'none')),
    el('p', { class: 'soft' }, 'A change of the configuration applies while the gateway runs.')),
    check(context),
    card('For programs', el('p', {}, el('a', { href: 'api/v1/openapi.json' }, '/api/v1/openapi.json'), ' describes all that this page reads. ', el('a', { href: 'metrics' }, '/metrics'), ' has figures for Prometheus, ', el('a', { href: 'healthz' }, '/healthz'), ' the state. There are pages for ', el('a', { href: './' }, 'the start'), ' and for ', el('a', { href: 'status' }, 'agents'), '.')),
  ];
}

const order = ['fail', 'warn', 'ok'];

// check runs weir doctor, for operators.
function check(context) {
  if (!context.me.operates) {
    return card('Check', el('p', {}, 'In a shell, these say what is wrong, who can mend it and how:'), code('weir doctor\nweir config check', 'Commands', 'command'),
      el('p', { class: 'soft' }, 'Operators see it here.', ' ', el('button', { type: 'button', class: 'quiet', click: context.operate }, 'Operate')));
  }
  const { looking, findings, at } = report ?? {};
  const count = (level) => (findings ?? []).filter((one) => one.level === level).length;
  return card('Check', el('p', { class: 'row' }, el('button', { type: 'button', id: 'check', class: findings ? undefined : 'primary', disabled: looking, click: () => look(context) }, looking ? 'Looking around…' : findings ? 'Look again' : 'Look around'),
    el('span', { class: 'soft', role: 'status' }, findings ? `${clockText(at)}: ${count('fail')} broken, ${count('warn')} to look at, ${count('ok')} fine` : 'The configuration, the programs of servers, the servers, the clients, the service and the disk, as weir doctor does, in 5 seconds at most.')),
  order.flatMap((level) => (findings ?? []).filter((one) => one.level === level)).map((one) => el('div', { 'data-key': `${one.id} ${one.thing} ${one.text}` }, finding(one))),
  findings?.some((one) => one.mends) ? el('p', { class: 'soft' }, el('code', {}, 'weir doctor --fix'), ` mends ${countText(findings.filter((one) => one.mends).length, 'finding')} of these: ${findings.filter((one) => one.mends).map((one) => one.mends).join('; ')}.`) : '');
}

async function look(context) {
  report = { ...report, looking: true };
  context.draw();
  const before = report;
  const ok = await context.run(async () => { report = { ...await get('doctor'), at: Date.now() }; });
  if (!ok) report = { ...before, looking: false };
  context.draw();
}
