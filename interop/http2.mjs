// weir's TLS listener over HTTP/2, with the client of Node and with curl: streams, uploads, cancellation, limits, the end of the
// gateway; and a WebSocket, which stays on HTTP/1.1.
//
//   node interop/http2.mjs --weir bin/weir
import { once } from 'node:events';
import { mkdirSync, readFileSync } from 'node:fs';
import { connect, constants } from 'node:http2';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Report, Wrong, expect, expectEqual, freePort, here, main, run, scratch, start, stop, tail, writeConfig } from './harness.mjs';
import { setup } from './setup.mjs';

// gatewayWithTLS starts weir with a certificate that signs itself.
async function gatewayWithTLS(weir) {
  const home = join(scratch, 'http2');
  mkdirSync(home, { recursive: true });
  const [cert, key, fake] = [join(home, 'weir.pem'), join(home, 'weir.key'), join(scratch, 'fakemcp')];
  await run('openssl', 'openssl', ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-days', '2', '-keyout', key, '-out', cert, '-subj', '/CN=127.0.0.1', '-addext', 'subjectAltName=IP:127.0.0.1']);
  await run('go-build-fake', 'go', ['build', '-o', fake, './internal/testkit/fakemcp/cmd/fakemcp'], { cwd: join(here, '..') });
  const port = await freePort();
  const child = start('http2-weir', weir, ['serve', '--listen', `127.0.0.1:${port}`, '--config', writeConfig('http2', {
    mode: 'proxy', tls: { cert, key }, hub: { office: '' }, http: { max_body_bytes: '1MB' }, mcpServers: { fake: { command: fake, idle_timeout: '1h' } },
  })]);
  return { base: `https://127.0.0.1:${port}`, ca: readFileSync(cert), cert, child };
}

// ask sends a request on a session and returns its status, its headers and its body.
async function ask(session, headers, body) {
  const stream = session.request(headers, { endStream: body === undefined });
  if (body !== undefined) stream.end(body);
  const [answer] = await once(stream, 'response');
  let text = '';
  for await (const part of stream.setEncoding('utf8')) text += part;
  return { status: answer[':status'], headers: answer, text };
}

const mcp = { ':method': 'POST', ':path': '/mcps/fake/mcp', 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
const message = (method, params, id) => JSON.stringify({ jsonrpc: '2.0', method, params, ...(id ? { id } : {}) });

// dial waits until the gateway answers and all of its servers are up.
async function dial({ base, ca, child }) {
  for (const end = Date.now() + 20_000; Date.now() < end; await sleep(100)) {
    const session = connect(base, { ca });
    session.on('error', () => {});
    const health = await Promise.race([ask(session, { ':path': '/healthz' }).catch(() => undefined), sleep(2000)]);
    if (health && JSON.parse(health.text).upstreams?.fake?.state === 'ready') return session;
    session.destroy();
  }
  throw new Wrong(`no HTTP/2 at ${base}:\n${tail(readFileSync(child.log, 'utf8'))}`);
}

// begin begins a session of MCP and returns the headers of its requests.
async function begin(session) {
  const hello = await ask(session, mcp, message('initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'node', version: '1' } }, 1));
  expectEqual(hello.status, 200);
  const headers = { ...mcp, 'mcp-session-id': hello.headers['mcp-session-id'], 'mcp-protocol-version': '2025-11-25' };
  expectEqual((await ask(session, headers, message('notifications/initialized', {}))).status, 202);
  return headers;
}

export async function overHTTP2({ weir }) {
  const report = new Report("weir's TLS listener over HTTP/2");
  if (!weir) {
    await report.check('there is nothing to check without weir', () => {});
    return report.close();
  }
  const gateway = await gatewayWithTLS(weir);
  const session = await dial(gateway);
  const headers = await begin(session);
  const call = (name, args, id, meta) => message('tools/call', { name, arguments: args, ...(meta ? { _meta: meta } : {}) }, id);
  const inFlight = async () => JSON.parse((await ask(session, { ':path': '/healthz' })).text).upstreams.fake.in_flight ?? 0;

  await report.check('the settings name the bounds', () => {
    const { maxConcurrentStreams, maxHeaderListSize } = session.remoteSettings;
    expect(session.alpnProtocol === 'h2' && maxConcurrentStreams === 250 && maxHeaderListSize <= 70_000, 'others', { maxConcurrentStreams, maxHeaderListSize });
  });
  await report.check('a stream of events: progress, then the result; many calls on one connection', async () => {
    const { text } = await ask(session, headers, call('progress', { n: 5, interval_ms: 20 }, 7, { progressToken: 'p' }));
    expect((text.match(/notifications\/progress/g) ?? []).length === 5 && /"id":7/.test(text), 'events are missing', text);
    const all = await Promise.all([...Array(200).keys()].map((n) => ask(session, headers, call('echo', { text: `n${n}` }, 100 + n))));
    expect(all.every(({ text }, n) => text.includes(`n${n}`)), 'an answer is wrong');
  });
  await report.check('an upload over the bound is refused, and the connection goes on', async () => {
    const slow = ask(session, headers, call('sleep', { sleep_ms: 500 }, 8));
    const { status } = await ask(session, headers, Buffer.alloc(4 << 20, 'x')).catch((error) => ({ status: error.code }));
    expect(status === 413, 'the refusal is another', status);
    expect((await slow).text.includes('slept') && !session.closed, 'another request suffered');
    expect((await ask(session, headers, call('echo', { text: 'y'.repeat(500_000) }, 9))).text.includes('yyyy'), 'a large call fails');
  });
  await report.check('headers over the bound are refused', async () => {
    const own = connect(gateway.base, { ca: gateway.ca });
    const stream = own.request({ ':path': '/healthz', 'x-large': 'x'.repeat(60_000), 'x-larger': 'x'.repeat(60_000) });
    const status = await Promise.race([once(stream, 'response').then(([h]) => h[':status']), once(own, 'error').then(([e]) => e.code)]).catch((error) => error.code);
    expect(status === 431 || String(status).startsWith('ERR_HTTP2'), 'they pass', status);
    own.destroy();
  });
  await report.check('a cancelled stream (RST_STREAM) cancels its call at the server', async () => {
    const modern = { ...mcp, 'mcp-protocol-version': '2026-07-28', 'mcp-method': 'tools/call', 'mcp-name': 'sleep' };
    const stream = session.request(modern);
    stream.on('error', () => {});
    stream.end(call('sleep', { sleep_ms: 60_000 }, 10, { 'io.modelcontextprotocol/protocolVersion': '2026-07-28', 'io.modelcontextprotocol/clientInfo': { name: 'node', version: '1' }, 'io.modelcontextprotocol/clientCapabilities': {} }));
    for (const end = Date.now() + 5000; await inFlight() === 0 && Date.now() < end;) await sleep(30);
    expectEqual(await inFlight(), 1);
    stream.close(constants.NGHTTP2_CANCEL);
    for (const end = Date.now() + 5000; await inFlight() > 0 && Date.now() < end;) await sleep(30);
    expectEqual(await inFlight(), 0);
  });
  await report.check('curl --http2', async () => {
    const version = await run('curl', 'curl', ['--version'], { mayFail: true });
    if (!version.output.includes('HTTP2')) return;
    const { output } = await run('curl', 'curl', ['--silent', '--http2', '--cacert', gateway.cert, '--write-out', ' %{http_version} %{http_code}', `${gateway.base}/healthz`]);
    expect(output.trim().endsWith(' 2 200'), 'curl says', output);
  });
  await report.check('socket.io-client over WebSocket, on HTTP/1.1', async () => {
    const { io } = await import('socket.io-client');
    const socket = io(`${gateway.base}/smcp`, { transports: ['websocket'], reconnection: false, ca: gateway.ca });
    await Promise.race([once(socket, 'connect'), once(socket, 'connect_error').then(([error]) => { throw error; })]);
    expectEqual(await socket.timeout(5000).emitWithAck('server:join_office', { role: 'agent', name: 'a', office_id: 'a' }), true);
    socket.close();
  });
  await report.check('the gateway ends: the call is answered, and the connection gets GOAWAY', async () => {
    const goaway = once(session, 'goaway');
    const slow = ask(session, headers, call('sleep', { sleep_ms: 700 }, 11));
    for (const end = Date.now() + 5000; await inFlight() === 0 && Date.now() < end;) await sleep(30);
    gateway.child.kill('SIGTERM');
    expect((await slow).text.includes('slept'), 'the call was not answered');
    const [code] = await Promise.race([goaway, sleep(5000, ['none'])]);
    expectEqual(code, 0);
  });
  session.destroy();
  await stop(gateway.child);
  return report.close();
}

if (process.argv[1] === join(here, 'http2.mjs')) await main(async (options) => { await setup(); return overHTTP2(options); });
