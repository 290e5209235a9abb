// Identity among programs of others: oidc-provider issues tokens, and the clients of the SDKs, with their own OAuth, sign in for
// weir; then weir signs in for a server behind the same provider.
//
//   client ──▶ weir ──▶ server-everything        oidc-provider: one issuer, tokens of one resource each, which live 4 seconds
//
//   node interop/identity.mjs --weir bin/weir
//
// Without --weir nothing is checked: no program here other than weir demands a token.
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { answering, Client, everythingStdio, expect, freePort, here, main, node22, Report, run, scratch, start, startWeir, textOf, writeConfig } from './harness.mjs';
import { browse } from './clients/browse.mjs';
import { aloneIn, open, signIn } from './clients/sign-in.mjs';
import { setup } from './setup.mjs';

const life = 4;
const browser = [node22(), join(here, 'clients', 'browse.mjs')];

// The clients, and the ones of them that were registered by hand: two SDKs register for the scopes of their first sign-in alone,
// and the issuer refuses what they ask for later.
const kinds = { ts1: undefined, ts2: 'known', python1: 'known', go: undefined };

export async function startIssuer(name, resources, clients) {
  const port = await freePort();
  const child = start(name, node22(), [join(here, 'issuer.mjs'), String(port), JSON.stringify({ resources, life, clients })]);
  const url = `http://127.0.0.1:${port}`;
  await answering(`${url}/.well-known/openid-configuration`, child);
  const log = () => readFileSync(child.log, 'utf8').split('\n');
  return { url, count: (what) => log().filter((line) => line.includes(what)).length };
}

// protectedWeir starts a weir that takes tokens of an issuer alone. get-sum needs the scope admin.
async function protectedWeir(weir) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const issuer = await startIssuer('issuer-of-weir', [`${url}/mcp`, `${url}/mcps/everything/mcp`, url]);
  const home = join(scratch, 'identity-weir');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const gateway = await startWeir(weir, 'identity-weir', {
    public_url: url,
    auth: { issuers: { corp: { issuer: issuer.url, scopes: ['mcp'] } } },
    policy: { default: 'deny', rules: [{ tool: '*:get-sum*', action: 'allow', scopes: ['admin'] }, { tool: '*:get-sum*', action: 'deny' }, { tool: '*', action: 'allow' }] },
    mcpServers: { everything: everythingStdio() },
  }, ['--listen', `127.0.0.1:${port}`], aloneIn(home));
  return { gateway, issuer };
}

// signedIn has weir sign in at a server that wants tokens of the issuer, and out again.
async function signedIn(report, weir) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}/mcp`;
  const issuer = await startIssuer('issuer-of-server', [url]);
  const server = start('protected', node22(), [join(here, 'protected.mjs'), String(port), issuer.url]);
  await answering(url, server);
  const home = join(scratch, 'identity-signed-in');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const env = aloneIn(home);
  const config = writeConfig('identity-signed-in/weir', { mcpServers: {} });
  const shell = (...args) => run(`identity-${args[0]}`, weir, [...args, '--config', config], { env });

  await report.check('weir add keeps a server that wants a sign-in', () => shell('add', 'notes', url, '--yes'));
  await report.check('weir login signs in', async () => {
    const shown = await signIn(weir, 'notes', 'notes', ['--config', config], env, async (address) => open(await browse(address)));
    expect(/signed in at notes/.test(shown.text), 'the browser shows something else', shown.text);
  });
  const gateway = await startWeir(weir, 'identity-signed-in', config, [], env);
  const client = await Client.connect('ts1', { transport: 'http', url: gateway.at('notes') });
  await report.check('calls have the token', async () => expect(textOf(await client.call('whoami')) === 'ada with mcp', 'the server sees someone else'));
  await report.check('weir refreshes a token before it ends', async () => {
    const before = issuer.count('granted refresh_token');
    await sleep((life + 1) * 1000);
    expect(textOf(await client.call('whoami')) === 'ada with mcp', 'the server sees someone else');
    expect(issuer.count('granted refresh_token') > before, 'there was no refresh');
  });
  await report.check('a call that needs a further scope asks for a sign-in, which asks for both', async () => {
    const reply = await client.ask('callTool', { name: 'change', arguments: {} });
    expect(/weir login notes/.test(JSON.stringify(reply)), 'the call does not say what to do', reply);
    await signIn(weir, 'notes-more', 'notes', ['--config', config], env, async (address) => open(await browse(address)));
    await sleep(2500); // the gateway looks again after two seconds
    expect(textOf(await client.call('change')) === 'changed by ada', 'the server answers something else');
  });
  await report.check('weir logout revokes', async () => {
    const before = issuer.count('destroyed') + issuer.count('revoked');
    await shell('logout', 'notes');
    expect(issuer.count('destroyed') + issuer.count('revoked') > before, 'the issuer has revoked nothing');
    await sleep(2500);
    const response = await fetch(gateway.at('notes'), {
      method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
      body: JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'whoami', arguments: {} } }),
    });
    const text = await response.text();
    expect(/weir login notes/.test(text), 'the next call does not ask for a sign-in', text);
  });
  await client.close();
  await gateway.stop();
}

// ofWeir has the clients of the SDKs sign in at weir.
async function ofWeir(report, weir) {
  const { gateway, issuer } = await protectedWeir(weir);
  for (const [kind, client] of Object.entries(kinds)) {
    const at = gateway.at('everything');
    const connected = await report.check(`${kind} finds the issuer${client ? '' : ', registers'} and signs in`, async () => {
      const c = await Client.connect(kind, { transport: 'http', url: at, oauth: { browser, client } });
      const { tools } = await c.get('listTools');
      expect(tools.some(({ name }) => name === 'echo'), 'there is no tool echo', tools.map(({ name }) => name));
      expect(textOf(await c.call('echo', { message: 'hello' })) === 'Echo: hello', 'echo answers something else');
      return c;
    });
    if (!connected) continue;
    await report.check(`${kind} refreshes a token that has ended`, async () => {
      const before = issuer.count('granted refresh_token');
      await sleep((life + 1) * 1000);
      expect(textOf(await connected.call('echo', { message: 'again' })) === 'Echo: again', 'echo answers something else');
      expect(issuer.count('granted refresh_token') > before, 'there was no refresh');
    });
    if (kind === 'ts1') {
      await report.check('ts1 refreshes where a call needs a further scope, and gives up', async () => {
        const { error } = await connected.ask('callTool', { name: 'get-sum', arguments: { a: 2, b: 3 } });
        expect(error?.code === 403, 'the call does not end with 403', error);
        expect(textOf(await connected.call('echo', { message: 'still' })) === 'Echo: still', 'the next call does not go on');
      });
    } else {
      await report.check(`${kind} asks for a further scope where a call needs it`, async () => {
        const before = issuer.count('granted authorization_code');
        expect(/\b5\b/.test(textOf(await connected.call('get-sum', { a: 2, b: 3 }))), 'get-sum answers something else');
        expect(issuer.count('granted authorization_code') > before, 'there was no sign-in');
      });
    }
    await connected.close();
  }
  await gateway.stop();
}

export async function identity({ weir }) {
  const report = new Report('identity: oidc-provider, the SDKs with OAuth, weir signed in');
  if (weir) await Promise.all([ofWeir(report, weir), signedIn(report, weir)]);
  else await report.check('there is nothing to check without weir', () => {});
  return report.close();
}

if (process.argv[1] === join(here, 'identity.mjs')) {
  await main(async (options) => { await setup(); return identity(options); });
}
