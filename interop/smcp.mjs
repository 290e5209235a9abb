// Holds weir's hub, Computer and agent against other implementations of A2C-SMCP: the flows of the protocol with python-socketio
// (threads and asyncio) and socket.io-client as agent and computer, over polling and WebSocket; and agents, computers and servers of
// the PyPI package a2c-smcp, 0.1.2 and the newest.
//
//   node interop/smcp.mjs --weir bin/weir
import { generateKeyPairSync, sign } from 'node:crypto';
import { createServer } from 'node:http';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Report, Wrong, answering, expect, expectEqual, freePort, here, main, run, scratch, start, startWeir, stop, tail, work, writeConfig } from './harness.mjs';
import { setup } from './setup.mjs';

const script = (name) => join(here, 'smcp', name);
const python = (environment) => join(work, environment, 'bin', 'python');
const peers = {
  'python-socketio, asyncio': [python('pythonsocketio'), script('peer_async.py')],
  'python-socketio, threads': [python('pythonsocketio'), script('peer_sync.py')],
  'socket.io-client': [process.execPath, script('peer.mjs')],
};
const sdks = { '0.1.2': ['pythona2c1', 'none'], newest: ['pythona2c4', '0.4.2'] };

// A Peer is a foreign client that is told what to do, line by line.
class Peer {
  static async start(name, [command, file], base, transports) {
    const peer = new Peer();
    peer.child = start(name, command, [file, base, transports], { stdin: 'pipe', stdout: 'pipe' });
    peer.lines = createInterface({ input: peer.child.stdout })[Symbol.asyncIterator]();
    peer.seen = [];
    await peer.next();
    return peer;
  }
  async next() {
    const { value, done } = await Promise.race([this.lines.next(), sleep(15_000, { done: true })]);
    if (done) throw new Wrong(`${this.child.title} says nothing:\n${tail(readFileSync(this.child.log, 'utf8'))}`);
    return JSON.parse(value);
  }
  async tell(...command) {
    this.child.stdin.write(`${JSON.stringify(command)}\n`);
    return this.next();
  }
  call(event, data) { return this.tell('call', event, data); }
  async hears(event, data) {
    for (const end = Date.now() + 5000; Date.now() < end; await sleep(30)) {
      this.seen.push(...await this.tell('heard'));
      const at = this.seen.findIndex(([name, got]) => name === event && JSON.stringify(got) === JSON.stringify(data));
      if (at >= 0) { this.seen.splice(0, at + 1); return; }
    }
    throw new Wrong(`never heard ${event} ${JSON.stringify(data)}; heard ${JSON.stringify(this.seen)}`);
  }
  // got is the payload of the last event of a name that the peer has heard.
  async got(event) {
    this.seen.push(...await this.tell('heard'));
    return this.seen.findLast(([name]) => name === event)?.[1];
  }
  // disconnect lets the peer take its leave, as it does at the end of its input. A signal at the same time could overtake it, and a
  // client that is killed between two polls is missed only when its pings are.
  disconnect() { this.child.stdin.end(); }
  async stop() {
    this.disconnect();
    await Promise.race([this.child.ended, sleep(2000)]);
    await stop(this.child, 500);
  }
}

