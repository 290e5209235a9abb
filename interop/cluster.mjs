// Sessions over the end of nodes: three gateways with `store: nats://…` behind a balancer that takes them in turn. Clients of the
// TypeScript and Python SDKs go on while each node is killed or ends, without a second handshake. 100 Computers of python-socketio
// come to another node each time, and the time that they take is printed.
//
//   node interop/cluster.mjs --weir bin/weir
import { once } from 'node:events';
import { createServer, request } from 'node:http';
import { connect, createServer as createRelay } from 'node:net';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Client, everythingServer, expect, expectEqual, freePort, here, main, Report, start, startNATS, startWeir, stop, textOf, work } from './harness.mjs';

// A Balancer sends each request to the next node, and to the one after it if the connection is refused. It counts the handshakes
// and the refused requests of each client, which the query of the URL names.
class Balancer {
  constructor(ports) {
    this.ports = ports;
    this.turn = 0;
    this.handshakes = {};
    this.refused = {};
  }

  async listen() {
    this.server = createServer((req, res) => this.#serve(req, res)).listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  async #serve(req, res) {
    const chunks = [];
    try {
      for await (const chunk of req) chunks.push(chunk);
    } catch {
      return; // the client has gone
    }
    const body = Buffer.concat(chunks);
    const client = new URL(req.url, 'http://x').searchParams.get('client');
    if (req.method === 'POST' && /"method":\s*"initialize"/.test(body)) this.handshakes[client] = (this.handshakes[client] ?? 0) + 1;
    const turn = this.turn++;
    this.#send(req, res, body, client, this.ports.map((_, i) => this.ports[(turn + i) % this.ports.length]));
  }

  #send(req, res, body, client, [port, ...others]) {
    const up = request({ port, host: '127.0.0.1', method: req.method, path: req.url, headers: req.headers, agent: false }, (answer) => {
      if (req.method === 'POST' && answer.statusCode >= 400) (this.refused[client] ??= []).push(answer.statusCode);
      res.writeHead(answer.statusCode, answer.headers);
      res.flushHeaders();
      answer.pipe(res);
      answer.on('error', () => res.destroy());
    });
    up.on('error', (error) => {
      if (error.code === 'ECONNREFUSED' && others.length > 0) this.#send(req, res, body, client, others);
      else if (res.headersSent) res.destroy();
      else res.writeHead(502).end(`${port}: ${error.code} ${error.message}`);
    });
    res.on('close', () => up.destroy());
    up.end(body);
  }

  close() {
    this.server.close();
    this.server.closeAllConnections();
  }
}

// A Relay hands each connection to the next node, and to the one after it if that refuses.
class Relay {
  constructor(ports) {
    this.ports = ports;
    this.turn = 0;
    this.open = new Set();
  }

  async listen() {
    this.server = createRelay((near) => this.#hand(near, this.turn++, this.ports.length)).listen(0, '127.0.0.1');
    await once(this.server, 'listening');
    return `http://127.0.0.1:${this.server.address().port}`;
  }

  #hand(near, turn, left) {
    const far = connect(this.ports[turn % this.ports.length], '127.0.0.1');
    let there = false;
    this.open.add(near);
    near.on('error', () => far.destroy());
    near.on('close', () => { this.open.delete(near); far.destroy(); });
    far.on('connect', () => { there = true; near.pipe(far); far.pipe(near); });
    far.on('error', () => {
      if (!there && left > 1 && !near.destroyed) this.#hand(near, turn + 1, left - 1);
      else near.destroy();
    });
    far.on('close', () => { if (there) near.destroy(); });
  }

  close() {
    this.server.close();
    for (const near of this.open) near.destroy();
  }
}

// Computers are a process with Computers of python-socketio: which are in their office, and how long those were away that are back.
class Computers {
  constructor(url, count) {
    this.count = count;
    this.inside = new Set();
    this.times = [];
    this.left = 0;
    this.child = start('computers', join(work, 'pythonsocketio', 'bin', 'python'), [join(here, 'socketio', 'computers.py'), url, String(count), 'floor'], { stdin: 'pipe', stdout: 'pipe' });
    createInterface({ input: this.child.stdout }).on('line', (line) => {
      const { name, event, ms } = JSON.parse(line);
      if (event === 'out') {
        if (this.inside.delete(name)) this.left++;
      } else {
        this.inside.add(name);
        this.times.push(ms);
      }
    });
  }

