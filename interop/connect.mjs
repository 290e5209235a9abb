// The pages at /connect in a real browser: a person says at an issuer who they are, and signs in at a server behind another
// issuer. Another person's calls have nothing of it.
//
//   browser ──▶ weir /connect/notes ──▶ issuer of weir (auth.login) ──▶ weir ──▶ issuer of the server ──▶ weir
//
//   node interop/connect.mjs --weir bin/weir
import { mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { answering, Client, expect, freePort, here, main, node22, Report, scratch, start, startWeir } from './harness.mjs';
import { startIssuer } from './identity.mjs';
import { aloneIn } from './clients/sign-in.mjs';
import { setup } from './setup.mjs';

// startAll starts a server behind an issuer, and weir with an issuer of its own.
async function startAll(weir) {
  const [port, serverPort] = [await freePort(), await freePort()];
  const [url, server] = [`http://127.0.0.1:${port}`, `http://127.0.0.1:${serverPort}/mcp`];
  const corp = await startIssuer('connect-corp', [`${url}/mcp`, `${url}/mcps/notes/mcp`, url], [
    { client_id: 'weir-web', client_secret: 'weir-web-secret', redirect_uris: [`${url}/connect/callback`], post_logout_redirect_uris: [`${url}/console`] },
  ]);
  const provider = await startIssuer('connect-provider', [server]);
  const child = start('connect-protected', node22(), [join(here, 'protected.mjs'), String(serverPort), provider.url]);
  await answering(server, child);
  const home = join(scratch, 'connect');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const gateway = await startWeir(weir, 'connect', {
    public_url: url,
    mode: 'gateway',
    auth: {
      issuers: { corp: { issuer: corp.url, scopes: ['mcp'] } },
      login: { issuer: 'corp', client_id: 'weir-web', client_secret: 'weir-web-secret' },
    },
    mcpServers: { notes: { url: server, credentials: 'user' } },
  }, ['--listen', `127.0.0.1:${port}`], aloneIn(home));
  return { url, gateway };
}

// shows waits until the page has a text, and fills in the forms of an issuer on the way.
async function shows(page, text) {
  let last;
  for (const end = Date.now() + 20_000; Date.now() < end; await sleep(100)) {
    last = await page.look((text) => {
      if (document.readyState !== 'complete') return '';
      const shown = `${location.origin} ${document.body.innerText}`;
      if (shown.includes(text)) return shown;
      const form = document.querySelector('form[action*="/interaction/"]');
      if (!form || form.dataset.sent) return shown;
      for (const [name, value] of [['login', 'ada'], ['password', 'any']]) if (form.elements[name]) form.elements[name].value = value;
      form.dataset.sent = 'yes';
      form.requestSubmit();
      return shown;
    }, text) ?? last;
    if (last?.includes(text)) return last;
  }
  expect(false, `the browser does not come to ${JSON.stringify(text)}`, last);
}

const press = (page, label) => page.leave((label) => [...document.querySelectorAll('button')].find((one) => one.textContent === label).click(), label);

export async function connectPages({ weir }) {
  const report = new Report('the pages at /connect in a browser');
  if (!weir) {
    await report.check('there is nothing to check without weir', () => {});
    return report.close();
  }
  const { url, gateway } = await startAll(weir);
  const browser = await Browser.start();
  const oauth = { browser: [node22(), join(here, 'clients', 'browse.mjs')] };
  const ada = await Client.connect('ts1', { transport: 'http', url: gateway.url, oauth });
  const browse = async (query) => JSON.stringify(await ada.ask('callTool', { name: 'tool_browse', arguments: { query } }));

  await report.check('before the sign-in there is one tool, which leads to it', async () => {
    const cards = await browse('notes');
    expect(/notes:sign_in\b/.test(cards) && !/notes:whoami/.test(cards), 'there is something else', cards);
  });
  const page = await browser.open(`${url}/connect/notes`);
  await report.check('a person says at the issuer who they are', async () => {
    await shows(page, 'First tell this gateway who you are');
    await press(page, 'Go on with corp');
    await shows(page, 'You are corp:ada at this gateway');
  });
  await report.check('the person signs in at the server', async () => {
    await press(page, 'Sign in');
    const shown = await shows(page, 'Signed in at notes');
    expect(shown.startsWith(url), 'that is another page', shown);
  });
  await report.check('the next calls of this person have the token', async () => {
    let text, last;
    for (const end = Date.now() + 10_000; Date.now() < end && !text; await sleep(250)) {
      const [id] = /notes:whoami#[0-9a-z]+/.exec(last = await browse('whoami')) ?? [];
      if (!id) continue;
      last = JSON.stringify(await ada.ask('callTool', { name: 'tool_execute', arguments: { tool_id: id, args: {} } }));
      if (last.includes('ada with mcp')) text = last;
    }
    expect(text, 'the server sees someone else', last);
  });
  await report.check('an old answer of the issuer opens nothing', async () => {
    const again = await browser.open(`${url}/connect/callback?code=x&state=y`);
    await shows(again, 'This sign-in is not open');
  });
  await report.check('the person signs in at the console, and out', async () => {
    const own = await browser.open(`${url}/console`);
    await shows(own, 'Sign in with corp');
    await press(own, 'Sign in with corp');
    const shown = await shows(own, 'corp:ada');
    expect(shown.includes('Sign out') && !shown.includes('Sign in with'), 'the console does not show the person', shown);
    await press(own, 'Sign out');
    await shows(own, 'Do you want to sign-out');
    await press(own, 'Yes, sign me out');
    await shows(own, 'Sign in with corp');
    await press(own, 'Sign in with corp');
    await shows(own, 'Sign-in'); // the provider asks again who the person is: its session has ended
  });
  await ada.close();
  await gateway.stop();
  return report.close();
}

if (process.argv[1] === join(here, 'connect.mjs')) {
  await main(async (options) => { await setup(); return connectPages(options); });
}
