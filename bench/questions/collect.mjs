// Collects the tool lists that the questions are asked of: node bench/questions/collect.mjs [SERVER...]
//
// It installs the pinned packages of servers.json below .cache, starts each over stdio, reads its tools and lays out
// .cache/sets: a folder for each split (own_tune, own_held) with its questions and the tools of all servers.
// Servers named on the command line are asked again; of the others the answer kept in .cache/lists is used.
import { spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, openSync, closeSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const cache = join(here, '.cache'); // ignored by git
const splits = ['own_tune', 'own_held'];
const answerWithin = 60_000; // milliseconds a server has for one answer
const maxPages = 100;

// fill puts the folder of a server's own files in the place of {home}.
const fill = (text, home) => text.replaceAll('{home}', home);

// home makes the folder that a server sees as its home, with the files that servers.json gives it.
function home(server) {
  const path = join(cache, 'home', server.name);
  mkdirSync(path, { recursive: true });
  for (const [name, content] of Object.entries(server.files ?? {})) {
    mkdirSync(dirname(join(path, name)), { recursive: true });
    writeFileSync(join(path, name), content);
  }
  return path;
}

// run runs an installation. What it prints goes to a log, which its error names.
function run(name, command, args) {
  const path = join(cache, 'logs', `${name}.install.log`);
  const log = openSync(path, 'w');
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { cwd: cache, stdio: ['ignore', log, log] });
    child.on('error', reject);
    child.on('close', (code) => (code === 0 ? resolve() : reject(new Error(`${command} ended with ${code}: see ${path}`))));
  }).finally(() => closeSync(log));
}

// install installs a server's pinned package in a folder of its own, unless it is there, and returns the folder of its commands.
async function install(server) {
  const folder = join(cache, 'packages', server.name);
  const bin = server.registry === 'npm' ? join(folder, 'node_modules', '.bin') : join(folder, 'bin');
  const want = `${server.package} ${server.version} python${server.python ?? '3'}`;
  const stamp = join(folder, 'installed');
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === want) return bin;
  mkdirSync(folder, { recursive: true });
  if (server.registry === 'npm') {
    await run(server.name, 'npm', ['install', '--prefix', folder, '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error',
      `${server.package}@${server.version}`]);
  } else {
    await run(server.name, `python${server.python ?? '3'}`, ['-m', 'venv', '--clear', folder]);
    await run(server.name, join(bin, 'python'), ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check',
      `${server.package}==${server.version}`]);
  }
  writeFileSync(stamp, want);
  return bin;
}

// Session is a started server and its unanswered requests.
class Session {
  constructor(server, bin) {
    const path = home(server);
    this.waiting = new Map();
    this.last = 0;
    const log = openSync(join(cache, 'logs', `${server.name}.log`), 'w');
    this.child = spawn(join(bin, server.command), (server.args ?? []).map((arg) => fill(arg, path)), {
      cwd: path,
      stdio: ['pipe', 'pipe', log],
      detached: true, // It leads a group of its own: what it starts ends with it.
      // The server sees nothing of the caller's environment except where programs are.
      env: { PATH: `${bin}:${process.env.PATH}`, HOME: path, LANG: 'C.UTF-8',
        ...Object.fromEntries(Object.entries(server.env ?? {}).map(([key, value]) => [key, fill(value, path)])) },
    });
    closeSync(log);
    this.ended = new Promise((resolve) => {
      this.child.on('exit', resolve);
      this.child.on('error', (error) => { this.fail(error); resolve(); });
    });
    this.ended.then(() => this.fail(new Error(`the server ended: see ${join(cache, 'logs', `${server.name}.log`)}`)));
    this.child.stdin.on('error', () => {}); // Its end is reported by exit.
    createInterface({ input: this.child.stdout }).on('line', (line) => this.receive(line));
  }

  receive(line) {
    let message;
    try { message = JSON.parse(line); } catch { return; } // Some servers print a banner.
    if (message.method !== undefined) {
      // A request of the server's (ping, roots) is refused so that it does not wait.
      if (message.id !== undefined) this.send({ id: message.id, error: { code: -32601, message: 'not supported' } });
      return;
    }
    const waiter = this.waiting.get(message.id);
    this.waiting.delete(message.id);
    if (message.error) waiter?.reject(new Error(`${message.error.code} ${message.error.message}`));
    else waiter?.resolve(message.result);
  }

  fail(error) {
    for (const { reject } of this.waiting.values()) reject(error);
    this.waiting.clear();
  }

