// The nodes of a cluster: what each does, in what they differ, and taking one out of work.
import { get, post } from './api.js';
import { aside, bad, button, card, clockText, code, countText, el, empty, heading, numberText, soft, stateText, table, timeText, visible } from './dom.js';

// A node that ended is in no answer: what was seen of it is kept by its INC, until another node has its name.
const seen = new Map(), mostSeen = 200;
const drains = new Map(); // what was asked for here, by INC
let timer;

export async function load() {
  let status;
  try {
    status = await get('cluster');
  } catch (error) {
    if (error.status !== 404) throw error;
    return { none: error.message };
  }
  const now = new Set();
  for (const node of status.nodes) {
    seen.delete(node.inc);
    seen.set(node.inc, { node, at: Date.now() });
    now.add(node.inc);
  }
  const names = new Set(status.nodes.map((node) => node.name));
  const gone = [];
  for (const [inc, { node, at }] of seen) {
    if (now.has(inc)) continue;
    if (names.has(node.name) || seen.size > mostSeen) seen.delete(inc);
    else gone.push({ ...node, state: 'gone', at });
  }
  return { ...status, gone };
}

const short = (text) => (text.length > 60 ? `${text.slice(0, 60)}…` : text);
const percent = (cores) => `${Math.round(100 * cores)} %`;
const clock = (ms) => (Math.abs(ms) < 1000 ? 'agrees' : `${timeText(Math.abs(ms) / 1000)} ${ms < 0 ? 'behind' : 'ahead'}`);

// common is the configuration that more nodes have than any other one, if there is one.
function common(nodes) {
  const counts = new Map();
  for (const { config } of nodes) if (config) counts.set(config, (counts.get(config) ?? 0) + 1);
  const [first, second] = [...counts].sort((a, b) => b[1] - a[1]);
  return { differ: counts.size > 1, most: first && first[1] !== second?.[1] ? first[0] : undefined };
}

export function view(data, context) {
  if (data.none) return [heading('Nodes'), empty('One gateway', el('p', {}, data.none))];
  const { nodes, gone, warnings } = data;
  if (nodes.length === 0) return [heading('Nodes'), empty('No node yet', el('p', {}, 'The store has not acknowledged this gateway. If this stays, look at its log: it says what the store answers.'))];
  const configs = common(nodes), up = nodes.filter((node) => node.state === 'up');
  return [
    heading('Nodes', `${countText(nodes.length, 'gateway')} that act as one, ${up.length} of them up`),
    ...[...drains.values()].map((one) => progress(one, data, context)),
    ...warnings.map((text) => bad('▲ ', text)),
    nodes.length === 1 ? el('p', { class: 'notice' }, 'This node is alone: if it ends, no other one takes its sessions. Start another one with the same file.')
      : new Set(nodes.map((node) => node.version)).size > 1 ? el('p', { class: 'notice' }, 'The nodes have different versions. They work together during an upgrade: bring all to the newest one.') : '',
    table([['Node', 'name'], ['Action'], ['State'], ['Calls', 'number'], ['Sessions', 'number'], ['CPU', 'number'], ['Up', 'number'], ['Version'], ['Clock'], ['Configuration']],
      [...nodes, ...gone].map((node) => row(node, configs, up, context)), 'Nodes'),
    soft('As the marked node sees them. Calls are in flight; sessions count from their handshake. 100 % of CPU are one core. Each node tells the others every 3 seconds.'),
    ...servers(data),
    card('What it means, and what to do', el('dl', { class: 'list' },
      ...meaning('up', 'It takes calls and sessions.'),
      ...meaning('draining', 'It takes no new work, and ends the calls that run. Stop it once it has none; it works again when it is started again.'),
      ...meaning('apart', 'Its store does not answer it: it serves what needs nothing of the store. Look at the NATS servers, and at its log.'),
      ...meaning('unknown', 'It does not answer the node that shows this page.'),
      ...meaning('gone', 'It has ended, or cannot reach the store. Other nodes go on with its sessions. Calls that ran there failed with node_gone. If it should be there, look at its log and start it again.'),
      el('dt', {}, el('span', { class: 'bad' }, '▲ clock')), el('dd', {}, 'It differs: it and the clock of the node that answers are more than a minute apart. Quotas and the ends of tokens depend on clocks: set all by NTP.'),
      el('dt', {}, el('span', { class: 'bad' }, '▲ configuration')), el('dd', {}, 'It differs: most nodes have another file, so answers depend on the node. Give all the same file, and reload it.')),
    el('p', {}, 'In a shell:'), code('weir cluster\nweir cluster drain NODE', 'The same in a shell', 'command')),
  ];
}

