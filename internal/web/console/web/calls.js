// The history of calls, and calls as they come.
import { follow, get } from './api.js';
import { button, card, clockText, code, countText, durationText, el, empty, fact, heading, numberText, serverLink, shortID, soft, svg, table } from './dom.js';

export const live = true; // the stream tells what is new

const most = 500, inSession = 100;
let exchange; // of the call that is shown: { id, arguments, result } or { id, refused }
let captures = false; // arguments and results are kept
let one; // the call that is shown
let calls = [], session = [], before, filter = {}, following, state = '', lost = 0, held = false, drawing = false, context, route;

export async function load(given, frame) {
  context = frame;
  route = given;
  filter = Object.fromEntries(['session', 'principal', 'server', 'tool', 'run', 'errors'].map((name) => [name, given.query.get(name) ?? '']));
  const answer = await get('calls', { ...filter, limit: 200 });
  calls = answer.calls;
  before = answer.before;
  captures = answer.captures;
  lost = 0;
  const [id] = given.rest;
  one = id && (calls.find((each) => each.id === id) ?? await older(id));
  session = (one || filter.session) ? (await get('calls', { session: one ? one.session : filter.session, limit: inSession })).calls : [];
  if (exchange?.id !== id) exchange = undefined;
  if (id && captures && frame.me.operates && !exchange) {
    const asked = await get(`calls/${encodeURIComponent(id)}/exchange`).catch((error) => ({ id, refused: error.message }));
    if (route.rest[0] === id) exchange = asked; // another call may be shown by now
  }
  start();
  return {};
}

// older asks for a call that is not among the newest.
async function older(id) {
  const [run, number] = id.split('.');
  const { calls: [found] } = await get('calls', { before: `${run}.${Number(number) + 1}`, limit: 1 }).catch(() => ({ calls: [] }));
  return found?.id === id ? found : undefined;
}

// start follows the stream as long as the page is open, and again when it breaks.
function start() {
  stop();
  const mine = following = new AbortController();
  (async () => {
    while (!mine.signal.aborted && location.hash.startsWith('#/calls')) {
      try {
        await follow(calls[0]?.id, mine.signal, (kind, data, id) => {
          if (mine.signal.aborted) return;
          if (!location.hash.startsWith('#/calls')) { mine.abort(); return; }
          if (kind === 'open') say('live');
          if (kind === 'missed') { lost += data.missed || 0; say(state); }
          if (kind !== 'call' || !(data.meta_tool || data.method) || calls.some((one) => one.id === id) || !fits(data)) return;
          calls.unshift({ ...data, id });
          calls.length = Math.min(calls.length, most);
          const shown = one ? one.session : filter.session;
          if (shown && data.session === shown && !session.some((each) => each.id === id)) session = [{ ...data, id }, ...session].slice(0, inSession);
          say(state);
        });
        say('The connection ended; trying again.');
      } catch (error) {
        if (mine.signal.aborted) return;
        say(error.status ? error.message : 'The connection was lost; trying again.');
        if (error.status === 401 || error.status === 403) return;
      }
      await new Promise((done) => { setTimeout(done, 5000); });
    }
  })();
}

export function stop() { following?.abort(); }
addEventListener('hashchange', () => { if (!location.hash.startsWith('#/calls')) stop(); });

const fits = (e) => (!filter.session || e.session === filter.session) && (!filter.principal || e.principal === filter.principal) && (!filter.server || e.upstream === filter.server) && (!filter.tool || e.tool_id?.startsWith(filter.tool)) && (!filter.run || e.run === filter.run) && (!filter.errors || failed(e));

// say draws once a frame at most, and not while a person reads.
function say(text) {
  state = text;
  if (drawing || held) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    if (context.route.page === 'calls' && getSelection().isCollapsed) context.draw();
  });
}

const failed = (e) => Boolean(e.code || e.is_error);

const ended = (e) => {
  if (e.code) return el('span', { class: 'bad' }, '▲ ', e.scope ? `${e.code} (${e.scope})` : e.code);
  if (e.is_error) return el('span', { class: 'bad' }, '▲ error of the tool');
  if (e.event === 'execute.cache_hit') return el('span', { class: 'ok' }, '● from the cache');
  if (e.dry_run) return '○ dry run';
  if (e.unread) return '○ passed on unread';
  return el('span', { class: 'ok' }, '● ok');
};


const change = (changes) => {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...filter, ...changes })) if (value) query.set(name, value);
  location.hash = `#/calls${query.size ? `?${query}` : ''}`;
};

