// What every driver needs: checks and their count, processes that always end, weir, foreign servers and foreign clients.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { basename, dirname, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { isDeepStrictEqual } from 'node:util';

export const here = dirname(fileURLToPath(import.meta.url));
export const work = join(here, '.work'); // ignored by git: what is installed and built
// scratch is where this driver writes its files and logs. Two drivers run at once, so each has a folder of its own.
export const scratch = join(work, 'runs', basename(process.argv[1], '.mjs'));
export const module = (...parts) => join(here, 'node_modules', ...parts);
mkdirSync(join(scratch, 'logs'), { recursive: true });

// --- checks ---

// A Report prints one line a check and counts them.
export class Report {
  constructor(title) {
    this.title = title;
    this.passed = 0;
    this.failed = 0;
    console.log(`# ${title}`);
  }

  // check runs a function that throws what is wrong. A failed check does not end the run.
  async check(name, run) {
    try {
      const value = await run();
      this.passed++;
      console.log(`ok      ${name}`);
      return value;
    } catch (error) {
      this.failed++;
      const text = error instanceof Wrong ? error.message : (error.stack ?? String(error));
      console.log(`FAILED  ${name}\n        ${text.split('\n').join('\n        ')}`);
      return undefined;
    }
  }

  // close prints the last line and returns what the process should exit with.
  close() {
    console.log(`# ${this.title}: ${this.passed} passed, ${this.failed} failed`);
    return this.failed === 0 && this.passed > 0 ? 0 : 1;
  }
}

// Wrong is a failed expectation: its message is all there is to say.
export class Wrong extends Error {}

const short = (value) => {
  const text = typeof value === 'string' ? value : JSON.stringify(value);
  return text === undefined ? 'undefined' : text.length > 600 ? `${text.slice(0, 600)}… (${text.length} characters)` : text;
};

export function expect(condition, message, value) {
  if (!condition) throw new Wrong(value === undefined ? message : `${message}: ${short(value)}`);
}

// expectEqual compares JSON values whose key order does not matter and names the first path at which they differ.
export function expectEqual(got, want, what = 'value') {
  const path = firstDifference(got, want, what);
  if (path) throw new Wrong(path);
}

function firstDifference(got, want, path) {
  if (isDeepStrictEqual(got, want)) return '';
  const bothObjects = [got, want].every((v) => v !== null && typeof v === 'object') && Array.isArray(got) === Array.isArray(want);
  if (!bothObjects) return `${path} is ${short(got)}, want ${short(want)}`;
  for (const key of new Set([...Object.keys(want), ...Object.keys(got)])) {
    const found = firstDifference(got[key], want[key], Array.isArray(want) ? `${path}[${key}]` : `${path}.${key}`);
    if (found) return found;
  }
  return '';
}

// --- processes ---

const running = new Set();

// start starts a program in a process group of its own, so that stop also ends what it started. Its stderr, and its stdout
// unless it is piped, go to logs/NAME.log in scratch.
export function start(name, command, args, { env = {}, cwd, stdin = 'ignore', stdout = 'log' } = {}) {
  const log = join(scratch, 'logs', `${name}.log`);
  const fd = openSync(log, 'w');
  const child = spawn(command, args, {
    cwd, env: { ...process.env, ...env }, detached: true, stdio: [stdin, stdout === 'pipe' ? 'pipe' : fd, fd],
  });
  child.title = name;
  child.log = log;
  child.ended = new Promise((done) => {
    child.once('exit', (code, signal) => { running.delete(child); done({ code, signal }); });
    child.once('error', (error) => { running.delete(child); done({ code: null, signal: null, error }); });
  });
  child.hasEnded = () => child.exitCode !== null || child.signalCode !== null || child.pid === undefined;
  running.add(child);
  return child;
}

function signalGroup(child, signal) {
  if (child.pid === undefined) return;
  try { process.kill(-child.pid, signal); } catch (error) { if (error.code !== 'ESRCH') throw error; }
}

// stop asks a process to end and kills its group after a patience in milliseconds. It returns how the process ended and after
// how long.
export async function stop(child, patience = 6000) {
  const began = performance.now();
  if (!child.hasEnded()) {
    try { child.kill('SIGTERM'); } catch { /* it has just ended */ }
  }
  const how = await Promise.race([child.ended, sleep(patience, { killed: true })]);
  signalGroup(child, 'SIGKILL');
  await child.ended;
  return { ...how, took: performance.now() - began };
}

export async function stopAll() {
  await Promise.all([...running].map((child) => stop(child)));
}

for (const signal of ['SIGINT', 'SIGTERM']) {
  process.once(signal, () => { for (const child of running) signalGroup(child, 'SIGKILL'); process.exit(130); });
}
process.on('exit', () => { for (const child of running) signalGroup(child, 'SIGKILL'); });