// flows are those of the protocol, in the first draft's words where it has its own.
async function flows(report, base, name, kind, transports) {
  const office = `o-${Math.random().toString(36).slice(2)}`;
  const check = (what, f) => report.check(`${name}, ${transports}: ${what}`, f);
  const [agent, computer, other] = await Promise.all(['agent', 'computer', 'other'].map((role) =>
    Peer.start(`${name.replace(/[^a-z]+/g, '-')}-${role}`, kind, base, transports)));
  const join = (who, role, id, room) => who.call('server:join_office', { role, name: id, office_id: room });
  await computer.tell('answer', 'client:get_tools', { tools: [{ name: 't', description: 'd', params_schema: {}, return_schema: null }] });
  await computer.tell('answer', 'client:tool_call', { content: [{ type: 'text', text: 'done' }], isError: false });
  await computer.tell('answer', 'client:get_mcp_config', { servers: { s: { type: 'stdio' } } });
  await check('join, and the notice of it', async () => {
    expectEqual(await join(agent, 'agent', office, office), [true, null]);
    expectEqual(await join(computer, 'computer', 'c', office), [true, null]);
    await agent.hears('notify:enter_office', { office_id: office, computer: 'c' });
  });
  await check('one agent an office', async () => {
    expectEqual(await join(other, 'agent', 'x', office), [false, 'Internal server error: Agent already in room']);
    expectEqual(await other.call('server:join_office', { role: 'agent', robot_id: 'x', office_id: office }), [false, 'Agent sid should equal office_id']);
  });
  await check('office_id is robot_id', async () => expectEqual(
    await other.call('server:join_office', { role: 'agent', robot_id: 'bot-y', office_id: `${office}-x` }), [false, 'Agent sid should equal office_id']));
  await check('get_tools', async () => expectEqual(await agent.call('client:get_tools', { agent: office, req_id: 'r1', computer: 'c' }),
    { tools: [{ name: 't', description: 'd', params_schema: {}, return_schema: null }], req_id: 'r1' }));
  await check('tool_call', async () => {
    const got = await agent.call('client:tool_call', { robot_id: office, req_id: 'r2', computer: 'c', tool_name: 't', params: { a: 1 }, timeout: 5 });
    expectEqual(got.content, [{ type: 'text', text: 'done' }]);
  });
  await check('params that are no object', async () => {
    for (const params of [[1], null, 'text', undefined]) {
      const got = await agent.call('client:tool_call', { agent: office, req_id: 'r7', computer: 'c', tool_name: 't', params, timeout: 5 });
      expectEqual([got.code, got.error.code, got.error.details], [400, 400, { params: 'an object' }]);
    }
  });
  await check("another agent's name", async () => {
    for (const forged of [{ agent: 'else' }, { robot_id: 'else' }, { agent: 'else', robot_id: 'other' }]) {
      await agent.call('client:tool_call', { ...forged, req_id: 'r8', computer: 'c', tool_name: 't', params: {}, timeout: 5 });
      const { agent: name, robot_id: robot } = await computer.got('client:tool_call');
      expectEqual([name, robot], [office, office]);
    }
  });
  await check('get_mcp_config', async () => {
    const got = await agent.call('client:get_mcp_config', { robot_id: office, req_id: 'r3', computer: 'c' });
    expectEqual(got.servers, { s: { type: 'stdio' } });
  });
  await check('update_mcp_config', async () => {
    await computer.tell('emit', 'server:update_mcp_config', { computer: 'c' });
    await agent.hears('notify:update_config', { computer: 'c' });
    await agent.hears('notify:update_mcp_config', { computer: 'c' });
  });
  await check('cancel', async () => {
    await agent.tell('emit', 'server:tool_call_cancel', { robot_id: office, req_id: 'r9' });
    await computer.hears('notify:tool_call_cancel', { agent: office, req_id: 'r9', robot_id: office });
  });
  await check('list_room', async () => {
    const { sessions, req_id: id } = await agent.call('server:list_room', { agent: office, req_id: 'r4', office_id: office });
    expectEqual([id, sessions.map((s) => [s.name, s.role, s.office_id])], ['r4', [[office, 'agent', office], ['c', 'computer', office]]]);
  });
  await check('isolation', async () => {
    expectEqual(await join(other, 'agent', 'x', `${office}-2`), [true, null]);
    const crossed = await other.call('client:tool_call', { agent: office, req_id: 'r5', computer: 'c', tool_name: 't', params: {}, timeout: 5 });
    expectEqual([crossed.code, crossed.error.code], [4104, 4104]);
    const missing = await agent.call('client:get_tools', { agent: office, req_id: 'r6', computer: 'nobody' });
    expectEqual([missing.error.code, missing.message], [404, "Computer with name 'nobody' not found"]);
  });
  await check('room switch', async () => {
    expectEqual(await join(computer, 'computer', 'c', `${office}-2`), [true, null]);
    await agent.hears('notify:leave_office', { office_id: office, computer: 'c' });
    await other.hears('notify:enter_office', { office_id: `${office}-2`, computer: 'c' });
  });
  await check('leave, by word and by disconnecting', async () => {
    expectEqual(await computer.call('server:leave_office', { office_id: `${office}-2` }), [true, null]);
    await other.hears('notify:leave_office', { office_id: `${office}-2`, computer: 'c' });
    await join(computer, 'computer', 'c', office);
    await agent.hears('notify:enter_office', { office_id: office, computer: 'c' });
    computer.disconnect();
    await agent.hears('notify:leave_office', { office_id: office, computer: 'c' });
  });
  const [first, second] = await Promise.all(['frozen', 'thawed'].map((role) => Peer.start(`${name.replace(/[^a-z]+/g, '-')}-${role}`, kind, base, transports)));
  await check('back in place of a connection that is dead', async () => {
    expectEqual(await join(first, 'computer', 'back', office), [true, null]);
    await agent.hears('notify:enter_office', { office_id: office, computer: 'back' });
    expectEqual(await join(second, 'computer', 'back', office), [false, `Internal server error: Computer with name 'back' already exists in room '${office}'`]);
    first.child.kill('SIGSTOP');
    const begun = Date.now();
    expectEqual(await join(second, 'computer', 'back', office), [true, null]);
    expect(Date.now() - begun < 6000, `it took ${Date.now() - begun} ms`);
    await agent.hears('notify:leave_office', { office_id: office, computer: 'back' });
    await agent.hears('notify:enter_office', { office_id: office, computer: 'back' });
    first.child.kill('SIGCONT');
  });
  await Promise.all([agent, computer, other, first, second].map((peer) => peer.stop()));
}

