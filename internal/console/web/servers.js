// Servers, and the page of each: its state, tools and log, with what operators do with it.
import { get, post } from './api.js';
import * as edit from './edit.js';
import { card, clockText, countText, el, empty, fact, heading, numberText, pager, stateText, table, timeText } from './dom.js';

let offset = 0, words = '', restarted = {}, diagnoses = {};

export async function load(route, context) {
  const [name, what] = route.rest;
  if (name === '+add') return { add: true };
  if (what === 'edit') return edit.loadEdit(name, context);
  if (name === undefined) return { overview: await get('overview', words ? { limit: 500 } : { offset, limit: 100 }) };
  const server = await get(`servers/${encodeURIComponent(name)}`);
  const [tools, log, entry] = await Promise.all([
    get('catalog', { path: `/${server.namespace || server.name}`, limit: 500 }).catch(() => undefined),
    context.me.operates ? get(`servers/${encodeURIComponent(name)}/log`, { lines: 200 }).catch(() => undefined) : undefined,
    context.me.operates ? get(`servers/${encodeURIComponent(name)}/entry`).catch(() => undefined) : undefined,
  ]);
  return { server, tools, log, entry };
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
    table([['Server', 'name'], ['State'], ['Since', 'number'], ['Tools', 'number'], ['Calls', 'number'], ['Errors', 'number'], ['In flight', 'number'], ['Restarts', 'number'], ['Transport']],
      fits.map((up) => ({ key: up.name, cells: [
        el('a', { href: link(up.name) }, up.name), el('div', {}, stateText(up.state), up.error ? el('div', { class: 'soft clip' }, up.error) : ''), since(up),
        ...[up.tools, up.calls, up.errors, up.in_flight, up.restarts].map(numberText), up.transport,
      ] })), 'Servers'),
    fits.length === 0 ? el('p', { class: 'soft', role: 'status' }, `No server fits “${words}”.`) : '',
    words ? '' : pager(page, (to) => { offset = to; context.refresh(); }),
  ];
}

function one({ server, tools, log, entry }, context) {
  const note = restarted[server.name];
  return [
    el('p', { class: 'crumbs' }, el('a', { href: '#/servers' }, 'Servers'), ' / ', server.name),
    heading(server.name, [server.server, server.version].filter(Boolean).join(' '),
      el('button', { type: 'button', disabled: note === 'restarting', click: () => restart(server.name, context) }, note === 'restarting' ? 'Restarting…' : 'Restart'), ...edit.buttons(server, entry, context)),
    edit.told(context),
    note && note !== 'restarting' ? el('p', { class: 'notice', role: 'status' }, note) : '',
    server.error ? el('div', { class: 'notice bad' }, el('strong', {}, 'Why it has a problem'), el('p', { class: 'text' }, server.error),
      diagnoses[server.name]?.map((one) => edit.finding(one)) ?? el('p', {}, context.me.operates
        ? el('button', { type: 'button', click: () => examine(server.name, context) }, 'Who can mend it, and how?')
        : [el('code', {}, `weir doctor ${server.name}`), ' says who can mend it, and how.'])) : '',
    el('dl', { class: 'facts' },
      fact('State', stateText(server.state), server.since ? `for ${since(server)}` : ''), fact('Calls', numberText(server.calls), `${countText(server.errors, 'error')}, ${numberText(server.in_flight)} in flight`),
      fact('Restarts', numberText(server.restarts), server.pid ? `process ${server.pid}` : ''), fact('Speaks', server.transport, server.protocol),
      fact('Definitions', server.held ? `${numberText(server.held)} held` : server.differs ? `${numberText(server.differs)} changed` : 'as agreed', server.differs ? el('a', { href: '#/review' }, 'review') : '')),
    card(`Tools${tools ? `, ${numberText(tools.page.total)}` : ''}`, tools && tools.cards.length
      ? el('ul', { class: 'rows' }, tools.cards.map((one) => el('li', { 'data-key': one.id }, one.folder
        ? el('span', {}, one.name, ' ', el('span', { class: 'soft' }, one.description))
        : [el('a', { href: `#/catalog/${encodeURIComponent(one.id)}` }, one.name), one.side_effects ? el('span', { class: 'tag' }, 'side effects') : '', el('div', { class: 'soft clip' }, one.description)])))
      : el('p', { class: 'soft' }, server.state === 'ready' || server.state === 'idle' ? 'It offers no tools.' : 'Its tools are not known yet.')),
    card('Recent calls', el('p', {}, el('a', { href: `#/calls?server=${encodeURIComponent(server.name)}` }, `Calls of ${server.name}`))),
    card('Log', context.me.operates
      ? log?.lines.length ? el('pre', { class: 'log', tabindex: '0', role: 'region', 'aria-label': `Log of ${server.name}` }, log.lines.map((line) => el('div', { 'data-key': line.seq, class: line.mark ? 'wait' : undefined }, el('span', { class: 'soft' }, clockText(line.time), ' '), line.text)))
        : el('p', { class: 'soft' }, 'It has written nothing to standard error.')
      : operatorsOnly(context, 'The log is for operators: it may hold what programs tell of their data.')),
  ];
}

const operatorsOnly = (context, why) => el('p', { class: 'soft' }, why, ' ', el('button', { type: 'button', class: 'quiet', click: context.operate }, 'Operate'));

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
