// Twelve servers of npm and PyPI in sandboxes: each lists its tools and answers a call, in bubblewrap and in Landlock only, as
// this user and, run by root, as one without rights. It prints what each needs in addition to sandbox: auto.
//
//   node interop/sandbox.mjs --weir bin/weir
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { everythingStdio, expect, filesStdio, main, memoryStdio, module, node22, Report, run, start, stop, work, Wrong } from './harness.mjs';
import { npmPackages, pythonServers } from './setup.mjs';

const pip = (environment, name, args = []) => ({ command: join(work, environment, 'bin', name), args });
const npm = (name, ...rest) => ({ command: node22(), args: [module(...name.split('/'), ...rest)] });
const nobody = 65534;
const toolFailed = 1, unavailable = 3; // exit codes of weir call
const startTime = 60_000;

// servers are configurations with the call that each answers. The last ones want a browser or a key, and answer that they lack it.
const servers = (root, page) => ({
  everything: [everythingStdio(), 'echo', { message: 'hello' }],
  files: [filesStdio(root), 'list_directory', { path: root }],
  memory: [memoryStdio(join(root, 'memory.json')), 'read_graph', {}],
  thinking: [npm('@modelcontextprotocol/server-sequential-thinking', 'dist', 'index.js'), 'sequentialthinking', { thought: 'x', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 }],
  time: [pip('pythonservers', 'mcp-server-time', ['--local-timezone', 'UTC']), 'convert_time', { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' }],
  git: [pip('pythonservers', 'mcp-server-git', ['--repository', root]), 'git_log', { repo_path: root, max_count: 1 }],
  fetch: [{ ...pip('pythonservers', 'mcp-server-fetch', ['--ignore-robots-txt', '--allow-private-ips']), sandbox: { net: [new URL(page).host] } }, 'fetch', { url: page }],
  sqlite: [pip('pythonsqlite', 'mcp-server-sqlite', ['--db-path', join(root, 'shop.db')]), 'list_tables', {}],
  playwright: [{ ...npm('@playwright/mcp', 'cli.js'), args: [module('@playwright', 'mcp', 'cli.js'), '--headless'] }, 'browser_close', {}, true],
  github: [npm('@modelcontextprotocol/server-github', 'dist', 'index.js'), 'search_repositories', { query: 'mcp' }, true],
  slack: [{ ...npm('@modelcontextprotocol/server-slack', 'dist', 'index.js'), env: { SLACK_BOT_TOKEN: 'xoxb-none', SLACK_TEAM_ID: 'T0' } }, 'slack_list_channels', {}, true],
  maps: [{ ...npm('@modelcontextprotocol/server-google-maps', 'dist', 'index.js'), env: { GOOGLE_MAPS_API_KEY: 'none' } }, 'maps_geocode', { address: 'Berlin' }, true],
});

// place makes a home for a user, with a repository in it.
async function place(uid) {
  const home = mkdtempSync(join(tmpdir(), 'weir-sandbox-'));
  const root = join(home, 'root');
  mkdirSync(root);
  writeFileSync(join(root, 'a.txt'), 'a\n');
  const git = (...args) => run('git', 'git', args, { cwd: root });
  await git('init', '-q');
  await git('add', '-A');
  await git('-c', 'user.name=Ann', '-c', 'user.email=ann@example.com', 'commit', '-q', '-m', 'the first one');
  // Programs of this user only, without bubblewrap.
  const bin = join(home, 'bin');
  mkdirSync(bin);
  for (const name of ['git', 'sh', 'env']) symlinkSync((await run('which', 'which', [name])).output.trim(), join(bin, name));
  chmodSync(home, 0o755);
  if (uid !== process.getuid()) await run('chown', 'chown', ['-R', `${uid}:${uid}`, home]);
  return { home, root, bin };
}

// prepare does what a server of this list would do at its first call, and a sandbox refuses: mcp-server-fetch installs packages
// of npm into its own folder.
async function prepare() {
  const { output } = await run('readabilipy', join(work, 'pythonservers', 'bin', 'python'), ['-c', 'import os, importlib.util as u; print(os.path.dirname(u.find_spec("readabilipy").origin))']);
  const folder = join(output.trim(), 'javascript');
  if (!existsSync(join(folder, 'node_modules'))) await run('readabilipy-npm', 'npm', ['install', '--no-audit', '--no-fund'], { cwd: folder });
}

// weirAs is weir as another user.
const weirAs = (uid, weir, args) => (uid === process.getuid() ? [weir, args] : ['setpriv', ['--reuid', `${uid}`, '--regid', `${uid}`, '--clear-groups', weir, ...args]]);

async function way(report, weir, page, uid, landlock) {
  const { home, root, bin } = await place(uid);
  const env = { HOME: home, XDG_STATE_HOME: join(home, 'state'), XDG_CONFIG_HOME: join(home, 'config'), XDG_DATA_HOME: join(home, 'data'), PATH: landlock ? bin : process.env.PATH };
  const all = servers(root, page);
  // The Python of pyenv is in the home of root, where others may not go.
  if (uid === nobody) for (const name of ['time', 'git', 'fetch', 'sqlite']) delete all[name];
  const config = join(home, 'weir.json');
  const mcpServers = Object.fromEntries(Object.entries(all).map(([name, [server]]) => [name, { sandbox: 'auto', ...server }]));
  writeFileSync(config, JSON.stringify({ mcpServers }));
  if (uid !== process.getuid()) chownSync(config, uid, uid);
  const [command, args] = weirAs(uid, weir, ['serve', '--config', config, '--listen', '127.0.0.1:0']);
  const name = `${landlock ? 'landlock' : 'bubblewrap'}-${uid}`;
  // setpriv is found by the PATH of this process.
  const which = command === 'setpriv' ? (await run('which', 'which', ['setpriv'])).output.trim() : command;
  const child = start(name, which, args, { env, stdout: 'pipe', cwd: home });
  try {
    const url = await new Promise((done, fail) => {
      child.stdout.on('data', (data) => { const found = /http:\/\/127\.0\.0\.1:\d+\/mcp/.exec(data); if (found) done(found[0]); });
      child.ended.then(() => fail(new Wrong(`weir ended, see ${child.log}`)));
    });
    for (const [server, [, tool, given, refused]] of Object.entries(all)) {
      await report.check(`${name}: ${server} answers ${tool}`, async () => {
        const ask = () => run(`${name}-${server}`, weir, ['call', `${server}:${tool}`, '--url', url, '--json', JSON.stringify(given)], { env: { ...env, PATH: process.env.PATH }, mayFail: true });
        let { code, output } = await ask();
        for (const end = Date.now() + startTime; code === unavailable && Date.now() < end;) ({ code, output } = await ask()); // twelve start at once
        expect(code === 0 || refused && code === toolFailed, `exit code ${code}`, output.slice(-2000));
      });
    }
  } finally {
    await stop(child);
  }
  return { home, config, env, all };
}

await main(async ({ weir }) => {
  if (!weir) throw new Wrong('--weir names the program');
  const report = new Report('twelve servers in sandboxes');
  await Promise.all([npmPackages(), pythonServers()]);
  await prepare();
  const server = createServer((_, response) => response.end('<html><body>a page with words</body></html>'));
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  const page = `http://127.0.0.1:${server.address().port}/`;
  const users = [process.getuid()];
  if (users[0] === 0 && existsSync('/usr/bin/setpriv')) users.push(nobody);
  const boxed = (await run('bwrap', 'sh', ['-c', 'bwrap --unshare-pid --ro-bind / / --proc /proc -- true && echo yes'], { mayFail: true })).output.includes('yes');
  if (!boxed) console.log('this machine has no bubblewrap that works: only Landlock is tried');
  const homes = [];
  try {
    for (const uid of users) {
      for (const landlock of boxed ? [false, true] : [true]) homes.push(await way(report, weir, page, uid, landlock));
    }
    const { config, env, all } = homes[0];
    for (const [name, [, tool, given, refused]] of Object.entries(all)) {
      const args = ['sandbox', 'learn', name, '--config', config, '--dry-run', '--json', ...(refused ? [] : ['--call', `${name}:${tool}=${JSON.stringify(given)}`])];
      const { code, output } = await run(`learn-${name}`, weir, args, { env: { ...env, PATH: process.env.PATH }, mayFail: true });
      const found = code === 0 && JSON.parse(output.slice(output.indexOf('{'))).notes.map(({ text }) => text).join('; ');
      console.log(`      ${name} ${found || `exit code ${code}: ${output.slice(-300)}`}`);
    }
  } finally {
    server.closeAllConnections();
    server.close();
    for (const { home } of homes) rmSync(home, { recursive: true, force: true });
  }
  return report.close();
});
