// Programs of others that sign in at a shared weir from its URL alone, with oidc-provider as the company's provider, and
// what a logout there ends.
//
//   mcp-remote, fastmcp ──URL──▶ weir ──▶ oidc-provider ──▶ weir's consent ──▶ back to the program, which calls
//   openid-client, which checks each answer by the RFCs ──▶ the same with pushed requests, DPoP, ID tokens, revocation
//   the console ──sign out──▶ oidc-provider ──logout token──▶ weir: the client's token is refused
//
//   node interop/signin-clients.mjs --weir bin/weir
//
// Without --weir nothing is checked.
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import * as oidc from 'openid-client';
import { Client, expect, here, main, module, node22, Report, run, scratch, textOf, work } from './harness.mjs';
import { browse } from './clients/browse.mjs';
import { startIssuer } from './identity.mjs';
import { setup } from './setup.mjs';
import { startServer } from './signin-server.mjs';

const secret = 'a-secret-of-weir-that-is-long-enough';

// desktop is a home whose BROWSER signs the person in and comes back to the program that has opened it.
function desktop(name) {
  const home = join(scratch, name);
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home, { recursive: true });
  const browser = join(home, 'browser');
  writeFileSync(browser, `#!/bin/sh\nexec "${node22()}" "${join(here, 'clients', 'browse.mjs')}" "$1" open >/dev/null\n`, { mode: 0o755 });
  return { home, browser };
}

async function mcpRemote(report, gateway) {
  await report.check('mcp-remote signs in from the URL alone, and calls', async () => {
    const { home, browser } = desktop('mcp-remote');
    const client = await Client.connect('ts1', {
      transport: 'stdio', command: '/usr/bin/env',
      args: [`HOME=${home}`, `MCP_REMOTE_CONFIG_DIR=${home}`, `BROWSER=${browser}`, 'XDG_CURRENT_DESKTOP=', 'DISPLAY=',
        node22(), module('mcp-remote', 'dist', 'proxy.js'), `${gateway.url}/mcp`, '--allow-http'],
    });
    expect(textOf(await client.call('everything__echo', { message: 'hello' })) === 'Echo: hello', 'echo answers something else');
    await client.close();
  });
}

async function fastmcp(report, gateway) {
  await report.check('fastmcp signs in from the URL alone, and calls', async () => {
    const { home, browser } = desktop('fastmcp');
    const { output } = await run('fastmcp', join(work, 'pythonfastmcp', 'bin', 'python'), [join(here, 'clients', 'fastmcp-call.py'), `${gateway.url}/mcp`, 'everything__echo'],
      { limit: 60_000, env: { HOME: home, BROWSER: `${browser} %s &` } });
    expect(output.trim() === 'Echo: hello', 'echo answers something else', output);
  });
}

// strict signs a client of its own registration in, with a library that refuses each answer that departs from an RFC.
async function strict(cookies, url, { dpop = false, push = false } = {}) {
  const redirect = 'http://127.0.0.1/back';
  const config = await oidc.dynamicClientRegistration(new URL(url), {
    client_name: 'openid-client', redirect_uris: [redirect], post_logout_redirect_uris: ['http://127.0.0.1/out'], token_endpoint_auth_method: 'none', id_token_signed_response_alg: 'ES256',
  }, undefined, { execute: [oidc.allowInsecureRequests] });
  const DPoP = dpop ? oidc.getDPoPHandle(config, await oidc.randomDPoPKeyPair('ES256')) : undefined;
  const pkceCodeVerifier = oidc.randomPKCECodeVerifier();
  const [expectedState, expectedNonce] = [oidc.randomState(), oidc.randomNonce()];
  const ask = {
    redirect_uri: redirect, scope: 'openid mcp', resource: `${url}/mcp`, state: expectedState, nonce: expectedNonce,
    code_challenge: await oidc.calculatePKCECodeChallenge(pkceCodeVerifier), code_challenge_method: 'S256',
  };
  const address = push ? await oidc.buildAuthorizationUrlWithPAR(config, ask, { DPoP }) : oidc.buildAuthorizationUrl(config, ask);
  const back = await browse(address.href, { cookies, back: redirect });
  const tokens = await oidc.authorizationCodeGrant(config, new URL(back), { pkceCodeVerifier, expectedState, expectedNonce, idTokenExpected: true }, undefined, { DPoP });
  const whoami = (token = tokens.access_token) => (dpop
    ? oidc.fetchProtectedResource(config, token, new URL(`${url}/whoami`), 'GET', undefined, undefined, { DPoP }).then((r) => r.status, (error) => error.status ?? error.cause?.status ?? error.message)
    : fetch(`${url}/whoami`, { headers: { Authorization: `Bearer ${token}` } }).then((r) => r.status));
  return { config, tokens, whoami, DPoP };
}

