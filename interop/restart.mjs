// Restarts that clients do not notice: with `store: file:DIR`, sessions of the TypeScript SDK go on after kill -9 and after SIGTERM,
// at the gateway and at servers behind it. No call fails, and no client makes a second handshake.
//
//   node interop/restart.mjs --weir bin/weir
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { everythingServer, everythingStdio, expect, expectEqual, freePort, main, Report, scratch, startWeir, textOf } from './harness.mjs';

// A Session is a client of the SDK, and what it has sent.
class Session {
  static async open(url) {
    const session = new Session();
    session.handshakes = 0;
    session.refused = [];
    const counting = async (at, request) => {
      if (request?.method === 'POST' && /"method":\s*"initialize"/.test(request.body)) session.handshakes++;
      const answer = await fetch(at, request);
      if (request?.method === 'POST' && !answer.ok) session.refused.push(answer.status);
      return answer;
    };
    session.client = new Client({ name: 'restart', version: '1' });
    session.transport = new StreamableHTTPClientTransport(new URL(url), { fetch: counting });
    await session.client.connect(session.transport);
    session.id = session.transport.sessionId;
    return session;
  }

  // works lists the tools, makes a call and looks that the session is the first one. A gateway that has just started may not have
  // listed its servers yet, so the call is repeated until the answer has what is wanted; none of them may fail.
  async works(tool, args, want) {
    const { tools } = await this.client.listTools();
    expect(tools.some((t) => t.name === tool), `${tool} is not listed`, tools.map((t) => t.name));
    const call = async () => textOf(await this.client.callTool({ name: tool, arguments: args }));
    let text = await call();
    for (const end = Date.now() + 5000; !text.includes(want) && Date.now() < end; text = await call()) await sleep(50);
    expect(text.includes(want), `the answer of ${tool} has no ${want}`, text);
    expectEqual(this.handshakes, 1, 'handshakes');
    expectEqual(this.refused, [], 'refused requests');
    expectEqual(this.transport.sessionId, this.id, 'session');
  }
}

export async function restarts({ weir }) {
  const report = new Report('Sessions over restarts');
  if (!weir) {
    console.log('        there is nothing to check without --weir');
    return 0;
  }
  rmSync(join(scratch, 'restart-state'), { recursive: true, force: true });
  const far = await everythingServer('http');
  // In mode auto the tools at /mcp depend on how many the servers have listed, and one of them lists its last ones late.
  const config = { mode: 'gateway', store: 'file:restart-state', mcpServers: { near: everythingStdio(), far: { url: far.url } } };
  const port = await freePort();
  const begin = (n) => startWeir(weir, `weir-restart-${n}`, config, ['--listen', `127.0.0.1:${port}`]);
  let gateway = await begin(0);
  const sessions = [
    ['/mcp', 'tool_browse', { query: 'echo' }, 'near:echo', await Session.open(gateway.url)],
    ['/mcps/near/mcp', 'echo', { message: 'over there' }, 'over there', await Session.open(gateway.at('near'))],
    ['/mcps/far/mcp', 'echo', { message: 'far away' }, 'far away', await Session.open(gateway.at('far'))],
  ];
  const check = async (when) => {
    for (const [path, tool, args, want, session] of sessions) await report.check(`${path} ${when}`, () => session.works(tool, args, want));
  };
  await check('at first');
  let n = 0;
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGKILL']) {
    gateway.child.kill(signal);
    await gateway.child.ended;
    gateway = await begin(++n);
    await check(`after ${signal} ${n}`);
  }
  await report.check('a session that its client ended stays ended', async () => {
    const [, , , , session] = sessions[0];
    await session.transport.terminateSession();
    gateway.child.kill('SIGKILL');
    await gateway.child.ended;
    gateway = await begin(++n);
    const answer = await fetch(gateway.url, {
      method: 'POST', body: '{"jsonrpc":"2.0","id":1,"method":"tools/list"}',
      headers: { 'content-type': 'application/json', accept: 'application/json, text/event-stream', 'mcp-session-id': session.id },
    });
    expectEqual(answer.status, 404, 'status');
  });
  for (const [, , , , session] of sessions) await session.client.close();
  return report.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(restarts);
