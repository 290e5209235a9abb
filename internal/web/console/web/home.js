// What needs a person, and what the gateway did in the last day.
import { get } from './api.js';
import * as chart from './chart.js';
import { importing, plan, wiringPlan } from './clients.js';
import { addPanel, told } from './edit.js';
import { aside, button, card, countText, durationText, el, fact, heading, numberText, savedText, shortID, soft, stateText, timeText } from './dom.js';

export async function load(_route, context) {
  const [overview, figures, approvals, definitions, usage] = await Promise.all([
    get('overview', { limit: 500 }), get('figures'),
    context.me.operates ? get('approvals').catch(() => undefined) : undefined, context.me.operates ? get('definitions').catch(() => undefined) : undefined,
    context.me.cluster ? get('usage') : undefined,
  ]);
  return { overview, figures, approvals, definitions, usage: usage ?? overview.usage };
}

const to = (page, ...children) => el('a', { href: `#/${page}` }, ...children);

const working = (up) => up.state === 'ready' || up.state === 'idle';

// needs lists what waits for a person, the most urgent first.
function needs({ overview, approvals, definitions }) {
  const waiting = (approvals?.approvals ?? []).map((call) => el('li', {}, stateMark('starting'), to('review', `${call.principal || 'A caller'} asks to run ${shortID(call.tool)}`), aside(` on ${call.server}`)));
  if (approvals?.silent) waiting.push(el('li', {}, stateMark('failed'), to('review', `Calls may wait at ${approvals.silent.join(', ')}, too`), aside(' which did not answer')));
  const failed = overview.upstreams.filter((up) => up.state === 'failed' || (up.error && up.state !== 'disabled' && !(definitions && up.differs))).map((up) =>
    el('li', {}, stateMark(working(up) ? 'starting' : 'failed'), to(`servers/${encodeURIComponent(up.name)}`, `${up.name} ${working(up) ? 'wants a look' : up.state === 'failed' ? 'has failed' : `is ${up.state}`}`), el('div', { class: 'soft clip' }, up.error)));
  const changed = (definitions?.servers ?? []).filter((one) => one.differences?.some((d) => !d.notice)).map((one) =>
    el('li', {}, stateMark('starting'), to('review', `${one.server}: ${countText(one.differences.length, 'changed definition')}`), aside(one.state === 'held' ? ' held until you decide' : '')));
  return [...waiting, ...failed, ...changed];
}

const stateMark = (state) => el('span', { class: `mark ${state}`, 'aria-hidden': 'true' }, state === 'failed' ? '▲ ' : '◐ ');

export function view(data, context) {
  const { overview, figures } = data;
  if (overview.page.total === 0) return begin(context);
  const { total } = figures;
  const all = needs(data), bins = chart.day(figures);
  const { usage } = data, many = usage.nodes?.length > 1 || usage.silent;
  return [
    heading('Home', figures.own ? 'Your calls of the last 24 hours' : 'The last 24 hours'),
    all.length ? card('Needs attention', el('ul', { class: 'needs' }, all)) : el('p', { class: 'notice ok' }, '● Nothing needs you: ', countText(overview.page.total, 'server'), ', ', countText(overview.tools, 'tool'), '.'),
    el('dl', { class: 'facts' },
      fact('Calls', numberText(total.calls), 'in 24 h'), fact('Errors', numberText(total.errors), total.calls ? `${(100 * total.errors / total.calls).toFixed(1)} % of calls` : 'no calls yet'),
      fact('Half within', total.calls ? durationText(total.p50_ms) : '–', total.calls ? `95 of 100 within ${durationText(total.p95_ms)}` : ''),
      fact('Tokens saved', numberText(Math.max(0, total.tokens_raw - total.tokens_read)), `${savedText(total.tokens_read, total.tokens_raw)} of what results would have cost`)),
    el('div', { class: 'columns' },
      card('Calls', chart.calls(bins, total), chart.legend(['bar', 'calls'], ['bar bad', 'failed'])),
      card('Latency', chart.latency(bins, total), chart.legend(['line p95', '95 of 100 calls'], ['line p50', 'half of the calls']))),
    card('Servers', el('ul', { class: 'tiles' }, overview.upstreams.slice(0, 24).map((up) => el('li', {}, el('a', { href: `#/servers/${encodeURIComponent(up.name)}` },
      el('strong', {}, up.name), stateText(up.state), aside(countText(up.tools, 'tool')))))),
      overview.page.total > 24 ? el('p', {}, to('servers', `All ${numberText(overview.page.total)} servers`)) : ''),
    soft(`${many ? `${usage.nodes.join(', ')}, each since its start` : `Since the start ${timeText(overview.uptime)} ago`}: ${countText(usage.calls, 'call')} in ${countText(usage.sessions, usage.own ? 'open session of yours' : 'session').replace('session of yourss', 'sessions of yours')}, ${countText(usage.tokens_read, 'token')} read in place of ${numberText(usage.tokens_raw)}.`, usage.pending ? ` ${countText(usage.pending, 'result')} still to be counted.` : '', usage.silent ? ` Without ${usage.silent.join(', ')}: no answer within two seconds.` : ''),
  ];
}

// begin is the first step of a gateway without servers.
const begin = (context) => [
  heading('Home', 'No servers yet: add the first, and it appears here at once'), told(context),
  context.me.owns ? card('From your clients', el('p', { class: 'row' }, button({ class: 'primary', click: () => plan({ do: 'import' }, 'The servers of clients are imported.', context) }, 'Import…'), aside('The servers of the MCP clients on this machine come into weir. You see the plan first, and the clients’ files stay as they are.')),
    importing() ? wiringPlan(context) : '') : '',
  ...addPanel(context),
  card('In a shell', el('ul', { class: 'steps' },
    el('li', {}, el('code', {}, 'weir init'), ' imports the servers of the MCP clients on this machine'),
    el('li', {}, el('code', {}, 'weir add NAME -- COMMAND'), ' adds a program, ', el('code', {}, 'weir add NAME URL'), ' a remote server')),
  el('p', {}, to('clients', 'Then connect a client'))),
];
