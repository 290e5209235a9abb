// The frame: which panel is shown, who looks, and when it is asked again.
import { get, Refused, signIn, signOut, token, who } from './api.js';
import * as artifacts from './artifacts.js';
import * as calls from './calls.js';
import * as catalog from './catalog.js';
import * as offices from './offices.js';
import * as overview from './overview.js';

const byId = (id) => document.getElementById(id);
const panels = { overview, catalog, calls, offices, artifacts };
const names = Object.keys(panels);
const every = 5000;
let current = names.includes(location.hash.slice(1)) ? location.hash.slice(1) : 'overview';
let timer, turn = 0;

const context = {
  summary: (text) => { byId('summary').textContent = text; },
  again: () => { run(() => keeping(byId(current), () => panels[current].show(byId(current), context))); },
  run,
  refused,
};

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
  if (error instanceof Refused && error.status === 401) return login(token.get() ? 'This token is not known here.' : '');
  byId('problem').textContent = error instanceof Refused ? error.message : `This page failed: ${error}`;
  byId('problem').hidden = false;
}

function login(why) {
  calls.forget();
  clearTimeout(timer);
  byId('main').hidden = true;
  byId('forget').hidden = true;
  byId('login').hidden = false;
  byId('problem').textContent = why;
  byId('problem').hidden = why === '';
  byId('summary').textContent = 'Who looks?';
  byId('token').focus();
}

// keeping runs what makes a panel anew, and gives the focus back to what had it.
async function keeping(panel, work) {
  await work();
  const held = document.activeElement === document.body && panel.dataset.focus;
  if (held) panel.querySelector(`[data-keep="${CSS.escape(held)}"]`)?.focus();
}

// show shows a panel and asks again from time to time, less often where nobody looks.
async function show(name) {
  const mine = ++turn;
  clearTimeout(timer);
  current = name;
  for (const one of names) {
    byId(one).hidden = one !== name;
    byId(`tab-${one}`).setAttribute('aria-selected', String(one === name));
    byId(`tab-${one}`).tabIndex = one === name ? 0 : -1;
  }
  const panel = panels[name];
  if (getSelection().isCollapsed) await run(() => keeping(byId(name), () => panel.show(byId(name), context))); // who reads is not disturbed
  if (mine !== turn || byId('main').hidden || panel.refreshes === false) return;
  timer = setTimeout(() => show(name), document.hidden ? 6 * every : every);
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
    const data = await get('overview', { limit: 1 });
    context.summary(`${data.name} ${data.version}`);
  } catch (error) {
    refused(error);
    if (error.status !== 401) byId('summary').textContent = 'not connected';
    if (error.status === 403 && token.get()) byId('login').hidden = false;
    if (error.status === 0) setTimeout(enter, every);
    return;
  }
  byId('problem').hidden = true;
  byId('login').hidden = true;
  byId('main').hidden = false;
  byId('forget').hidden = token.get() === '';
  calls.follow(context);
  await show(current);
}

for (const name of names) {
  byId(name).addEventListener('focusin', (event) => { byId(name).dataset.focus = event.target.dataset.keep ?? ''; });
  byId(`tab-${name}`).addEventListener('click', () => { history.replaceState(null, '', `#${name}`); show(name); });
}
document.querySelector('[role=tablist]').addEventListener('keydown', (event) => {
  const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
  const to = event.key === 'Home' ? 0 : event.key === 'End' ? names.length - 1 : step && (names.indexOf(current) + step + names.length) % names.length;
  if (to === undefined) return;
  event.preventDefault();
  byId(`tab-${names[to]}`).click();
  byId(`tab-${names[to]}`).focus();
});
byId('login').addEventListener('submit', (event) => {
  event.preventDefault();
  token.set(byId('token').value.trim());
  byId('token').value = '';
  enter();
});
byId('sign-in').addEventListener('click', () => run(signIn));
byId('sign-out').addEventListener('click', async () => { await signOut(); location.reload(); });
// All that was seen with the token goes with it.
byId('forget').addEventListener('click', () => { token.set(''); location.reload(); });
document.addEventListener('visibilitychange', () => { if (!document.hidden && !byId('main').hidden) show(current); });
enter();