const computerFile = (fake) => writeConfig('smcp-computer', { mcpServers: { fake: { command: fake, default_tool_meta: { auto_apply: true } } } });

// weirComputer runs weir computer, which needs no hub to be there yet.
const weirComputer = (weir, name, hub, office, fake, more = []) =>
  start(`weir-computer-${name}`, weir, ['computer', '--batch', '--hub', hub, '--office', office, '--name', name, '--config', computerFile(fake), ...more]);

// sdkAgent has an agent of the SDK go through an office. At our hub list_room says which version each peer has:
// sameVersion says that the Computer is of the SDK, too.
async function sdkAgent(report, title, environment, base, office, computer, sameVersion) {
  await report.check(title, async () => {
    const { output } = await run(`sdk-agent-${office}`, python(environment), [script('sdk_agent.py'), base, office, computer], { mayFail: true, limit: 90_000 });
    const line = output.split('\n').find((l) => l.startsWith('RESULT '));
    expect(line, 'the agent did not get to its end', tail(output));
    const got = JSON.parse(line.slice(7));
    expectEqual([got.echo, got.late, got.desktop], ['hello from the SDK', true, []]);
    if (sameVersion !== undefined) expectEqual(got.versions, { agent: got.own, computer: sameVersion ? got.own : null });
  });
}

// listed waits until a gateway lists an upstream with tools.
async function listed(report, title, gateway, upstream) {
  await report.check(title, async () => {
    for (const end = Date.now() + 30_000; Date.now() < end; await sleep(100)) {
      const health = await (await fetch(`${gateway.base}/healthz`)).json();
      if (health.upstreams[upstream]?.tools > 0) return;
    }
    throw new Wrong(`no upstream ${upstream}:\n${tail(readFileSync(gateway.child.log, 'utf8'))}`);
  });
}