export function view(_data, frame) {
  if (route.rest[0]) return one ? detail(one) : [heading('Calls'), empty('This call is forgotten', el('p', {}, 'The last 1,000 calls are kept. ', el('a', { href: '#/calls' }, 'All calls')))];
  const several = filter.principal || calls.some((e) => e.principal && e.principal !== 'local');
  const filters = [['session', 'Session'], ['principal', 'Caller'], ['server', 'Server'], ['tool', 'Tool'], ['run', 'Run']].filter(([name]) => filter[name]);
  return [
    heading('Calls', 'Who called what, and how it ended'),
    captures ? el('p', { class: 'notice' }, '◐ The arguments and results of the last 200 calls are kept for operators (', el('code', {}, 'console.capture'), '), without the secrets that weir knows.') : '',
    el('div', { class: 'controls' },
      el('input', { type: 'search', id: 'filter', placeholder: 'tool, such as files:read', 'aria-label': 'Only tools whose id begins so', autocomplete: 'off', value: filter.tool, change: (event) => change({ tool: event.target.value.trim() }) }),
      el('label', {}, el('input', { type: 'checkbox', id: 'errors', checked: Boolean(filter.errors), change: (event) => change({ errors: event.target.checked ? '1' : '' }) }), ' errors only'),
      el('label', {}, el('input', { type: 'checkbox', change: (event) => { held = event.target.checked; if (!held) say(state); } }), ' pause'),
      filters.map(([name, text]) => button({ class: 'tag', title: 'Show all again', click: () => change({ [name]: '' }) }, `${text}: ${filter[name]} ✕`)),
      el('span', { class: 'soft', role: 'status' }, state === 'live' ? '● live' : state, lost ? `, ${countText(lost, 'call')} came faster than this page reads` : '')),
    calls.length === 0 ? empty(filters.length || filter.errors ? 'No call fits' : 'No calls yet', el('p', {}, filters.length || filter.errors ? el('a', { href: '#/calls' }, 'Show all calls') : ['Call a tool from a client, or ', el('a', { href: '#/catalog' }, 'try one here'), '.']))
      : [filter.session ? sessionOf() : '', table([['Time', 'time'], ['Tool', 'name'], ['Result'], ['Took', 'number'], ['Tokens', 'number'], ['Without weir', 'number'], ['Session'], ['Server', 'name'], ...(several ? [['Caller', 'name']] : []), ['Client', 'name']],
        calls.map((e) => ({ key: e.id, class: failed(e) ? 'failure' : undefined, cells: [
          el('a', { href: `#/calls/${e.id}` }, clockText(e.time)), el('span', { title: e.tool_id }, e.run && e.meta_tool !== 'tool_run' ? '↳ ' : '', shortID(e.tool_id) || e.meta_tool || e.method), ended(e), durationText(e.duration_ms),
          e.tokens_read === undefined ? '' : numberText(e.tokens_read), e.tokens_raw === undefined ? '' : numberText(e.tokens_raw),
          only('session', e.session, e.session?.slice(0, 6)), only('server', e.upstream), ...(several ? [only('principal', e.principal)] : []), e.client ?? ''] })), 'Calls')],
    before ? el('p', {}, button({ click: () => frame.run(async () => {
      const older = await get('calls', { ...filter, before, limit: 200 });
      calls.push(...older.calls);
      before = older.before;
      frame.draw();
    }) }, 'Older calls')) : '',
  ];
}

// only is a value of a call: a click shows those that share it.
const only = (name, value, text = value) => (!value ? '' : filter[name] === value ? text : button({ class: 'quiet', title: `Only calls of ${value}`, click: () => change({ [name]: value }) }, text));

const stepNames = [['check', 'Look-up and checks'], ['policy', 'Policy, quotas and approval'], ['prepare', 'Cache, tables and retries'], ['connect', 'Connection'], ['server', 'The server'], ['result', 'Result for the agent']];

// bar draws how long a call took, next to the longest of its session, and where that time went.
function bar(e, longest) {
  const all = e.steps_ms ? stepNames.map(([name]) => e.steps_ms[name] ?? 0) : [e.duration_ms], sum = all.reduce((a, b) => a + b, 0) || 1;
  const width = Math.max(4, (1000 * e.duration_ms) / longest);
  let x = 0;
  return svg('svg', { class: 'steps-bar', viewBox: '0 0 1000 10', preserveAspectRatio: 'none', role: 'img', 'aria-label': e.steps_ms ? stepNames.filter(([name]) => e.steps_ms[name]).map(([name, text]) => `${text} ${durationText(e.steps_ms[name])}`).join(', ') : durationText(e.duration_ms) },
    all.map((took, i) => { const w = (width * took) / sum, at = x; x += w; return took ? svg('rect', { class: e.steps_ms ? `step-${stepNames[i][0]}` : 'bar', x: at, width: w, height: 10 }, svg('title', {}, e.steps_ms ? `${stepNames[i][1]}: ${durationText(took)}` : durationText(took))) : ''; }));
}

