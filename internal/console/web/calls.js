// Calls as they come.
import { events } from './api.js';
import { el, numberText } from './dom.js';

const most = 500; // kept here, as at the server
const shown = 200;
const calls = []; // the newest last
let parts, last, following, lost = 0, state = 'not connected', late = false;

// follow reads the stream as long as the page is open, and again when it breaks.
export function follow(context) {
  stop();
  const mine = following = new AbortController();
  (async () => {
    while (!mine.signal.aborted) {
      try {
        await events(last, mine.signal, (kind, data, id) => {
          if (mine.signal.aborted) return;
          if (kind === 'open') say('live');
          if (kind === 'missed') { lost += data.missed || 1; draw(); }
          if (kind !== 'call') return;
          last = id;
          calls.push(data);
          if (calls.length > most) calls.splice(0, calls.length - most);
          draw();
        });
        say('The connection ended; trying again.');
      } catch (error) {
        if (mine.signal.aborted) return;
        if (error.status === 401 || error.status === 403) { say(error.message); context.refused(error); return; }
        say(error.status === 503 ? error.message : 'The connection was lost; trying again.');
      }
      await new Promise((done) => { setTimeout(done, 5000); });
    }
  })();
}

export function stop() { following?.abort(); }

// forget drops what was seen with another token.
export function forget() {
  stop();
  calls.length = 0;
  last = undefined;
  lost = 0;
  draw();
}

function say(text) { state = text; draw(); }

export const refreshes = false;

export async function show(at) {
  if (!parts) {
    parts = {
      state: el('p', { class: 'soft', role: 'status' }),
      filter: el('input', { type: 'search', placeholder: 'tool, server or session', 'aria-label': 'Filter by tool, server or session', autocomplete: 'off', input: () => draw() }),
      errors: el('input', { type: 'checkbox', change: () => draw() }),
      hold: el('input', { type: 'checkbox', change: () => draw() }),
      body: el('tbody', {}),
    };
    const titles = [['Time'], ['What'], ['Tool', 'id'], ['Server'], ['Took', 'number'], ['Attempts', 'number'], ['Read', 'number'], ['Raw', 'number'], ['Session'], ['Ended']];
    at.replaceChildren(el('div', { class: 'controls' }, parts.filter, el('label', {}, parts.errors, ' errors only'), el('label', {}, parts.hold, ' hold still')), parts.state,
      el('div', { class: 'wide' }, el('table', {}, el('thead', {}, el('tr', {}, titles.map(([title, kind]) => el('th', { class: kind, scope: 'col' }, title)))), parts.body)),
      el('p', { class: 'soft' }, `What is called, by whom and how it ended; never arguments, queries or results. The last ${most} are kept while a console is open.`));
  }
  draw(true);
}

const failed = (e) => Boolean(e.code || e.is_error);

const ended = (e) => {
  if (e.code) return el('span', { class: 'bad' }, e.scope ? `${e.code} (${e.scope})` : e.code);
  if (e.is_error) return el('span', { class: 'bad' }, 'error of the tool');
  if (e.event === 'execute.cache_hit') return el('span', { class: 'ok' }, 'from the cache');
  if (e.dry_run) return 'dry run';
  if (e.unread) return 'handed on unread';
  return e.detail ?? (e.meta_tool || e.method ? el('span', { class: 'ok' }, 'ok') : '');
};

const row = (e) => el('tr', { class: failed(e) ? 'failure' : undefined }, [
  [new Date(e.time).toLocaleTimeString()], [e.meta_tool ?? e.method ?? e.event], [e.tool_id, 'id'], [e.upstream], [e.duration_ms === undefined ? '' : `${numberText(e.duration_ms.toFixed(1))} ms`, 'number'],
  [e.attempts, 'number'], [e.tokens_read === undefined ? '' : numberText(e.tokens_read), 'number'], [e.tokens_raw === undefined ? '' : numberText(e.tokens_raw), 'number'],
  [[e.session, e.principal].filter(Boolean).join(' ')], [ended(e)],
].map(([value, kind]) => el('td', { class: kind }, value)));

// draw draws once a frame at most, and only what is looked at.
function draw(now = false) {
  if (!parts || (!now && (late || parts.body.closest('[role=tabpanel]').hidden))) return;
  late = true;
  requestAnimationFrame(() => {
    late = false;
    const missed = lost ? ` ${numberText(lost)} or more calls came faster than they could be shown.` : '';
    parts.state.textContent = `${state}${state === 'live' ? `, ${numberText(calls.length)} seen.` : ''}${missed}`;
    if (parts.hold.checked && !now) return;
    const words = parts.filter.value.toLowerCase().trim();
    const rows = [];
    for (let i = calls.length - 1; i >= 0 && rows.length < shown; i--) {
      const e = calls[i];
      if (parts.errors.checked && !failed(e)) continue;
      if (words && ![e.tool_id, e.upstream, e.meta_tool, e.method, e.session, e.event].some((text) => text?.toLowerCase().includes(words))) continue;
      rows.push(row(e));
    }
    parts.body.replaceChildren(...rows);
  });
}
