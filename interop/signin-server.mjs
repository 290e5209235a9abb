// weir as the authorization server of its own URLs: clients of others sign in from the URL alone.
//
//   client ──URL──▶ weir ──▶ oidc-provider, where the person signs in ──▶ weir's consent ──▶ client, which calls
//   client ──URL──▶ weir ──▶ name and password, in a real browser     ──▶ weir's consent ──▶ client, which calls
//
//   node interop/signin-server.mjs --weir bin/weir
//
// Without --weir nothing is checked.
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, everythingStdio, expect, freePort, here, main, module, node22, Report, run, scratch, start, startWeir, tail, textOf, Wrong } from './harness.mjs';
import { Browser } from './chromium.mjs';
import { statusesIn } from './conformance.mjs';
import { byScenario, cell, sameAsPage } from './figures.mjs';
import { browse } from './clients/browse.mjs';
import { aloneIn } from './clients/sign-in.mjs';
import { startIssuer } from './identity.mjs';
import { setup } from './setup.mjs';

const browser = [node22(), join(here, 'clients', 'browse.mjs')];

// hash is of the password any, at the least cost that weir takes.
const hash = '$argon2id$v=19$m=8192,t=1,p=1$MDEyMzQ1Njc4OWFiY2RlZg$6z8WQ/pxewjS0zBjgaasgjGAB0Bl9XLRIZ71t8EZsig';

// startServer starts a weir that signs clients in itself.
export async function startServer(weir, name, auth, more = {}) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const home = join(scratch, name);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  return { url, gateway: await startWeir(weir, name, { public_url: url, auth: await auth(url), mcpServers: { everything: everythingStdio() }, ...more }, ['--listen', `127.0.0.1:${port}`], aloneIn(home)) };
}

// company has the clients of the SDKs sign in through a provider.
async function company(report, weir) {
  const { gateway } = await startServer(weir, 'signin-company', async (url) => {
    const issuer = await startIssuer('issuer-of-company', [url], [{
      client_id: 'weir-web', client_secret: 'a-secret-of-weir-that-is-long-enough', redirect_uris: [`${url}/connect/callback`], grant_types: ['authorization_code', 'refresh_token'],
    }]);
    return {
      issuers: { corp: { issuer: issuer.url } }, login: { issuer: 'corp', client_id: 'weir-web', client_secret: 'a-secret-of-weir-that-is-long-enough', scopes: ['groups'] },
      server: { people: 'corp' },
    };
  }, { policy: { default: 'deny', rules: [{ tool: '*', action: 'allow', groups: ['staff'] }] } });
  for (const kind of ['ts1', 'ts2', 'python1', 'go']) {
    await report.check(`${kind} signs in from the URL alone, with the groups of the provider, and calls`, async () => {
      const client = await Client.connect(kind, { transport: 'http', url: gateway.at('everything'), oauth: { browser } });
      expect(textOf(await client.call('echo', { message: 'hello' })) === 'Echo: hello', 'echo answers something else');
      await client.close();
    });
  }
  await gateway.stop();
}

// suite runs the scenarios of the official suite for authorization servers.
async function suite(report, weir) {
  const back = await freePort();
  const { gateway, url } = await startServer(weir, 'signin-suite', async () => ({
    accounts: [{ name: 'ada', password: hash }],
    server: { people: 'accounts', clients: { static: [{ id: 'suite', redirects: [`http://127.0.0.1:${back}/callback`, `http://localhost:${back}/callback`] }] } },
  }));
  await report.check('the official suite: the scenarios for authorization servers', async () => {
    const output = join(scratch, 'authorization');
    rmSync(output, { recursive: true, force: true });
    mkdirSync(output, { recursive: true });
    const child = start('suite-authorization', node22(), [module('@modelcontextprotocol', 'conformance', 'dist', 'index.js'), 'authorization',
      '--url', url, '--client-id', 'suite', '--resource', `${url}/mcp`, '--port', String(back), '--output-dir', output]);
    const printed = () => readFileSync(child.log, 'utf8');
    let at;
    for (const end = Date.now() + 30_000; !(at = /^http\S+\/oauth\/authorize\S+$/m.exec(printed())?.[0]); await sleep(50)) {
      if (child.hasEnded() || Date.now() > end) throw new Wrong(`the suite asks for no sign-in:\n${tail(printed())}`);
    }
    await fetch(await browse(at));
    await child.ended;
    const statuses = [...statusesIn(output)];
    const failed = statuses.filter(([, { status }]) => status !== 'SUCCESS');
    expect(statuses.length >= 2 && failed.length === 0, `${statuses.length} checks, not all pass`, failed);
    sameAsPage('Authorization servers', [...byScenario(statuses)].sort().map(([scenario, checks]) => [scenario, cell(checks)]));
  });
  await gateway.stop();
}

// newcomer starts weir as a new user does: three lines, weir account add, weir serve.
async function newcomer(report, weir, password) {
  const port = await freePort();
  const home = join(scratch, 'signin-accounts');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const config = join(home, 'weir.yaml');
  writeFileSync(config, `public_url: http://127.0.0.1:${port}\nauth: {server: {people: accounts}}\nmcpServers: {everything: ${JSON.stringify(everythingStdio())}}\n`);
  await report.check('three lines and weir account add: the gateway signs people in', () => run('account-add', 'sh',
    ['-c', `echo '${password}' | "${weir}" account add ada --stdin --yes --config "${config}"`], { env: aloneIn(home) }));
  return startWeir(weir, 'signin-accounts', config, ['--listen', `127.0.0.1:${port}`], aloneIn(home));
}