// draftErrors are those of weir's Computer for an agent of the first draft.
async function draftErrors(report, weir, hub, kind, fake) {
  const ours = weirComputer(weir, 'draft', hub.base, 'draft', fake);
  const agent = await Peer.start('draft-agent', kind, hub.base, 'websocket');
  await report.check('an agent of the first draft, our Computer: errors', async () => {
    expectEqual(await agent.call('server:join_office', { role: 'agent', robot_id: 'draft', office_id: 'draft' }), [true, null]);
    for (const end = Date.now() + 10_000; Date.now() < end; await sleep(100)) {
      const { sessions } = await agent.call('server:list_room', { robot_id: 'draft', req_id: 'l', office_id: 'draft' });
      if (sessions.length === 2) break;
    }
    const call = (tool, params, timeout) => agent.call('client:tool_call', { robot_id: 'draft', req_id: tool, computer: 'draft', tool_name: tool, params, timeout });
    const unknown = await call('invalid-tool-id', {}, 7);
    expectEqual([unknown.error.code, unknown.error.details], [404, { toolId: 'invalid-tool-id' }]);
    const late = await call('sleep', { sleep_ms: 8000 }, 1);
    expectEqual([late.error.code, late.error.details, late.content], [408, { toolId: 'sleep' }, undefined]);
    expectEqual((await call('echo', { text: 'hello' }, 7)).content, [{ type: 'text', text: 'hello' }]);
  });
  await Promise.all([agent.stop(), stop(ours)]);
}

