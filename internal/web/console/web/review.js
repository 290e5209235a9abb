// What waits for a person: calls that need a yes, sessions with a label, and definitions that changed.
import { get, post } from './api.js';
import { bad, button, clockText, countText, el, empty, heading, serverLink, shortID, soft, timeText } from './dom.js';

let reasons = {};
let counts = {};

export async function load(_route, context) {
  if (!context.me.operates) return {};
  const [approvals, definitions, flow] = await Promise.all([get('approvals'), get('definitions'), get('flow/sessions')]);
  return { approvals: approvals.approvals, silent: approvals.silent ?? [], definitions, sessions: flow.sessions };
}

export function view(data, context) {
  if (!data.approvals) {
    return [heading('Review'), empty('For operators', el('p', {}, 'Calls that wait for a yes and changed definitions are for operators of this gateway.'), el('p', {}, button({ class: 'primary', click: context.operate }, 'Operate')))];
  }
  const servers = (data.definitions.servers ?? []).filter((one) => one.differences?.length || one.findings?.length);
  return [
    heading('Review', 'What waits for your decision'),
    data.definitions.error ? bad(data.definitions.error) : '',
    data.silent.length ? el('p', { class: 'notice bad', role: 'status' }, `▲ Calls may wait at ${data.silent.join(', ')}, too: no answer within two seconds.`) : '',
    data.approvals.length === 0 && !data.silent.length && servers.every((one) => !one.differences?.length) ? el('p', { class: 'notice ok' }, '● Nothing waits: no call needs a yes, and every definition is as you agreed.') : '',
    ...data.approvals.map((call) => approval(call, context)), data.sessions.length ? el('details', { class: 'card' }, el('summary', {}, `${countText(data.sessions.length, 'session')} with a label`), data.sessions.map((one) => reading(one, context))) : '', ...servers.map((one) => changed(one, context)),
  ];
}

function approval(call, context) {
  const decide = (decision) => () => context.run(async () => {
    await post(`approvals/${encodeURIComponent(call.id)}`, { decision, reason: reasons[call.id] || undefined, unseen: decision === 'approve' && call.partly ? true : undefined, calls: decision === 'approve' && call.calls > 1 ? counts[call.id] || 1 : undefined });
    delete reasons[call.id];
    delete counts[call.id];
    await context.refresh();
  });
  const left = (Date.parse(call.until) - Date.now()) / 1000;
  return el('section', { class: 'card wait', 'data-key': call.id },
    el('h2', {}, '◐ ', shortID(call.tool)), el('p', {}, `${call.principal || 'A caller'} asks to run it on `, serverLink(call.server), `${call.node ? ` at the gateway ${call.node}` : ''}, since ${clockText(call.since)}. `, el('strong', {}, `${timeText(left)} left`)),
    call.client ? soft(`Its client calls itself ${call.client}.`) : '',
    el('pre', { tabindex: '0', role: 'region', 'aria-label': 'What will run' }, call.message),
    call.partly ? bad('Not all of the arguments are shown. Approve only if you know the rest.') : '',
    call.calls > 1 ? el('p', {}, el('label', {}, `A program asks. Calls of this tool that it may make in its run (1 to ${call.calls}): `, el('input', { type: 'number', min: '1', max: String(call.calls), value: String(counts[call.id] || 1), input: (event) => { counts[call.id] = Number(event.target.value); } }))) : '',
    el('p', { class: 'row' }, el('input', { 'aria-label': 'Reason, which the agent reads', placeholder: 'reason, which the agent reads', maxlength: '500', input: (event) => { reasons[call.id] = event.target.value; } }),
      button({ class: 'primary', click: decide('approve') }, call.partly ? 'Approve unseen' : 'Approve'), button({ class: 'danger', click: decide('deny') }, 'Deny')));
}

function reading(one, context) {
  const clear = () => context.run(async () => { await post('flow/clear', { session: one.session }); await context.refresh(); });
  return el('div', { 'data-key': one.session }, el('h3', {}, one.session),
    soft(`Of ${one.principal}, ${[one.integrity, ...one.confidentiality].join(', ')}. Its model has read:`),
    el('ul', {}, one.sources.map((from) => el('li', {}, el('code', {}, shortID(from.tool)), ` ${clockText(from.at)} ${from.head ?? ''}`))),
    button({ click: clear }, 'Clear the label'));
}

function changed(one, context) {
  const accept = (what) => () => context.run(async () => { await post('definitions/accept', what); await context.refresh(); });
  return el('section', { class: 'card', 'data-key': `server ${one.server}` },
    el('div', { class: 'heading' }, el('div', {}, el('h2', {}, serverLink(one.server)),
      soft(one.differences?.length ? `${countText(one.differences.length, 'difference')}, ${{ held: 'held: clients do not see them', changed: 'changed: clients see them already', refused: 'refused: clients see nothing of this server' }[one.state] ?? one.state}` : 'as you agreed')),
    one.differences?.length > 1 ? button({ click: accept({ server: one.server, hash: one.digest }) }, 'Accept all') : ''),
    (one.differences ?? []).map((d) => el('div', { class: 'difference', 'data-key': `${d.kind} ${d.name} ${d.hash}` },
      el('h3', {}, `${d.kind} `, el('code', {}, d.name), ` ${d.change}`, d.held ? el('span', { class: 'tag danger' }, 'held') : ''),
      (d.findings ?? []).map((finding) => bad('▲ ', finding.message)),
      (d.members ?? []).map((m) => el('div', { class: 'member' }, el('code', {}, m.path), el('div', { class: 'diff' },
        m.before ? el('del', { class: 'text' }, el('span', { class: 'sign' }, '− '), m.before) : '', m.after ? el('ins', { class: 'text' }, el('span', { class: 'sign' }, '+ '), m.after) : ''))),
      el('p', {}, button({ click: accept({ server: d.server, kind: d.kind, name: d.name, hash: d.hash }) }, 'Accept')))),
    one.findings?.length ? el('details', {}, el('summary', {}, `${countText(one.findings.length, 'finding')} in definitions that you agreed to`), el('ul', {}, one.findings.map((finding) => el('li', {}, el('code', {}, finding.name), ' ', finding.message)))) : '');
}
