// The programs in which people use MCP, from npm, offline and each with a HOME of its own: weir connect puts weir into their
// files, they connect to it, and weir disconnect and weir undo give every byte back.
//
//   node interop/hosts.mjs --weir bin/weir                  all of them (make clients)
//   node interop/hosts.mjs --weir bin/weir gemini codex     these
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, expectEqual, here, main, node22, Report, run, scratch, Wrong } from './harness.mjs';
import { npmPackages, once } from './setup.mjs';

// Each fixture is what a person has written: comments where the format has them, a layout that no program writes, a number that
// JSON.parse rounds. @WEIR@ is the path of weir.
const claudeFile = `{
    "zeta": 12345678901234567890,
    "mcpServers": {
        "notes": { "type": "stdio", "command": "@WEIR@", "args": ["demo", "notes"] }
    },
    "thème": "a b"
}
`;
const commented = `// mine
{
  "ui": {  "theme":"Default" },
  "mcpServers": {
    // the notes
    "notes": {"command": "@WEIR@", "args": ["demo", "notes"]}
  } /* the end */
}
`;
const opencodeFile = `// mine
{
  "theme":   "system",
  "mcp": {
    // the notes
    "notes": {"type": "local", "command": ["@WEIR@", "demo", "notes"], "enabled": true},
  },
}
`;
const codexFile = `# mine
model   = "o3" # the model

[mcp_servers.notes]
command = "@WEIR@"
args = [ "demo", "notes" ]

[history]    # short
persistence = "none"
`;
const copilotFile = `{
    "mcpServers": {
        "notes": { "type": "local", "command": "@WEIR@", "args": ["demo", "notes"], "tools": ["*"] }
    }
}
`;

// hosts are the programs: the file of the package that Node runs (or the system, if it is native), the person's file in the home folder, its text, and what the
// program prints. A program without "connected" parses its file and connects to nothing.
const hosts = {
  'claude-code': {
    entry: '@anthropic-ai/claude-code/cli-wrapper.cjs', file: '.claude.json', text: claudeFile,
    connected: (name) => new RegExp(`^${name}: .*✔ Connected`, 'm'),
    env: { DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1' },
  },
  gemini: {
    entry: '@google/gemini-cli/bundle/gemini.js', file: '.gemini/settings.json', text: commented,
    connected: (name) => new RegExp(`✓ ${name}: .* - Connected`),
    // It starts servers only in folders that it trusts.
    prepare: (home, project) => writeFileSync(join(home, '.gemini', 'trustedFolders.json'), JSON.stringify({ [project]: 'TRUST_FOLDER' })),
  },
  qwen: {
    entry: '@qwen-code/qwen-code/cli.js', file: '.qwen/settings.json', text: commented,
    connected: (name) => new RegExp(`✓ ${name}: .* - Connected`),
  },
  opencode: {
    entry: 'opencode-ai/bin/opencode.exe', native: true, afterInstall: 'opencode-ai/postinstall.mjs', file: '.config/opencode/opencode.jsonc', text: opencodeFile,
    connected: (name) => new RegExp(`✓ +${name} .*connected`),
  },
  codex: { entry: '@openai/codex/bin/codex.js', file: '.codex/config.toml', text: codexFile },
  'copilot-cli': { entry: '@github/copilot/npm-loader.js', file: '.copilot/mcp-config.json', text: copilotFile },
};

// Two that install and run fast: make interop runs them, make clients runs all.
export const few = ['claude-code', 'gemini'];

const folder = (id) => join(here, 'hosts', id);

// modules is the path of an installed file of a program.
export const modules = (id, path) => join(folder(id), 'node_modules', ...path.split('/'));

// install gets a program with what it needs, at the versions of hosts/ID/package-lock.json. Scripts of packages do not run, except
// the one that puts opencode's binary in its place. npm ci would refuse a lock that lacks a package of another system, which
// some registries do not have; npm install takes what the lock holds, and --no-save leaves the lock as it is.
export const install = (id) => once(`client ${id}`, modules(id, '.package-lock.json'), [`hosts/${id}/package.json`, `hosts/${id}/package-lock.json`], async () => {
  await run(`npm-${id}`, 'npm', ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: folder(id) });
  const { afterInstall } = hosts[id];
  if (afterInstall) await run(`npm-${id}-after`, process.execPath, [modules(id, afterInstall)], { cwd: dirname(modules(id, afterInstall)) });
});