async function openidClient(report, { url }) {
  await report.check('openid-client, which checks answers by the RFCs: metadata, registration, code, ID token, refresh, revocation', async () => {
    const { config, tokens, whoami } = await strict(new Map(), url);
    const meta = config.serverMetadata();
    expect(meta.issuer === url && meta.code_challenge_methods_supported.join() === 'S256' && meta.authorization_response_iss_parameter_supported, 'the metadata are not of weir', meta);
    expect(tokens.claims().sub === 'corp:ada', 'the ID token is of someone else', tokens.claims());
    expect(await whoami() === 200, 'the access token does not open weir');
    const next = await oidc.refreshTokenGrant(config, tokens.refresh_token);
    expect(next.refresh_token !== tokens.refresh_token && await whoami(next.access_token) === 200, 'the refresh gives no new tokens');
    await oidc.tokenRevocation(config, next.refresh_token);
    expect(await whoami(next.access_token) === 401, 'a revoked sign-in works');
  });
  await report.check('openid-client with a pushed request and DPoP', async () => {
    const { config, tokens, whoami, DPoP } = await strict(new Map(), url, { dpop: true, push: true });
    expect(tokens.token_type === 'dpop' && await whoami() === 200, 'the bound token does not open weir');
    const bearer = await fetch(`${url}/whoami`, { headers: { Authorization: `Bearer ${tokens.access_token}` } });
    expect(bearer.status === 401, 'a bound token works without its key');
    const next = await oidc.refreshTokenGrant(config, tokens.refresh_token, undefined, { DPoP });
    expect(next.token_type === 'dpop', 'the refresh gives a token that is not bound');
  });
  await report.check('openid-client signs out, and is sent back', async () => {
    const { config, tokens, whoami } = await strict(new Map(), url);
    const out = oidc.buildEndSessionUrl(config, { id_token_hint: tokens.id_token, post_logout_redirect_uri: 'http://127.0.0.1/out', state: 'x&y' });
    const response = await fetch(out, { redirect: 'manual' });
    expect(response.headers.get('Location') === 'http://127.0.0.1/out?state=x%26y', 'the browser goes elsewhere', response.headers.get('Location'));
    expect(await whoami() === 401, 'the access token still works');
  });
}

// logout signs a person in at the console and a client in the same session of the provider, and out at the console.
async function logout(report, { url, issuer }) {
  await report.check('a sign-out at the console ends the session at the provider, which tells weir: the client is signed out', async () => {
    const cookies = new Map();
    const ask = async (method, at, headers = {}) => {
      const response = await fetch(new URL(at, url), {
        method, redirect: 'manual',
        headers: { Origin: url, 'Content-Type': 'application/json', Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; '), ...headers },
      });
      for (const line of response.headers.getSetCookie()) {
        const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
        cookies.set(name, value);
      }
      return response;
    };
    const { address } = await (await ask('POST', '/login')).json();
    const back = await browse(address, { cookies });
    expect((await ask('GET', back)).status === 303, 'the console does not take the person');
    const { principal, token } = await (await ask('GET', '/login')).json();
    expect(principal === 'corp:ada', 'someone else is at the console', principal);
    const { whoami } = await strict(cookies, url);
    const other = await strict(new Map(), url); // another browser of the person
    expect(await whoami() === 200, 'the client is not signed in');
    const { address: out } = await (await ask('DELETE', '/login', { 'Weir-Login': token })).json();
    expect(out?.startsWith(issuer.url), 'the sign-out names no page of the provider', out);
    expect((await browse(out, { cookies, back: `${url}/console` })) === `${url}/console`, 'the provider does not send the browser back');
    for (const end = Date.now() + 5000; await whoami() !== 401; await sleep(20)) expect(Date.now() < end, 'the client is still signed in', issuer.count('of a logout'));
    expect(await other.whoami() === 200, 'the sign-in of another session has ended');
    expect((await (await ask('GET', '/login')).json()).principal === undefined, 'the person is still at the console');
  });
}

export async function signinClients({ weir }) {
  const report = new Report('signin-clients: programs of others at a shared weir, from its URL alone');
  if (weir) {
    let issuer;
    const server = await startServer(weir, 'signin-clients', async (url) => {
      issuer = await startIssuer('issuer-of-clients', [url], [{
        client_id: 'weir-web', client_secret: secret, redirect_uris: [`${url}/connect/callback`], grant_types: ['authorization_code', 'refresh_token'],
        post_logout_redirect_uris: [`${url}/console`], backchannel_logout_uri: `${url}/oauth/backchannel-logout`, backchannel_logout_session_required: true,
      }]);
      return { issuers: { corp: { issuer: issuer.url } }, login: { issuer: 'corp', client_id: 'weir-web', client_secret: secret, scopes: ['groups'] }, server: { people: 'corp' } };
    }, { mode: 'plain' });
    await Promise.all([mcpRemote(report, server), fastmcp(report, server), openidClient(report, server), logout(report, { ...server, issuer })]);
    await server.gateway.stop();
  } else await report.check('there is nothing to check without weir', () => {});
  return report.close();
}

if (process.argv[1] === join(here, 'signin-clients.mjs')) {
  await main(async (options) => { await setup(); return signinClients(options); });
}