// anIssuer is an authorization server: metadata, one key, and a function that signs tokens.
async function anIssuer() {
  const { privateKey, publicKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  const part = (value) => Buffer.from(typeof value === 'string' ? value : JSON.stringify(value)).toString('base64url');
  const server = createServer((request, response) => {
    const issuer = `http://127.0.0.1:${server.address().port}`;
    response.setHeader('Content-Type', 'application/json');
    response.end(JSON.stringify(request.url === '/jwks' ? { keys: [{ ...publicKey.export({ format: 'jwk' }), kid: 'k', alg: 'ES256', use: 'sig' }] } : { issuer, jwks_uri: `${issuer}/jwks` }));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const token = (claims) => {
    const text = `${part({ alg: 'ES256', kid: 'k', typ: 'at+jwt' })}.${part({ iss: issuer, exp: Math.floor(Date.now() / 1000) + 600, ...claims })}`;
    return `${text}.${sign('sha256', Buffer.from(text), { key: privateKey, dsaEncoding: 'ieee-p1363' }).toString('base64url')}`;
  };
  return { issuer, token, stop: () => server.close() };
}

// issued has peers of socket.io-client sign in at our hub with tokens of an issuer.
async function issued(report, weir) {
  const { io } = await import('socket.io-client');
  const idp = await anIssuer();
  const audience = 'http://weir.test';
  const hub = await startWeir(weir, 'smcp-issuer', {
    mcpServers: {}, public_url: audience, auth: { issuers: { corp: { issuer: idp.issuer } } },
    hub: { office: '', issuers: [{ issuer: 'corp', groups: ['robots'], role: 'computer', offices: ['lab'] }, { issuer: 'corp', principals: ['corp:ann'], role: 'agent' }] },
  });
  const attempt = (options) => new Promise((done) => {
    const socket = io(`${hub.base}/smcp`, { transports: ['websocket'], reconnection: false, forceNew: true, ...options });
    socket.on('connect', () => done(socket));
    socket.on('connect_error', (error) => { socket.close(); done(error); });
  });
  const join = (socket, role, name, office) => socket.timeout(8000).emitWithAck('server:join_office', { role, name, office_id: office });
  await report.check('socket.io-client with tokens of an issuer: the auth, a header, offices by groups', async () => {
    const robot = await attempt({ auth: (give) => give({ token: idp.token({ sub: 'r1', aud: audience, groups: ['robots'] }) }) });
    const ann = await attempt({ extraHeaders: { Authorization: `Bearer ${idp.token({ sub: 'ann', aud: audience })}` } });
    for (const peer of [robot, ann]) expect(!(peer instanceof Error), `refused: ${peer}`);
    expectEqual(await join(robot, 'computer', 'r', 'other'), false); // an office that its group does not open
    const entered = new Promise((done) => ann.on('notify:enter_office', done));
    expectEqual(await join(ann, 'agent', 'lab', 'lab'), true);
    expectEqual(await join(robot, 'computer', 'r', 'lab'), true);
    expectEqual(await entered, { office_id: 'lab', computer: 'r' });
    for (const peer of [robot, ann]) peer.close();
  });
  await report.check('socket.io-client with a token for another audience, or without an entry', async () => {
    for (const claims of [{ sub: 'ann', aud: `${audience}/mcp` }, { sub: 'bob', aud: audience }]) {
      expect(await attempt({ auth: { token: idp.token(claims) } }) instanceof Error, `let in: ${JSON.stringify(claims)}`);
    }
  });
  await hub.stop();
  idp.stop();
}

export async function offices({ weir }) {
  if (!weir) return 0; // there is nothing of weir's to compare
  const report = new Report('A2C-SMCP: foreign agents and computers at our hub, ours at theirs');
  const fake = join(scratch, 'fakemcp');
  await run('go-build-fake', 'go', ['build', '-o', fake, './internal/testkit/fakemcp/cmd/fakemcp'], { cwd: join(here, '..') });
  const hub = await startWeir(weir, 'smcp-hub', { mcpServers: {}, hub: { office: 'weir' } });
  for (const [name, kind] of Object.entries(peers)) {
    for (const transports of ['polling', 'websocket', 'polling,websocket']) await flows(report, hub.base, name, kind, transports);
  }
  await issued(report, weir);
  await draftErrors(report, weir, hub, peers['python-socketio, threads'], fake);
  for (const [version, [environment, said]] of Object.entries(sdks)) {
    const tag = version.replaceAll('.', '');
    const theirs = start(`sdk-computer-${tag}`, python(environment), [script('sdk_computer.py'), hub.base, `sdk${tag}`, 'pc', said, fake, '-versions', '2025-06-18']);
    const ours = weirComputer(weir, `mix${tag}`, hub.base, `mix${tag}`, fake);
    await sdkAgent(report, `agent ${version}, computer ${version}, our hub`, environment, hub.base, `sdk${tag}`, 'pc', true);
    await sdkAgent(report, `agent ${version}, our Computer, our hub`, environment, hub.base, `mix${tag}`, `mix${tag}`, false);
    const gateway = await startWeir(weir, `smcp-gateway-${tag}`, { mcpServers: {}, hubs: { a: { url: hub.base, office: `sdk${tag}` } } });
    await listed(report, `our gateway, computer ${version}`, gateway, said === 'none' ? 'pc' : 'pc-fake');
    await gateway.stop();
    await Promise.all([stop(theirs, 2000), stop(ours)]);

    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const server = start(`sdk-server-${tag}`, python(environment), [script('sdk_server.py'), String(port)]);
    await answering(`${base}/socket.io/?EIO=4&transport=polling`, server);
    const query = said === 'none' ? '' : `/socket.io/?a2c_version=${said}`;
    const away = weirComputer(weir, 'ours', base, `away${tag}`, fake, said === 'none' ? [] : ['--a2c-version', said]);
    await sdkAgent(report, `agent ${version}, our Computer, server ${version}`, environment, base, `away${tag}`, 'ours');
    const far = await startWeir(weir, `smcp-far-${tag}`, { mcpServers: {}, hubs: { a: { url: base + query, office: `away${tag}` } } });
    await listed(report, `our gateway, our Computer, server ${version}`, far, said === 'none' ? 'ours' : 'ours-fake');
    await far.stop();
    await Promise.all([stop(away), stop(server, 2000)]);
  }
  await hub.stop();
  return report.close();
}

if (process.argv[1] === join(here, 'smcp.mjs')) await main(async (options) => { await setup(); return offices(options); });