// A Home is a person's home folder with one program and weir in it. No variable of this process reaches them, and what is not
// this machine is behind a proxy that does not answer.
class Home {
  constructor(id, weir) {
    Object.assign(this, { id, weir, host: hosts[id], runs: 0 });
    this.path = realpathSync(mkdtempSync(join(tmpdir(), `weir-${id}-`)));
    this.project = join(this.path, 'project');
    this.file = join(this.path, this.host.file);
    mkdirSync(this.project);
    mkdirSync(dirname(this.file), { recursive: true });
    this.host.prepare?.(this.path, this.project);
    this.fixture = this.host.text.replaceAll('@WEIR@', weir);
    this.write(this.fixture);
    const dead = 'http://127.0.0.1:9';
    this.env = {
      ...Object.fromEntries(Object.keys(process.env).map((name) => [name, undefined])),
      PATH: process.env.PATH, HOME: this.path, USERPROFILE: this.path, LANG: 'C.UTF-8', TERM: 'dumb', NO_COLOR: '1',
      HTTP_PROXY: dead, HTTPS_PROXY: dead, http_proxy: dead, https_proxy: dead, NO_PROXY: '127.0.0.1,localhost', no_proxy: '127.0.0.1,localhost',
      ...this.host.env,
    };
  }

  read() { return readFileSync(this.file, 'utf8'); }
  write(text) { writeFileSync(this.file, text); }

