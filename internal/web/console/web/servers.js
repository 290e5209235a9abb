// Servers, and the page of each: its state, tools and log, with what operators do with it.
import { get, lines, post } from './api.js';
import * as edit from './edit.js';
import { aside, button, card, clockText, copyButton, countText, durationText, el, empty, fact, heading, numberText, pager, sizeText, soft, stateText, table, timeText } from './dom.js';

let offset = 0, words = '', restarted = {}, diagnoses = {};
const mostLines = 1000;
let log; // of the server that is shown: { name, lines, stop, paused, refused }

// follow reads the log of a server as it is written, for as long as its page is open.
function follow(name, context) {
  if (log?.name === name && !log.ended) return;
  stop();
  const mine = log = { ...(log?.name === name ? log : { name, lines: [], paused: false }), stop: new AbortController(), ended: false, refused: '' };
  let drawing = false;
  const draw = () => {
    if (drawing || mine.paused) return;
    drawing = true;
    requestAnimationFrame(() => {
      drawing = false;
      if (mine !== log || mine.stop.signal.aborted || !getSelection().isCollapsed) return;
      const at = document.getElementById('log'), last = !at || at.scrollTop + at.clientHeight > at.scrollHeight - 20;
      context.draw();
      if (last) scrollLog();
    });
  };
  const after = mine.lines.at(-1)?.seq;
  lines(`servers/${encodeURIComponent(name)}/log`, { follow: '1', lines: 200, after }, mine.stop.signal, (all) => { mine.lines = [...mine.lines, ...all].slice(-mostLines); draw(); })
    .catch((error) => { if (!mine.stop.signal.aborted) { mine.refused = error.message; draw(); } })
    .finally(() => { mine.ended = true; });
}

const scrollLog = () => { const at = document.getElementById('log'); if (at) at.scrollTop = at.scrollHeight; };
const stop = () => log?.stop.abort();
addEventListener('hashchange', () => { if (log && location.hash !== link(log.name)) { stop(); log = undefined; } });

// drawn shows the end of a log that is new.
export function drawn() {
  if (!log || log.seen || !document.getElementById('log')) return;
  log.seen = true;
  scrollLog();
}

export async function load(route, context) {
  const [name, what] = route.rest;
  if (name === '+add') return { add: true };
  if (what === 'edit') return edit.loadEdit(name, context);
  if (name === undefined) return { overview: await get('overview', words ? { limit: 500 } : { offset, limit: 100 }) };
  const server = await get(`servers/${encodeURIComponent(name)}`);
  if (context.me.operates) follow(server.name, context);
  const operator = (what) => (context.me.operates ? get(`servers/${encodeURIComponent(name)}/${what}`).catch(() => undefined) : undefined);
  const [tools, entry, sandbox] = await Promise.all([
    get('catalog', { path: `/${server.namespace || server.name}`, limit: 500 }).catch(() => undefined), operator('entry'), server.transport === 'stdio' ? operator('sandbox') : undefined,
  ]);
  return { server, tools, entry, sandbox };
}

const link = (name) => `#/servers/${encodeURIComponent(name)}`;
const since = (up) => (up.since ? timeText((Date.now() - Date.parse(up.since)) / 1000) : '');

export function view(data, context) {
  if (data.add) return edit.addView(context);
  if (data.edit) return edit.editView(data.edit, context);
  return data.server ? one(data, context) : list(data.overview, context);
}

const addLink = () => el('a', { class: 'button primary', href: '#/servers/+add' }, 'Add');

