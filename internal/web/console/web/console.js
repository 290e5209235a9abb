// The frame: which page is shown, who looks, and when it is asked again.
import { get, node, post, Refused, signIn, signOut, token, who } from './api.js';
import * as calls from './calls.js';
import * as catalog from './catalog.js';
import * as clients from './clients.js';
import { aside, el, render, stateText, timeText, visible } from './dom.js';
import * as home from './home.js';
import * as nodes from './nodes.js';
import * as offices from './offices.js';
import * as programs from './programs.js';
import * as review from './review.js';
import * as servers from './servers.js';
import * as setup from './setup.js';
import * as tables from './tables.js';
import { forgetTries } from './try.js';

// A page has load(route, context), which asks the gateway, and view(data, context), which makes its elements. Its key
// follows g. A page with live true is not asked again from time to time. drawn(data) comes after a page is drawn; one with
// keepsFocus gives the focus itself.
const pages = {
  home: { ...home, title: 'Home', key: 'h' }, servers: { ...servers, title: 'Servers', key: 's' }, catalog: { ...catalog, title: 'Catalog', key: 'c' },
  calls: { ...calls, title: 'Calls', key: 'l' }, programs: { ...programs, title: 'Programs', key: 'p' }, tables: { ...tables, title: 'Tables', key: 't' }, review: { ...review, title: 'Review', key: 'r' },
  offices: { ...offices, title: 'Offices', key: 'o' }, nodes: { ...nodes, title: 'Nodes', key: 'n' }, clients: { ...clients, title: 'Clients', key: 'k' }, setup: { ...setup, title: 'Setup', key: 'u' },
};
const names = Object.keys(pages);
// offered are the pages of the menu: Nodes is for clusters.
const offered = () => names.filter((name) => name !== 'nodes' || context.me?.cluster);
const byId = (/** @type {string} */ id) => /** @type {any} */ (document.getElementById(id));
const every = 5000;
let timer, turn = 0, shown = '', shownPage = '', data;
let routed, drawable; // the addresses of context.route and of data, which differ while a page loads

const context = {
  me: undefined,
  route: { page: 'home', rest: [], query: new URLSearchParams() },
  run, refresh: () => show(),
  // draw draws the page again, for answers that come late too: while another page loads, it does nothing.
  draw: () => { if (drawable === routed) draw(); },
  // open goes to a page.
  open: (...parts) => { location.hash = link(...parts); },
  operate: () => { byId('operator-problem').textContent = ''; byId('operator').showModal(); },
};

// link is the address of a page: link('servers', 'files').
export const link = (...parts) => `#/${parts.map(encodeURIComponent).join('/')}`;