// run waits for a program to end and returns its output. It fails if the program does, unless told otherwise.
export async function run(name, command, args, { limit = 300_000, mayFail = false, ...options } = {}) {
  const child = start(name, command, args, { ...options, stdout: 'pipe' });
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (chunk) => { output += chunk; });
  const timer = setTimeout(() => signalGroup(child, 'SIGKILL'), limit);
  const { code, error } = await child.ended;
  clearTimeout(timer);
  if (!mayFail && code !== 0) {
    throw new Wrong(`${command} ${args.join(' ')}: ${error?.message ?? `exit code ${code}`}\n${tail(output + readFileSync(child.log, 'utf8'))}`);
  }
  return { code, output };
}

export const tail = (text, lines = 20) => text.trimEnd().split('\n').slice(-lines).join('\n');

export async function freePort() {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();
  server.close();
  await once(server, 'close');
  return port;
}

// answering waits until something answers HTTP at a URL, whatever it answers.
export async function answering(url, child, limit = 20_000) {
  for (const end = Date.now() + limit; ; await sleep(50)) {
    try {
      const response = await fetch(url, { signal: AbortSignal.timeout(1000) });
      await response.body?.cancel();
      return;
    } catch {
      if (child.hasEnded() || Date.now() > end) throw new Wrong(`${child.title} does not answer at ${url}:\n${tail(readFileSync(child.log, 'utf8'))}`);
    }
  }
}

// --- weir ---

// startWeir runs `weir serve` with a configuration and waits for the line that names its URL.
export async function startWeir(weir, name, config, args = [], env = {}) {
  const child = start(name, weir, ['serve', '--config', writeConfig(name, config), '--listen', '127.0.0.1:0', ...args], { stdout: 'pipe', env });
  const url = await new Promise((done, fail) => {
    const timer = setTimeout(() => fail(new Wrong(`${name} printed no URL in 30 s:\n${tail(readFileSync(child.log, 'utf8'))}`)), 30_000);
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(line);
      if (found) { clearTimeout(timer); done(found[0]); }
    });
    child.ended.then(({ code, signal, error }) => {
      clearTimeout(timer);
      fail(new Wrong(`${name} ended before it was ready (${error?.message ?? signal ?? `exit code ${code}`}):\n${tail(readFileSync(child.log, 'utf8'))}`));
    });
  });
  const base = url.slice(0, -'/mcp'.length);
  return { child, url, base, at: (upstream) => `${base}/mcps/${upstream}/mcp`, stop: () => stop(child) };
}

// startNATS starts a NATS server with JetStream, of the release that weir's tests have, and returns its URL.
export async function startNATS() {
  const program = join(scratch, 'nats-server');
  await run('go-build-nats', 'go', ['build', '-o', program, 'github.com/nats-io/nats-server/v2'], { cwd: join(here, '..') });
  const port = await freePort();
  rmSync(join(scratch, 'nats'), { recursive: true, force: true });
  const child = start('nats', program, ['-a', '127.0.0.1', '-p', String(port), '-js', '-sd', join(scratch, 'nats')]);
  for (const end = Date.now() + 20_000; !readFileSync(child.log, 'utf8').includes('Server is ready'); await sleep(50)) {
    if (child.hasEnded() || Date.now() > end) throw new Wrong(`the NATS server has not started:\n${tail(readFileSync(child.log, 'utf8'))}`);
  }
  return `nats://127.0.0.1:${port}`;
}

// writeConfig writes a configuration to a file of its own. A string is the path of one that exists.
export function writeConfig(name, config) {
  if (typeof config === 'string') return config;
  const file = join(scratch, `${name}.json`);
  writeFileSync(file, JSON.stringify(config, null, 2));
  return file;
}

// --- foreign servers ---

// node22 is the Node that foreign programs run on: the pinned one, or this one where the registry has none for the machine.
export function node22() {
  for (const platform of ['linux-x64', 'linux-arm64', 'darwin-x64']) {
    if (`${process.platform}-${process.arch}` === platform) return module(`node-${platform}`, 'bin', 'node');
  }
  if (Number(process.versions.node.split('.')[0]) >= 22) return process.execPath;
  throw new Wrong(`the conformance suite needs Node 22 and npm has no pinned one for ${process.platform}-${process.arch}: run this with Node 22 or newer`);
}

const everything = module('@modelcontextprotocol', 'server-everything', 'dist', 'index.js');

export const everythingStdio = () => ({ command: node22(), args: [everything, 'stdio'] });
export const memoryStdio = (file) => ({ command: node22(), args: [module('@modelcontextprotocol', 'server-memory', 'dist', 'index.js')], env: { MEMORY_FILE_PATH: file } });
export const filesStdio = (root) => ({ command: node22(), args: [module('@modelcontextprotocol', 'server-filesystem', 'dist', 'index.js'), root] });