  send(message) {
    this.child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`);
  }

  request(method, params) {
    const id = ++this.last;
    let timer;
    return new Promise((resolve, reject) => {
      this.waiting.set(id, { resolve, reject });
      timer = setTimeout(() => reject(new Error(`no answer to ${method} within ${answerWithin / 1000} s`)), answerWithin);
      this.send({ id, method, params });
    }).finally(() => clearTimeout(timer));
  }

  // close ends the server: its input first, then a signal, then a signal that it and what it started cannot refuse.
  async close() {
    const term = setTimeout(() => this.child.kill('SIGTERM'), 2000);
    const kill = setTimeout(() => this.child.kill('SIGKILL'), 5000);
    this.child.stdin.end();
    await this.ended;
    clearTimeout(term);
    clearTimeout(kill);
    try { process.kill(-this.child.pid, 'SIGKILL'); } catch { /* The group is empty. */ }
    this.child.stdout.destroy();
  }
}

// list asks a server who it is and for all pages of its tools.
async function list(server, bin) {
  const session = new Session(server, bin);
  try {
    const hello = await session.request('initialize', {
      protocolVersion: '2025-06-18', capabilities: {}, clientInfo: { name: 'weir-questions', version: '1' } });
    session.send({ method: 'notifications/initialized' });
    const tools = [];
    let cursor;
    for (let page = 0; page < maxPages; page++) {
      const result = await session.request('tools/list', cursor === undefined ? {} : { cursor });
      tools.push(...result.tools);
      cursor = result.nextCursor;
      if (!cursor) break;
    }
    return {
      server: { server: server.name, title: hello.serverInfo?.title, instructions: hello.instructions },
      tools: tools.map(({ name, title, description, inputSchema, annotations }) =>
        ({ id: `${server.name}:${name}`, server: server.name, name, title, description, inputSchema, annotations })),
    };
  } finally {
    await session.close();
  }
}

const lines = (values) => values.map((value) => `${JSON.stringify(value)}\n`).join('');
const parse = (path) => readFileSync(path, 'utf8').split('\n').filter((line) => line.trim()).map((line) => JSON.parse(line));

// check returns ids that occur twice, and answers that no server offers. A server that did not answer is named once.
function check(split, ids, seen) {
  const listed = new Set([...ids].map((id) => id.split(':')[0]));
  const faults = new Set();
  for (const question of parse(join(here, split, 'dev.jsonl'))) {
    if (seen.has(question.id)) faults.add(`${split}: the id ${question.id} occurs twice`);
    seen.add(question.id);
    for (const id of question.gold_groups.flat()) {
      const server = id.split(':')[0];
      if (!listed.has(server)) faults.add(`${split}: questions want tools of ${server}, whose list is missing: they count as misses`);
      else if (!ids.has(id)) faults.add(`${split}: ${question.id} wants ${id}, which ${server} does not offer`);
    }
  }
  return faults;
}

const servers = JSON.parse(readFileSync(join(here, 'servers.json'), 'utf8'));
const again = new Set(process.argv.slice(2));
for (const folder of ['logs', 'lists', 'packages', 'home']) mkdirSync(join(cache, folder), { recursive: true });

const lists = [];
const faults = [];
for (const server of servers) {
  const kept = join(cache, 'lists', `${server.name}-${server.version}.json`);
  try {
    if (again.has(server.name) || !existsSync(kept)) {
      writeFileSync(kept, JSON.stringify(await list(server, await install(server))));
    }
    const answer = JSON.parse(readFileSync(kept, 'utf8'));
    lists.push(answer);
    console.log(`${String(answer.tools.length).padStart(4)} tools  ${server.name} (${server.package} ${server.version})`);
  } catch (error) {
    faults.push(`${server.name}: ${error.message}`);
  }
}

const tools = lists.flatMap((answer) => answer.tools);
writeFileSync(join(cache, 'tools.jsonl'), lines(tools));
writeFileSync(join(cache, 'servers.jsonl'), lines(lists.map((answer) => answer.server)));
const ids = new Set(tools.map((tool) => tool.id));
const seen = new Set();
for (const split of splits) {
  const folder = join(cache, 'sets', split);
  mkdirSync(folder, { recursive: true });
  copyFileSync(join(cache, 'tools.jsonl'), join(folder, 'tools.jsonl'));
  copyFileSync(join(here, split, 'dev.jsonl'), join(folder, 'dev.jsonl'));
  faults.push(...check(split, ids, seen));
}
copyFileSync(join(cache, 'servers.jsonl'), join(cache, 'sets', 'servers.jsonl'));
for (const fault of faults) console.log(`FAILED  ${fault}`);
console.log(`${lists.length} servers, ${tools.length} tools, ${seen.size} questions: ${join(cache, 'sets')}`);
process.exitCode = faults.length === 0 ? 0 : 1;