  // back waits until all are in the office, after at least so many have left it. It returns how many have, and the 95th percentile
  // of their times.
  async back(least) {
    for (const end = performance.now() + limit; this.left < least || this.inside.size < this.count || this.times.length < this.left; await sleep(50)) {
      expect(performance.now() < end, `${this.count - this.inside.size} of ${this.count} are not in their office after ${limit / 1000} s`);
    }
    const times = this.times.sort((a, b) => a - b);
    const p95 = times[Math.max(0, Math.ceil(times.length * 0.95) - 1)];
    const left = this.left;
    this.times = [];
    this.left = 0;
    return { left, p95 };
  }
}

const kinds = ['ts1', 'ts2', 'python1', 'python2'];
// The other nodes notice the end of a killed one after up to 12 s. A busy machine needs longer. The times are printed.
const limit = 55_000;

export async function clusters({ weir }) {
  const began = performance.now();
  const report = new Report('Sessions over the end of nodes');
  if (!weir) {
    console.log('        there is nothing to check without --weir');
    return 0;
  }
  const far = await everythingServer('http');
  const ports = new Set(); // a free port may be told twice
  while (ports.size < 6) ports.add(await freePort());
  const free = [...ports];
  const nodes = ['n0', 'n1', 'n2'].map((name) => ({ name, port: free.pop(), link: free.pop() }));
  const nats = await startNATS();
  let begun = 0;
  const begin = async (node) => {
    const config = {
      store: { at: nats, max_bytes: '64MB' },
      cluster: { node: node.name, key: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=', listen: `127.0.0.1:${node.link}` },
      mode: 'gateway',
      hub: {},
      mcpServers: { far: { url: far.url, required: true } },
    };
    node.gateway = await startWeir(weir, `weir-${node.name}-${begun++}`, config, ['--listen', `127.0.0.1:${node.port}`]);
  };
  await Promise.all(nodes.map(begin));
  const balancer = new Balancer(nodes.map(({ port }) => port));
  const base = await balancer.listen();

  const sessions = [];
  for (const kind of kinds) {
    for (const path of ['/mcp', '/mcps/far/mcp']) {
      const name = `${kind} at ${path}`;
      await report.check(`${name} connects`, async () => {
        const id = `${kind}${path}`;
        const client = await Client.connect(kind, { transport: 'http', url: `${base}${path}?client=${encodeURIComponent(id)}` });
        sessions.push({ name, id, client, path });
      });
    }
  }
  // works lists the tools and makes a call at each node. The first request after the end of a node is measured.
  const works = async ({ id, client, path }) => {
    const began = performance.now();
    const { tools } = await client.get('listTools');
    const took = performance.now() - began;
    expect(took < limit, `the first request took ${Math.round(took)} ms`);
    expect(tools.some((tool) => tool.name === (path === '/mcp' ? 'tool_browse' : 'echo')), 'the tool is not listed', tools.map((tool) => tool.name));
    for (let i = 0; i < nodes.length; i++) {
      const text = textOf(await (path === '/mcp' ? client.call('tool_browse', { query: 'echo' }) : client.call('echo', { message: 'over there' })));
      expect(text.includes(path === '/mcp' ? 'far:echo' : 'over there'), 'the answer has another text', text);
    }
    expectEqual(balancer.handshakes[id], 1, 'handshakes');
    expectEqual(balancer.refused[id] ?? [], [], 'refused requests');
    return took;
  };
  const check = async (when) => {
    const times = await Promise.all(sessions.map((s) => report.check(`${s.name} ${when}`, () => works(s))));
    console.log(`        the first requests took up to ${Math.round(Math.max(...times.filter((t) => t !== undefined)))} ms`);
  };
  await check('at first');
  const relay = new Relay(nodes.map(({ port }) => port));
  const computers = new Computers(await relay.listen(), 100);
  await report.check('100 Computers of python-socketio come to an office', () => computers.back(0));
  for (const [n, signal] of [[0, 'SIGKILL'], [1, 'SIGKILL'], [2, 'SIGKILL'], [0, 'SIGTERM']]) {
    const node = nodes[n];
    node.gateway.child.kill(signal);
    await node.gateway.child.ended;
    await report.check(`the Computers are back after ${signal} of ${node.name}`, async () => {
      const { left, p95 } = await computers.back(1);
      console.log(`        ${left} of ${computers.count} had to come back; p95 of the time away ${p95} ms`);
    });
    await check(`after ${signal} of ${node.name}`);
    await begin(node);
    await sleep(1000); // an election may follow
    await check(`with ${node.name} again`);
  }
  for (const { client } of sessions) await client.close();
  await stop(computers.child);
  relay.close();
  balancer.close();
  console.log(`        all of it took ${Math.round((performance.now() - began) / 1000)} s`);
  return report.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(clusters);