// everythingServer starts server-everything over HTTP: its own streamable HTTP or its own HTTP+SSE.
export async function everythingServer(transport) {
  const port = await freePort();
  const path = { http: '/mcp', sse: '/sse' }[transport];
  const child = start(`everything-${transport}`, node22(), [everything, { http: 'streamableHttp', sse: 'sse' }[transport]], { env: { PORT: String(port) } });
  await answering(`http://127.0.0.1:${port}/`, child);
  return { url: `http://127.0.0.1:${port}${path}`, child };
}

// filesServer puts the filesystem server, which speaks stdio only, behind bridge.mjs.
export async function filesServer(transport, root) {
  const port = await freePort();
  const { command, args } = filesStdio(root);
  const child = start(`files-${transport}`, node22(), [join(here, 'bridge.mjs'), transport, String(port), command, ...args]);
  await answering(`http://127.0.0.1:${port}/`, child);
  return { url: `http://127.0.0.1:${port}/${transport === 'sse' ? 'sse' : 'mcp'}`, child };
}

// --- foreign clients ---

export const clients = {
  ts1: () => [node22(), join(here, 'clients', 'ts1.mjs')],
  ts2: () => [node22(), join(here, 'clients', 'ts2.mjs')],
  python1: () => [join(work, 'python1', 'bin', 'python'), join(here, 'clients', 'python1.py')],
  python2: () => [join(work, 'python2', 'bin', 'python'), join(here, 'clients', 'python2.py')],
  go: () => [join(work, 'go-client')], // peers/goclient
};

let opened = 0;

// A Client is a foreign client in its own process, used by the line protocol of clients/lines.mjs.
export class Client {
  // connect starts a client and waits until it is connected to its target.
  static async connect(kind, target) {
    const [command, script] = clients[kind]();
    const client = new Client();
    client.child = start(`client-${++opened}-${kind}-${target.transport}`, command, [...(script ? [script] : []), JSON.stringify(target)], { stdin: 'pipe', stdout: 'pipe' });
    client.waiting = new Map();
    client.next = 1;
    client.child.stdin.on('error', () => {}); // A client that has ended says why in its log.
    createInterface({ input: client.child.stdout }).on('line', (line) => client.#take(line));
    client.child.ended.then(() => client.#end());
    client.session = await client.#expectReply('ready', 30_000);
    return client;
  }

  #take(line) {
    let message;
    try { message = JSON.parse(line); } catch { return; }
    const id = message.ready ? 'ready' : message.id;
    this.waiting.get(id)?.done(message.ready ?? message);
    this.waiting.delete(id);
  }

  #end() {
    for (const { fail } of this.waiting.values()) fail(new Wrong(`${this.child.title} ended:\n${tail(readFileSync(this.child.log, 'utf8'))}`));
    this.waiting.clear();
  }

  #expectReply(id, limit) {
    return new Promise((done, fail) => {
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        fail(new Wrong(`${this.child.title}: no answer in ${limit / 1000} s:\n${tail(readFileSync(this.child.log, 'utf8'))}`));
      }, limit);
      const settle = (how) => (value) => { clearTimeout(timer); how(value); };
      this.waiting.set(id, { done: settle(done), fail: settle(fail) });
    });
  }

  // ask returns the whole reply: {result, progress, logs} or {error: {code, message}}.
  async ask(op, params = {}) {
    if (this.child.hasEnded()) throw new Wrong(`${this.child.title} has ended`);
    const id = this.next++;
    const reply = this.#expectReply(id, 60_000);
    this.child.stdin.write(JSON.stringify({ id, op, params }) + '\n');
    return reply;
  }

  // get returns the result and throws an error of the server.
  async get(op, params) {
    const reply = await this.ask(op, params);
    if (reply.error) throw new Wrong(`${op} ${short(params ?? {})}: error ${reply.error.code}: ${reply.error.message}`);
    return reply.result;
  }

  call(name, args = {}) {
    return this.get('callTool', { name, arguments: args });
  }

  async close() {
    this.child.stdin.end();
    await Promise.race([this.child.ended, sleep(5000)]);
    await stop(this.child, 500);
  }
}

export const textOf = (result) => (result.content ?? []).filter((part) => part.type === 'text').map((part) => part.text).join('\n');

// --- command line ---

// main runs a driver: it sets up, gives the driver its options and always ends what was started.
export async function main(driver) {
  const options = { weir: undefined };
  const args = process.argv.slice(2);
  const rest = [];
  while (args.length > 0) {
    const arg = args.shift();
    if (arg === '--weir') options.weir = resolve(args.shift() ?? '');
    else rest.push(arg);
  }
  let code = 1;
  try {
    code = await driver(options, rest);
  } catch (error) {
    console.log(`FAILED  ${error instanceof Wrong ? error.message : error.stack}`);
  } finally {
    await stopAll();
  }
  process.exit(code);
}