  // run returns what a program prints, on both outputs, without colours.
  async run(command, args) {
    const name = `host-${this.id}-${++this.runs}`;
    const { output } = await run(name, command, args, { cwd: this.project, env: this.env, limit: 90_000 });
    const errors = readFileSync(join(scratch, 'logs', `${name}.log`), 'utf8');
    return (output + errors).replace(/\x1b\[[0-9;?]*[A-Za-z]/g, '');
  }

  client(...args) {
    const entry = modules(this.id, this.host.entry);
    return this.host.native ? this.run(entry, ['mcp', ...args]) : this.run(node22(), [entry, 'mcp', ...args]);
  }

  weirDoes(...args) { return this.run(this.weir, args); }

  // gateway is the run file of the gateway that weir attach has started in this home.
  gateway() {
    const state = join(this.path, '.local', 'state', 'weir', 'gateways');
    const [name] = readdirSync(state).filter((file) => file.endsWith('.json'));
    if (!name) throw new Wrong('no gateway runs in this home');
    return JSON.parse(readFileSync(join(state, name), 'utf8'));
  }

  // close ends the gateway, which outlives the client, and removes the home.
  async close() {
    let pid;
    try { ({ pid } = this.gateway()); } catch { /* none was started */ }
    for (let left = 100; pid && left > 0; left--) {
      try { process.kill(pid, left === 100 ? 'SIGTERM' : left === 1 ? 'SIGKILL' : 0); } catch { break; }
      await sleep(50);
    }
    rmSync(this.path, { recursive: true, force: true });
  }
}

// around returns what stands before and after the entry of the person's server, in any of the formats.
function around(text) {
  const toml = text.indexOf('[mcp_servers.notes]');
  if (toml >= 0) return [text.slice(0, toml), text.slice(text.indexOf('\n\n', toml))];
  const from = text.indexOf('"notes"');
  let depth = 0;
  for (let at = text.indexOf('{', from); ; at++) {
    if (text[at] === '{') depth++;
    if (text[at] === '}' && --depth === 0) return [text.slice(0, from), text.slice(at + 1)];
  }
}

// urlEntry is the entry with a URL that docs/clients.md shows for a client, as a text for its file.
function urlEntry(id, url) {
  const document = readFileSync(join(here, '..', 'docs', 'clients.md'), 'utf8');
  const [, part] = document.split(new RegExp(`^id \`${id}\``, 'm'));
  const [, shown] = /^\| weir's entry \| `(\{.*?\})`/m.exec(part ?? '') ?? [];
  if (!shown) throw new Wrong(`docs/clients.md shows no entry of ${id}`);
  const entry = JSON.parse(shown);
  const key = Object.keys(entry).find((name) => String(entry[name]).startsWith('http://'));
  entry[key] = url;
  if (hosts[id].file.endsWith('.toml')) return `[mcp_servers.weir]\n${key} = ${JSON.stringify(url)}`;
  return `"weir": ${JSON.stringify(entry)}`;
}

// expectServer checks that the program knows a server, and that it has connected if it connects.
async function expectServer(home, name, ...parts) {
  if (home.host.connected) {
    const listed = await home.client('list');
    expect(home.host.connected(name).test(listed), `${name} is not connected`, listed);
    return listed;
  }
  const listed = await home.client('list');
  expect(new RegExp(`^\\s*${name}\\b`, 'm').test(listed), `${name} is not listed`, listed);
  const got = await home.client('get', name);
  for (const part of parts) expect(got.includes(part), `mcp get ${name} does not say ${part}`, got);
  return listed;
}

const absent = (listed, name) => expect(!new RegExp(`^\\W*${name}\\b`, 'm').test(listed), `${name} is still listed`, listed);

async function checkHost(report, id, weir) {
  const check = (name, f) => report.check(`${id}: ${name}`, f);
  if (await check('installs', async () => { await install(id); return true; }) === undefined) return;
  const home = new Home(id, weir);
  const connect = () => home.weirDoes('connect', id, '--yes');
  const disconnect = () => home.weirDoes('disconnect', id, '--yes');
  try {
    await check('connect edits one entry, disconnect and undo give every byte back', async () => {
      const [head, tail] = around(home.fixture);
      for (const back of [disconnect, () => home.weirDoes('undo', '--yes')]) {
        await connect();
        const edited = home.read();
        expect(edited.startsWith(head) && edited.endsWith(tail), 'connect changed other bytes', edited);
        expect(/"attach"/.test(edited) && !/"demo"/.test(edited), 'connect did not put weir in the place of the server', edited);
        await back();
        expectEqual(home.read(), home.fixture, 'file');
      }
    });
    await check('knows its own server before', () => expectServer(home, 'notes', weir, 'demo'));
    const before = home.read(); // some programs have written their file by now
    await check(home.host.connected ? 'connects to weir attach' : 'parses the entry of weir attach', async () => {
      await connect();
      const [head, tail] = around(before);
      expect(home.read().startsWith(head) && home.read().endsWith(tail), 'connect changed other bytes', home.read());
      const listed = await expectServer(home, 'weir', weir, 'attach');
      absent(listed, 'notes');
      if (!home.host.connected) return;
      expectEqual(JSON.parse(await home.weirDoes('ls', '--json')).map(({ name, state }) => [name, state]), [['notes', 'ready']], 'servers behind weir');
    });
    await check('disconnected, undone and disconnected again: weir is gone, its own server is back, every other byte stays', async () => {
      await disconnect();
      expectEqual(home.read(), before, 'file');
      await home.weirDoes('undo', '--yes');
      expect(/"attach"/.test(home.read()), 'undo did not put weir back', home.read());
      await disconnect();
      expectEqual(home.read(), before, 'file');
      absent(await expectServer(home, 'notes', weir, 'demo'), 'weir');
    });
    await check(home.host.connected ? 'connects to the URL, in the form of docs/clients.md' : 'parses the entry with the URL of docs/clients.md', async () => {
      const url = home.host.connected ? home.gateway().url : 'http://127.0.0.1:8088/mcp';
      home.write(around(before).join(urlEntry(id, url)));
      absent(await expectServer(home, 'weir', url), 'notes');
    });
  } finally {
    await home.close();
  }
}

// hostsCheck runs the programs of these ids one after the other.
export async function hostsCheck({ weir }, ids = few) {
  const report = new Report(`Clients from npm: ${ids.join(', ')}`);
  if (!weir) return report.close();
  await npmPackages();
  for (const id of ids) await checkHost(report, id, weir);
  return report.close();
}

if (process.argv[1] === join(here, 'hosts.mjs')) {
  await main(async (options, ids) => {
    const unknown = ids.filter((id) => !hosts[id]);
    if (unknown.length > 0) throw new Wrong(`unknown: ${unknown.join(', ')}; there are ${Object.keys(hosts).join(', ')}`);
    if (!options.weir) throw new Wrong('--weir PATH is missing');
    return hostsCheck(options, ids.length > 0 ? ids : Object.keys(hosts));
  });
}