// inspector has the MCP Inspector sign in and call, in a real browser: from the URL, with a password, on a narrow screen in the dark.
async function inspector(report, weir) {
  const password = 'correct horse battery staple';
  const gateway = await newcomer(report, weir, password);
  const tool = start('inspector', node22(), [module('@modelcontextprotocol', 'inspector', 'clients', 'launcher', 'build', 'index.js'), '--web', '--transport', 'http', '--server-url', gateway.url],
    { env: { MCP_AUTO_OPEN_ENABLED: 'false', CLIENT_PORT: String(await freePort()), MCP_SANDBOX_PORT: String(await freePort()), MCP_INSPECTOR_SECRET_STORE: 'memory' } });
  const printed = () => readFileSync(tool.log, 'utf8');
  let at;
  for (const end = Date.now() + 30_000; !(at = /http:\/\/\S+MCP_INSPECTOR_API_TOKEN=\w+/.exec(printed())?.[0]); await sleep(50)) {
    if (tool.hasEnded() || Date.now() > end) throw new Wrong(`the inspector did not start:\n${tail(printed())}`);
  }
  const chromium = await Browser.start();
  const page = await chromium.open(at);
  const waitFor = async (what, fn, ...args) => {
    for (const end = Date.now() + 30_000; Date.now() < end; await sleep(50)) {
      const found = await page.look(fn, ...args);
      if (found) return found;
    }
    throw new Wrong(`the browser does not come to ${what}: ${await page.look(() => `${location.href}\n${document.body?.innerText}`)}`);
  };
  const narrow = async (where) => {
    await chromium.send('Emulation.setDeviceMetricsOverride', { width: 320, height: 640, deviceScaleFactor: 1, mobile: false }, page.session);
    for (const scheme of ['dark', 'light']) {
      await chromium.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] }, page.session);
      const { wide, paper } = await page.run(() => ({ wide: document.documentElement.scrollWidth, paper: getComputedStyle(document.body).backgroundColor }));
      expect(wide <= 320, `${where} is ${wide} pixels wide on a screen of 320`);
      expect((parseInt(/\d+/.exec(paper)[0], 10) < 128) === (scheme === 'dark'), `${where} is ${paper} where the person wants ${scheme}`);
    }
    await chromium.send('Emulation.clearDeviceMetricsOverride', {}, page.session);
  };
  await report.check('the MCP Inspector finds the sign-in from the URL alone', async () => {
    await waitFor('its list of servers', () => document.querySelector('input[type=checkbox]') !== null);
    await page.leave(() => document.querySelector('input[type=checkbox]').click());
    await waitFor('the page for the password', () => location.pathname === '/oauth/authorize' && document.querySelector('input[type=password]') !== null);
    await narrow('the page for the password');
  });
  await report.check('the person signs in and agrees, on a narrow screen and in the dark', async () => {
    await page.leave((text) => {
      document.querySelector('input[name=name]').value = 'ada';
      document.querySelector('input[type=password]').value = text;
      document.querySelector('button').click();
    }, password);
    await waitFor('the consent', () => document.querySelector('button[value=allow]') !== null);
    await narrow('the page for the consent');
    const shown = await page.run(() => document.body.innerText);
    expect(/MCP Inspector/.test(shown) && /account:ada/.test(shown) && /registered itself/.test(shown), 'the page does not say who asks', shown);
    await page.leave(() => document.querySelector('button[value=allow]').click());
    await waitFor('the tools', () => [...document.querySelectorAll('label')].some((one) => one.innerText.trim() === 'Tools'));
  });
  await report.check('the MCP Inspector calls a tool', async () => {
    await page.run(() => [...document.querySelectorAll('label')].find((one) => one.innerText.trim() === 'Tools').click());
    await waitFor('the tool echo', () => [...document.querySelectorAll('button')].some((one) => /everything__echo$/.test(one.innerText.trim())));
    await page.run(() => [...document.querySelectorAll('button')].find((one) => /everything__echo$/.test(one.innerText.trim())).click());
    const ready = () => [...document.querySelectorAll('button')].some((one) => one.innerText.trim() === 'Execute Tool');
    await waitFor('the form of echo', ready);
    await page.run(() => {
      const field = [...document.querySelectorAll('label')].find((one) => /^message/.test(one.innerText.trim())).control;
      Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), 'value').set.call(field, 'from the inspector');
      field.dispatchEvent(new Event('input', { bubbles: true }));
    });
    await page.run(() => [...document.querySelectorAll('button')].find((one) => one.innerText.trim() === 'Execute Tool').click());
    await waitFor('the result', () => document.body.innerText.includes('Echo: from the inspector'));
  });
  await gateway.stop();
}

export async function signinServer({ weir }) {
  const report = new Report('signin-server: weir as the authorization server of its own URLs');
  if (weir) {
    await Promise.all([company(report, weir), suite(report, weir)]);
    await inspector(report, weir);
  } else await report.check('there is nothing to check without weir', () => {});
  return report.close();
}

if (process.argv[1] === join(here, 'signin-server.mjs')) {
  await main(async (options) => { await setup(); return signinServer(options); });
}