// sessionOf shows the calls of a session in their order, with their steps.
function sessionOf(chosen) {
  const all = [...session].reverse(), longest = Math.max(...all.map((e) => e.duration_ms), 0.001);
  if (all.length === 0) return '';
  return card(chosen ? 'Its session' : 'The session in order', soft(`${countText(all.length, 'call')}${all.length >= inSession ? ', the newest' : ''}, ${countText(all.filter(failed).length, 'error')}${all[0].client ? `, by ${all[0].client}` : ''}. A bar is the time of a call, and its parts are the steps.`),
    el('ol', { class: 'timeline' }, all.map((e, i) => {
      const pause = i ? Date.parse(e.time) - e.duration_ms - Date.parse(all[i - 1].time) : 0;
      return el('li', { 'data-key': e.id, class: e.id === chosen?.id ? 'chosen' : undefined },
        el('a', { href: `#/calls/${e.id}`, 'aria-current': e.id === chosen?.id ? 'true' : undefined }, clockText(e.time)), el('span', { class: 'soft number' }, i ? `+${durationText(Math.max(0, pause))}` : ''),
        el('span', { class: 'name' }, shortID(e.tool_id) || e.meta_tool || e.method), ended(e), bar(e, longest), el('span', { class: 'number' }, durationText(e.duration_ms)));
    })),
    el('p', { class: 'legend soft' }, stepNames.map(([name, text]) => el('span', {}, el('span', { class: `swatch step-${name}` }), text))));
}

// steps shows where the time of a call went.
function steps(e) {
  if (!e.steps_ms) return card('Time', soft('The steps of this call were not measured: it passed at the URL of a single server.'));
  const all = stepNames.map(([name, text]) => [text, e.steps_ms[name] ?? 0]), most = Math.max(...all.map(([, took]) => took), 0.001);
  return card('Time', el('dl', { class: 'why', id: 'steps' }, all.map(([text, took]) => el('div', {}, el('dt', {}, text),
    el('dd', {}, el('meter', { min: '0', max: '1', value: String(took / most), 'aria-label': text }), ' ', took ? durationText(took) : '–')))));
}

// content shows the arguments and the result of a call, as far as they are kept.
function content(e) {
  if (!captures) return card('Arguments and result', soft('They are not kept. ', el('code', {}, 'console: {capture: true}'), ' in the configuration keeps those of the last 200 calls in memory, for operators.'));
  if (!context.me.operates) return card('Arguments and result', soft('They are for operators. ', button({ class: 'quiet', click: context.operate }, 'Operate')));
  if (!exchange || exchange.refused) return card('Arguments and result', soft(exchange?.refused ?? 'Asking…'));
  const part = (title, doc) => [el('h3', {}, title), doc ? code(doc.text, title) : soft('none'), doc?.cut ? soft('This is the beginning; the rest is too long to keep.') : ''];
  return card('Arguments and result', part('Arguments', exchange.arguments), part('Result', exchange.result), soft('Without the secrets that weir knows. A value under a name such as password or token is hidden whole, with all below it.'));
}

function detail(e) {
  return [
    el('p', { class: 'crumbs' }, el('a', { href: '#/calls' }, 'Calls'), ' / ', clockText(e.time)),
    heading(shortID(e.tool_id) || e.meta_tool || e.method, new Date(e.time).toLocaleString('en-GB', { hourCycle: 'h23' })),
    e.detail ? el('p', { class: failed(e) ? 'notice bad' : 'notice' }, e.detail) : '',
    el('dl', { class: 'facts' }, fact('Result', ended(e)), fact('Took', durationText(e.duration_ms), e.attempts === undefined ? 'the server was not asked' : countText(e.attempts, 'attempt')),
      fact('Tokens', e.tokens_read === undefined ? 'not counted yet' : numberText(e.tokens_read), e.tokens_raw === undefined ? '' : `${numberText(e.tokens_raw)} without weir`)),
    steps(e), content(e),
    card('Details', el('dl', { class: 'list' }, [['Caller', e.principal], ['Client', e.client], ['Session', e.session && el('a', { href: `#/calls?session=${encodeURIComponent(e.session)}` }, e.session)], ['Run', e.run && el('a', { href: `#/calls?run=${encodeURIComponent(e.run)}` }, e.run)], ['Method', e.meta_tool ?? e.method],
      ['Server', e.upstream && serverLink(e.upstream)], ['Tool', e.tool_id && el('a', { href: `#/catalog/${encodeURIComponent(e.tool_id)}` }, e.tool_id)], ['Policy', e.rule && `${e.decision}, by ${e.rule}`], ['Error', e.code], ['Limit', e.scope]]
      .filter(([, value]) => value).map(([name, value]) => [el('dt', {}, name), el('dd', {}, value)]))),
    e.session && session.length > 1 ? sessionOf(e) : '',
    card('As the event log has it', code(JSON.stringify(Object.fromEntries(Object.entries(e).filter(([name]) => name !== 'id')), undefined, 2), 'The event')),
  ];
}
