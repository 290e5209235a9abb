// A browser without a window, driven over its DevTools protocol: find it, start it, open a page, run functions in the page.
import { existsSync, mkdtempSync, readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { WebSocket } from 'ws';
import { here, main, run, scratch, start, tail, Wrong } from './harness.mjs';

const names = ['chromium-headless-shell', 'chromium', 'chromium-browser', 'google-chrome-stable', 'google-chrome'];

const found = () => {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  for (const name of names) {
    for (const folder of process.env.PATH.split(delimiter)) {
      if (existsSync(join(folder, name))) return join(folder, name);
    }
  }
  return undefined;
};

// chromium returns the path of a browser. Where there is none, it installs the one of Debian or Ubuntu.
export async function chromium() {
  if (!found() && existsSync('/usr/bin/apt-get')) {
    const sudo = process.getuid() === 0 ? [] : ['sudo', '-n'];
    const apt = (...args) => run(`apt-${args[0]}`, ...split([...sudo, 'apt-get', '-qq', ...args]), { env: { DEBIAN_FRONTEND: 'noninteractive' } });
    console.log('installing chromium');
    await apt('update');
    await apt('install', '-y', '--no-install-recommends', 'chromium-headless-shell').catch(() => apt('install', '-y', '--no-install-recommends', 'chromium'));
  }
  const path = found();
  if (!path) throw new Wrong('there is no browser here: install Chromium, or set CHROMIUM to the path of one');
  return path;
}

const split = ([command, ...args]) => [command, args];

// Left says that the document of a page was left while a function ran in it: what the function returned is lost.
class Left extends Wrong {}

const isLeft = (message) => /navigated or closed|context was destroyed|Cannot find (default execution )?context/.test(message);

// A Browser is one browser process.
export class Browser {
  #socket;
  #waiting = new Map();
  #next = 1;

  static async start() {
    const browser = new Browser();
    // A full Chromium takes its frame from the window's height, the headless shell does not: both have room for ten rows of a table.
    browser.child = start('chromium', await chromium(), [
      '--headless', '--window-size=800,760', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-port=0',
      `--user-data-dir=${mkdtempSync(join(scratch, 'chromium-'))}`, '--host-resolver-rules=MAP *.test 127.0.0.1', 'about:blank',
    ]);
    const log = () => readFileSync(browser.child.log, 'utf8');
    let url;
    for (const end = Date.now() + 30_000; !(url = /DevTools listening on (ws:\S+)/.exec(log())?.[1]); await sleep(50)) {
      if (browser.child.hasEnded() || Date.now() > end) throw new Wrong(`the browser did not start:\n${tail(log())}`);
    }
    browser.#socket = new WebSocket(url, { perMessageDeflate: false });
    await new Promise((done, fail) => browser.#socket.once('open', done).once('error', fail));
    browser.#socket.on('message', (data) => {
      const message = JSON.parse(data);
      const waiting = browser.#waiting.get(message.id);
      if (!waiting) return;
      browser.#waiting.delete(message.id);
      if (message.error) waiting.fail(new (isLeft(message.error.message) ? Left : Wrong)(`${waiting.method}: ${message.error.message}`));
      else waiting.done(message.result);
    });
    return browser;
  }

  // send sends one command of the protocol.
  send(method, params = {}, sessionId) {
    const id = this.#next++;
    return new Promise((done, fail) => {
      this.#waiting.set(id, { method, done, fail });
      this.#socket.send(JSON.stringify({ id, method, params, sessionId }));
    });
  }

  // open opens a page and waits until it is there.
  async open(url) {
    const { targetId } = await this.send('Target.createTarget', { url });
    const { sessionId } = await this.send('Target.attachToTarget', { targetId, flatten: true });
    const page = new Page(this, sessionId, targetId);
    for (const end = Date.now() + 30_000; ; await sleep(20)) {
      const [at, state] = await page.run(() => [location.href, document.readyState]).catch(() => []); // between two documents
      if (state === 'complete' && at !== 'about:blank') return page;
      if (Date.now() > end) throw new Wrong(`the browser did not load ${url}`);
    }
  }
}

class Page {
  constructor(browser, session, target) {
    this.browser = browser;
    this.session = session;
    this.target = target;
  }

  async close() { await this.browser.send('Target.closeTarget', { targetId: this.target }); }

  // run runs a function, which may be async, in the page and returns what it returns, as JSON. What it throws is thrown.
  async run(fn, ...args) {
    const { result, exceptionDetails } = await this.browser.send('Runtime.evaluate', {
      expression: `(${fn})(...${JSON.stringify(args)})`, awaitPromise: true, returnByValue: true,
    }, this.session);
    if (exceptionDetails) throw new Wrong(`in the page: ${exceptionDetails.exception?.description ?? exceptionDetails.text}`);
    return result.value;
  }

  // look is run for those who ask again: between two documents it returns undefined.
  async look(fn, ...args) {
    try {
      return await this.run(fn, ...args);
    } catch (error) {
      if (error instanceof Left) return undefined;
      throw error;
    }
  }

  // leave runs a function that may lead to another document, before or after its answer.
  async leave(fn, ...args) { await this.look(fn, ...args); }
}

if (process.argv[1] === join(here, 'chromium.mjs')) await main(async () => { console.log(await chromium()); return 0; });