function routeOf(hash) {
  const [path, query] = hash.replace(/^#\/?/, '').split('?');
  const [page, ...rest] = path.split('/').map((part) => { try { return decodeURIComponent(part); } catch { return part; } });
  return { page: names.includes(page) ? page : 'home', rest, query: new URLSearchParams(query) };
}

// run does what a person asked for and says what went wrong.
async function run(work) {
  try {
    await work();
    byId('problem').hidden = true;
    return true;
  } catch (error) {
    refused(error);
    return false;
  }
}

function refused(error) {
  if (error instanceof Refused && error.status === 401 && !context.me?.principal) return login(token.get() ? 'This token is not known here.' : '');
  if (error instanceof Refused && error.status === 403 && !context.me && token.get()) return login(error.message);
  problem(error instanceof Refused ? error.message : `This page failed: ${error}`);
}

function problem(text) {
  byId('problem').textContent = text;
  byId('problem').hidden = text === '';
}

function login(why) {
  calls.stop();
  clearTimeout(timer);
  context.me = undefined;
  shown = shownPage = '';
  drawable = undefined;
  byId('page').replaceChildren();
  byId('pages').hidden = true;
  byId('forget').hidden = true;
  byId('operate').hidden = true;
  byId('login').hidden = false;
  problem(why);
  byId('summary').replaceChildren();
  byId('token').focus();
}

function draw() {
  const page = pages[context.route.page];
  render(byId('page'), page.view(data, context));
}

function drawFrame() {
  render(byId('pages'), el('ul', {}, offered().map((name) => el('li', {}, el('a', { href: name === 'home' ? '#/' : link(name), 'aria-current': name === context.route.page ? 'page' : undefined }, pages[name].title)))));
  byId('operate').hidden = context.me?.operates !== false;
  byId('forget').hidden = token.get() === '';
}

// drawNodes draws the choice of a node, which a gateway alone does not have. Another choice loads all anew: what is shown is of
// one node.
async function drawNodes() {
  if (!context.me?.cluster) return;
  const { nodes: all } = await get('cluster');
  const named = (name) => all.filter((one) => one.name === name).length === 1;
  const choices = all.map((one) => (named(one.name) ? one.name : one.inc));
  if (node && !choices.includes(node)) choices.push(node);
  const select = byId('node'), wanted = ['', ...new Set(choices)];
  select.hidden = choices.length < 2;
  if (document.activeElement === select || [...select.options].map((one) => one.value).join('\n') === wanted.join('\n')) return;
  select.replaceChildren(...wanted.map((name) => el('option', { value: name, selected: name === node }, name ? visible(name) : 'Any node')));
}

// show shows the page of the address and asks again from time to time, less often where the page is not seen.
async function show() {
  if (!context.me) return;
  const mine = ++turn;
  clearTimeout(timer);
  const address = routed = location.hash;
  context.route = routeOf(address);
  const page = pages[context.route.page];
  const moved = shown !== address;
  if (moved) drawFrame();
  if (moved || getSelection().isCollapsed) { // a selection is not disturbed
    await run(async () => {
      await drawNodes(); // first: where the chosen node is gone, another one can be chosen
      const [state, fresh] = await Promise.all([get('overview', { limit: 1 }), page.load(context.route, context)]);
      if (mine !== turn) return;
      render(byId('summary'), stateText(state.status), aside(` · up ${timeText(state.uptime)} · ${state.mode} mode`));
      data = fresh;
      drawable = address;
      if (moved) {
        if (!page.keepsFocus || shownPage !== context.route.page) byId('page').replaceChildren();
        shownPage = context.route.page;
        document.title = `${context.route.rest[0] ? `${context.route.rest[0]} · ` : ''}${page.title} · weir`;
      }
      draw();
      page.drawn?.(data);
      if (moved && shown !== '' && !page.keepsFocus) { byId('page').querySelector('h1')?.focus(); scrollTo(0, 0); }
      shown = address;
    });
  }
  if (mine !== turn || !context.me || page.live) return;
  timer = setTimeout(show, document.hidden ? 6 * every : every);
}

// enter begins: with a token where one is needed, without where not.
async function enter() {
  const person = await who();
  byId('issuer').hidden = !person.login;
  byId('sign-in').textContent = `Sign in with ${person.login}`;
  const signedIn = person.principal && !token.get();
  byId('person').textContent = signedIn ? [person.principal, ...person.roles ?? []].join(', ') : '';
  byId('sign-out').hidden = !signedIn;
  try {
    context.me = await get('me');
  } catch (error) {
    byId('summary').textContent = 'not connected';
    refused(error);
    if (error.status === 0) setTimeout(enter, every);
    return;
  }
  problem('');
  byId('login').hidden = true;
  byId('pages').hidden = false;
  drawFrame();
  await show();
}

byId('login').addEventListener('submit', (event) => {
  event.preventDefault();
  token.set(byId('token').value.trim());
  byId('token').value = '';
  enter();
});
// All that was seen with the token goes with it.
byId('forget').addEventListener('click', () => { token.set(''); forgetTries(); location.reload(); });
byId('sign-in').addEventListener('click', () => run(async () => location.assign(await signIn())));
byId('sign-out').addEventListener('click', async () => {
  const next = await signOut().catch(() => '');
  forgetTries();
  next ? location.assign(next) : location.reload();
});
byId('node').addEventListener('change', (event) => location.assign(`${location.pathname}${event.target.value ? `?node=${encodeURIComponent(event.target.value)}` : ''}${context.route.page === 'home' ? '' : link(context.route.page)}`));
byId('operate').addEventListener('click', () => context.operate());
byId('operator-cancel').addEventListener('click', () => byId('operator').close());
byId('operator').addEventListener('submit', async (event) => {
  event.preventDefault();
  const given = byId('code').value.trim(), before = token.get();
  byId('code').value = '';
  try {
    token.set((await post('sessions', { code: given }).catch((error) => { if (error.status !== 401) throw error; return { token: given }; })).token);
    const me = await get('me');
    if (!me.operates) throw new Refused(403, 'This is no code of weir open, and no token of an operator.');
    context.me = me;
    byId('operator').close();
    drawFrame();
    await show();
  } catch (error) {
    token.set(before);
    byId('operator-problem').textContent = error.message;
  }
});

function showKeys() {
  const keys = [['/', 'search'], ['?', 'this list'], ['Esc', 'close, or one level up'], ...offered().map((name) => [`g ${pages[name].key}`, pages[name].title])];
  byId('keys-list').replaceChildren(...keys.map(([key, text]) => el('div', {}, el('dt', {}, key.split(' ').map((one) => el('kbd', {}, one))), el('dd', {}, text))));
  byId('keys').showModal();
}
byId('help').addEventListener('click', showKeys);
let going = 0; // when g was pressed
document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
  const target = /** @type {HTMLElement} */ (event.target);
  const typing = target.matches?.('input, textarea, select, [contenteditable]');
  if (event.key === 'Escape') {
    if (typing) target.blur();
    else if (context.route.rest.length) context.open(context.route.page);
    return;
  }
  if (typing || !context.me) return;
  const name = Date.now() - going < 1500 && offered().find((one) => pages[one].key === event.key);
  going = event.key === 'g' && !name ? Date.now() : 0;
  if (name) context.open(...(name === 'home' ? [] : [name]));
  else if (event.key === '?') showKeys();
  else if (event.key === '/') {
    const field = byId('page').querySelector('input[type=search]');
    if (field) field.focus(); else context.open('catalog');
  } else return;
  event.preventDefault();
});
addEventListener('hashchange', show);
// Charts have fewer points where there is less room.
matchMedia('(max-width: 960px)').addEventListener('change', () => { if (context.me && data) context.draw(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden) show(); });
document.querySelector('.skip').addEventListener('click', (event) => { event.preventDefault(); byId('main').focus(); });
enter();