function list({ upstreams, page }, context) {
  if (page.total === 0) return [heading('Servers'), edit.told(context), empty('No servers yet', el('p', {}, addLink()), el('p', {}, 'In a shell, ', el('code', {}, 'weir init'), ' imports those of your clients.'))];
  const fits = upstreams.filter((up) => `${up.name} ${up.state} ${up.server ?? ''}`.toLowerCase().includes(words.toLowerCase()));
  return [
    heading('Servers', `${countText(page.total, 'server')} behind this gateway`, addLink()), edit.told(context),
    el('div', { class: 'controls' }, el('input', { type: 'search', placeholder: 'name or state', 'aria-label': 'Filter servers', autocomplete: 'off', input: (event) => { words = event.target.value; context.refresh(); } })),
    table([['Server', 'name'], ['State'], ['Since', 'number'], ['Tools', 'number'], ['Tokens', 'number'], ['Calls', 'number'], ['Errors', 'number'], ['Half / 95 % within', 'number'], ['Restarts', 'number'], ['Transport']],
      fits.map((up) => ({ key: up.name, cells: [
        el('a', { href: link(up.name) }, up.name), el('div', {}, stateText(up.state), up.error ? el('div', { class: 'soft clip' }, up.error) : ''), since(up),
        ...[up.tools, up.card_tokens, up.calls, up.errors].map(numberText), up.p50_ms === undefined ? '–' : `${durationText(up.p50_ms)} / ${durationText(up.p95_ms)}`, numberText(up.restarts), up.transport,
      ] })), 'Servers'),
    soft('Tokens are what the cards of its tools cost an agent that reads all of them. Durations are those of the last 1,000 calls.'),
    fits.length === 0 ? el('p', { class: 'soft', role: 'status' }, `No server fits “${words}”.`) : '',
    words ? '' : pager(page, (to) => { offset = to; context.refresh(); }),
  ];
}

function one({ server, tools, entry, sandbox }, context) {
  const note = restarted[server.name], working = server.state === 'ready' || server.state === 'idle';
  return [
    el('p', { class: 'crumbs' }, el('a', { href: '#/servers' }, 'Servers'), ' / ', server.name),
    heading(server.name, [[server.server, server.version].filter(Boolean).join(' '), server.transport, server.protocol].filter(Boolean).join(' · '),
      button({ disabled: note === 'restarting', click: () => restart(server.name, context) }, note === 'restarting' ? 'Restarting…' : 'Restart'), ...edit.buttons(server, entry, context)),
    edit.told(context),
    note && note !== 'restarting' ? el('p', { class: 'notice', role: 'status' }, note) : '',
    server.error ? el('div', { class: working ? 'notice' : 'notice bad' }, el('strong', {}, working ? 'It works, but' : 'Why it has a problem'), el('p', { class: 'text' }, server.error),
      diagnoses[server.name]?.map((one) => edit.finding(one)) ?? el('p', {}, context.me.operates
        ? button({ click: () => examine(server.name, context) }, 'Who can mend it, and how?')
        : [el('code', {}, `weir doctor ${server.name}`), ' says who can mend it, and how.'])) : '',
    el('dl', { class: 'facts' },
      fact('State', stateText(server.state), server.since ? `for ${since(server)}` : ''), fact('Calls', numberText(server.calls), `${countText(server.errors, 'error')}, ${numberText(server.in_flight)} in flight`),
      fact('Half within', server.p50_ms === undefined ? '–' : durationText(server.p50_ms), server.p95_ms === undefined ? 'no call in the history' : `95 of 100 within ${durationText(server.p95_ms)}`), fact('Tokens', numberText(server.card_tokens), 'of the cards of its tools'),
      fact('Restarts', numberText(server.restarts), server.pid ? `process ${server.pid}` : ''),
      fact('Definitions', server.held ? `${numberText(server.held)} held` : server.differs ? `${numberText(server.differs)} changed` : 'as agreed', server.differs ? el('a', { href: '#/review' }, 'review') : '')),
    card(`Tools${tools ? `, ${numberText(tools.page.total)}` : ''}`, tools && tools.cards.length
      ? el('ul', { class: 'rows' }, tools.cards.map((one) => el('li', { 'data-key': one.id }, one.folder
        ? el('span', {}, one.name, ' ', aside(one.description))
        : [el('a', { href: `#/catalog/${encodeURIComponent(one.id)}` }, one.name), one.side_effects ? el('span', { class: 'tag' }, 'side effects') : '', el('div', { class: 'soft clip' }, one.description)])))
      : soft(server.state === 'ready' || server.state === 'idle' ? 'It offers no tools.' : 'Its tools are not known yet.')),
    sandbox ? card('Sandbox', ...confinement(sandbox)) : '',
    card('Recent calls', el('p', {}, el('a', { href: `#/calls?server=${encodeURIComponent(server.name)}` }, `Calls of ${server.name}`))),
    card('Log', context.me.operates ? logOf(server.name, context) : operatorsOnly(context, 'The log is for operators: it may hold what programs tell of their data.')),
  ];
}