// servers are those that one node has for all.
function servers({ servers = [] }) {
  if (servers.length === 0) return [];
  return [el('h2', {}, 'Servers that run once'),
    table([['Server', 'name'], ['Holder']], servers.map((one) => ({ key: one.name, cells: [
      el('strong', {}, short(one.name)),
      one.node ? [short(one.node), ' ', aside(el('code', {}, short(one.inc)))] : el('span', { class: 'tag danger' }, '▲ none'),
    ] })), 'Servers that run once'),
    soft('These have scope: cluster. The holder runs the server, and agents call it at all nodes. Without a holder, another node takes the server over within 25 seconds.')];
}

const meaning = (state, text) => [el('dt', {}, stateText(state)), el('dd', {}, text)];

function row(node, configs, up, context) {
  const gone = node.state === 'gone', differs = !gone && configs.differ && node.config && node.config !== configs.most;
  return { key: node.inc, cells: [
    el('div', { class: 'node' }, el('strong', {}, short(node.name)), node.self && !gone ? [' ', el('span', { class: 'tag' }, 'answers')] : '', el('div', { class: 'soft' }, el('code', {}, short(node.inc))), node.url ? el('div', { class: 'soft' }, short(node.url.replace(/^.*?:\/\//, ''))) : ''),
    node.state === 'up' ? button({ 'aria-label': `Drain ${visible(short(node.name))}`, disabled: drains.get(node.inc)?.asked, click: () => ask(node, up, context) }, 'Drain') : '',
    el('div', {}, stateText(short(node.state)), gone ? el('div', { class: 'soft' }, `seen until ${clockText(node.at)}`) : '',
      node.skewed && !gone ? el('div', {}, el('span', { class: 'tag danger' }, '▲ clock')) : '', differs ? el('div', {}, el('span', { class: 'tag danger' }, '▲ configuration')) : ''),
    ...(gone ? ['–', '–', '–', '–'] : [numberText(node.calls), numberText(node.sessions), percent(node.cpu), timeText(Date.now() / 1000 - node.started)]),
    short(node.version ?? ''), gone ? '–' : clock(node.skew_ms), node.config ? el('code', {}, short(node.config)) : '–',
  ] };
}

// ask asks whether a node shall drain. The dialog is outside of what is drawn again. The button that opened it is disabled
// then, so the focus goes to what is told of the drain.
function ask(node, up, context) {
  if (!context.me.operates) return context.operate();
  const name = short(node.name);
  const dialog = /** @type {HTMLDialogElement} */ (el('dialog', { 'aria-labelledby': 'drain-title', close: () => { dialog.remove(); document.getElementById(`drain ${node.inc}`)?.focus(); } }, el('form', { method: 'dialog', submit: (event) => { if (event.submitter?.value === 'drain') drain(node, context); } },
    el('h2', { id: 'drain-title' }, `Drain ${name}?`),
    el('p', {}, `Sessions go on at other nodes (${numberText(node.sessions)} now), streams end so that clients connect again, and calls that run may end (${numberText(node.calls)} now). It takes new work only after it is started again.`),
    up.length < 2 ? bad('▲ No other node is up: clients find no gateway that takes their work.') : '',
    el('p', { class: 'row' }, el('button', {}, 'Cancel'), el('button', { id: 'drain', class: 'danger', value: 'drain' }, 'Drain')))));
  document.body.append(dialog);
  dialog.showModal();
}

async function drain(node, context) {
  const one = { node, from: node.calls, asked: true, error: '' };
  drains.set(node.inc, one);
  context.draw();
  try {
    await post(`cluster/nodes/${encodeURIComponent(node.inc)}/drain`);
  } catch (error) {
    one.asked = false;
    one.error = error.message;
  }
  context.refresh();
}

// progress says how far a drain is, and looks each second until it is done.
function progress(one, data, context) {
  const { node, error } = one, name = short(node.name), now = data.nodes.find((each) => each.inc === node.inc);
  const close = button({ class: 'quiet', 'aria-label': `Close what is told of ${visible(name)}`, click: () => { drains.delete(node.inc); context.draw(); } }, 'Close');
  const said = (kind, ...parts) => el('div', { class: `notice ${kind}`, 'data-key': `drain ${node.inc}`, id: `drain ${node.inc}`, tabindex: '-1', role: 'status' }, ...parts);
  if (error) return said('bad', el('p', {}, `▲ ${name} does not drain: `, error, ' ', close));
  if (!now) return said('ok', el('p', {}, `■ ${name} has ended. `, close));
  if (now.state !== 'up' && now.calls === 0) return said('ok', el('p', {}, `● ${name} is drained: stop it, or start it again. `, close));
  clearTimeout(timer);
  timer = setTimeout(() => { if (context.route.page === 'nodes') context.refresh(); }, 1000);
  one.from = Math.max(one.from, now.calls);
  return said('', el('p', {}, `◐ ${name} drains: ${countText(now.calls, 'call')} to end.`), el('progress', { max: String(one.from || 1), value: String(one.from - now.calls), 'aria-label': `Calls of ${visible(name)} that have ended` }));
}