// confinement shows what the program of a server may use of the machine, and the hosts that it asked for.
function confinement(one) {
  const text = el('p', {}, el('span', { class: one.closed ? one.way === 'none' ? 'soft' : 'ok' : 'bad', 'aria-hidden': 'true' }, one.closed ? one.way === 'none' ? '○ ' : '● ' : '▲ '), `It runs ${one.text}.`);
  if (one.write.length === 0) return [text];
  const each = (list, none) => (list.length ? list.map((part) => el('div', {}, el('code', {}, part))) : none);
  const row = (name, ...value) => [el('dt', {}, name), el('dd', {}, ...value)];
  const limits = [one.memory && `${sizeText(one.memory)} of memory`, one.cpus && countText(one.cpus, 'processor'), one.processes && `${numberText(one.processes)} processes and threads`].filter(Boolean);
  return [text, el('dl', { class: 'list' },
    row('Reads', one.way === 'container' ? 'its image' : 'the system', each(one.read, '')), row('Changes', each(one.write, 'nothing')), row('Network', one.net.join() === 'all' ? 'as weir' : each(one.net)), row('Variables', each(one.env, 'none of its own')),
    row('Limits', limits.join(', ') || 'none'), row('Required', one.require ? 'yes: it is not started where something stays open' : 'no: it starts, and what stays open is said')),
  one.hosts.length ? table([['Host', 'name'], ['Decision'], ['Last asked', 'number']], one.hosts.map((host) => ({ key: `${host.host} ${host.refused}`, cells: [host.host, el('span', { class: host.refused ? 'bad' : 'ok' }, host.refused ? '▲ refused' : '● let through'), clockText(host.at)] })), 'Hosts that it asked for')
    : one.net.join() === 'all' || one.net.join() === 'none' ? '' : soft('It has asked for no host since weir started.')];
}

// logOf shows what a server writes to standard error, as it comes.
function logOf(name, context) {
  if (log?.name !== name || log.lines.length === 0) return soft(log?.refused || 'It has written nothing to standard error.');
  return [el('p', { class: 'row' }, el('label', {}, el('input', { type: 'checkbox', id: 'log-pause', checked: log.paused, change: (event) => { log.paused = event.target.checked; context.draw(); if (!log.paused) scrollLog(); } }), ' pause'),
    aside(log.paused ? 'paused' : log.ended ? 'The stream has ended; it begins again.' : '● live'), copyButton(log.lines.map((line) => line.text).join('\n'), 'Copy all')),
  el('pre', { class: 'log', id: 'log', tabindex: '0', role: 'log', 'aria-live': 'off', 'aria-label': `Log of ${name}` }, (log.paused ? log.kept ??= log.lines : (log.kept = undefined, log.lines)).map((line) => el('div', { 'data-key': line.seq, class: line.mark ? 'wait' : undefined }, aside(clockText(line.time), ' '), line.text)))];
}

const operatorsOnly = (context, why) => soft(why, ' ', button({ class: 'quiet', click: context.operate }, 'Operate'));

// examine asks the doctor why a server does not work.
const examine = (name, context) => context.run(async () => {
  diagnoses = { [name]: (await get('doctor', { name })).findings.filter((one) => one.level !== 'ok') };
  context.draw();
});

async function restart(name, context) {
  if (!context.me.operates) return context.operate();
  restarted[name] = 'restarting';
  diagnoses = {};
  context.draw();
  const done = await context.run(async () => {
    const after = await post(`servers/${encodeURIComponent(name)}/restart`);
    restarted[name] = `Restarted in ${(after.took_ms / 1000).toFixed(1)} s: ${after.state}, ${countText(after.tools, 'tool')}.`;
  });
  if (!done) delete restarted[name];
  setTimeout(() => { delete restarted[name]; }, 15_000);
  return context.refresh();
}
