// Installs weir's packages as their users do, into empty places and without the registries: npx and npm, pip and uvx, the bundle
// of MCP clients; and with --release also the packages of the system that GoReleaser made (make packages).
//
//   node interop/packages.mjs --weir bin/weir [--release dist --same build/first]
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { here, expect, expectEqual, main, Report, run, scratch, start, stop, work, writeConfig } from './harness.mjs';
import { setupUV } from './setup.mjs';

const version = '0.0.0-rc.0';
const goarch = { x64: 'amd64', arm64: 'arm64' }[process.arch];
const goos = { linux: 'linux', darwin: 'darwin', win32: 'windows' }[process.platform];
const folder = join(scratch, 'packages');

// empty makes a folder with nothing in it.
function empty(name) {
  const path = join(folder, name);
  rmSync(path, { recursive: true, force: true });
  mkdirSync(path, { recursive: true });
  return path;
}

const files = (path) => readdirSync(path, { recursive: true }).map(String).filter((name) => statSync(join(path, name)).isFile()).sort();

// sameFiles fails at the first file that two folders do not share byte by byte.
function sameFiles(one, other, wanted = () => true) {
  const names = files(one).filter(wanted);
  expectEqual(files(other).filter(wanted), names, 'files');
  expect(names.length > 0, 'there is nothing to compare');
  for (const name of names) expect(readFileSync(join(one, name)).equals(readFileSync(join(other, name))), `${name} differs from build to build`);
  return names;
}

// npmRegistry serves tarballs as npm's registry does, and knows nothing else.
async function npmRegistry(tarballs) {
  const packages = new Map();
  for (const path of tarballs) {
    const manifest = JSON.parse((await run('tar-manifest', 'tar', ['-xOzf', path, 'package/package.json'])).output);
    packages.set(manifest.name, { manifest, data: readFileSync(path) });
  }
  const server = createServer((request, response) => {
    const name = decodeURIComponent(request.url.slice(1));
    const asked = packages.get(name.replace(/\/-\.tgz$/, ''));
    if (!asked) return response.writeHead(404, { 'Content-Type': 'application/json' }).end('{"error":"not found"}');
    if (name.endsWith('/-.tgz')) return response.end(asked.data);
    const { manifest, data } = asked;
    const dist = { tarball: `http://127.0.0.1:${server.address().port}/${manifest.name}/-.tgz`, integrity: `sha512-${createHash('sha512').update(data).digest('base64')}` };
    response.writeHead(200, { 'Content-Type': 'application/json' })
      .end(JSON.stringify({ name: manifest.name, 'dist-tags': { latest: manifest.version }, versions: { [manifest.version]: { ...manifest, dist } } }));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}/`, close: () => { server.closeAllConnections(); server.close(); } };
}

// handshake starts a stdio server and returns what it says of itself and the names of its tools.
async function handshake(name, command, args, options) {
  const child = start(name, command, args, { ...options, stdin: 'pipe', stdout: 'pipe' });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const ask = async (id, method, params) => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`);
    for (;;) {
      const { value, done } = await answers.next();
      expect(!done, `${name} ended: ${readFileSync(child.log, 'utf8')}`);
      const message = JSON.parse(value);
      if (message.id === id) return message.result;
    }
  };
  const { serverInfo } = await ask(1, 'initialize', { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'interop', version: '1' } });
  child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' })}\n`);
  const { tools } = await ask(2, 'tools/list', {});
  child.stdin.end();
  const { code } = await stop(child);
  expectEqual(code, 0, `exit code of ${name} at the end of its input`);
  return { serverInfo, tools: tools.map((tool) => tool.name) };
}

async function npmPackages(report, packages, said) {
  const tarballs = readdirSync(join(packages, 'npm')).map((name) => join(packages, 'npm', name));
  const registry = await npmRegistry(tarballs);
  const home = empty('npm-home');
  const env = {
    HOME: home, npm_config_cache: join(home, 'cache'), npm_config_registry: registry.url, npm_config_userconfig: join(home, 'npmrc'),
    npm_config_audit: 'false', npm_config_fund: 'false', npm_config_update_notifier: 'false',
  };
  try {
    await report.check('npx -y weir-mcp --version, in an empty HOME', async () => {
      const { output } = await run('npx', 'npx', ['-y', 'weir-mcp', '--version'], { env, cwd: home });
      expectEqual(output.trim(), said, 'output');
    });
    await report.check('npx: weir upgrade names npx', async () => {
      const { output } = await run('npx-upgrade', 'npx', ['-y', 'weir-mcp', 'upgrade'], { env, cwd: home });
      expectEqual(output.trim(), 'npx -y weir-mcp@latest', 'command');
    });
    await report.check('npx: the exit code of weir is that of npx', async () => {
      const { code } = await run('npx-refused', 'npx', ['-y', 'weir-mcp', 'nonsense'], { env, cwd: home, mayFail: true });
      expectEqual(code, 2, 'exit code');
    });
    await report.check('npm install weir-mcp: both names, this platform alone, no scripts', async () => {
      const project = empty('npm-project');
      writeFileSync(join(project, 'package.json'), '{"private": true}');
      await run('npm-install', 'npm', ['install', 'weir-mcp'], { env, cwd: project });
      for (const command of ['weir', 'weir-mcp']) {
        const { output } = await run('npm-run', join(project, 'node_modules', '.bin', command), ['--version'], { env, cwd: project });
        expectEqual(output.trim(), said, command);
      }
      expectEqual(readdirSync(join(project, 'node_modules', '@weir-mcp')), [`${process.platform}-${process.arch}`], 'platforms');
    });
    await report.check('npm: a gateway on stdio, and SIGTERM ends it', async () => {
      const project = join(folder, 'npm-project');
      const config = writeConfig('packages-npm', { mode: 'gateway', mcpServers: {} });
      const { tools } = await handshake('npm-stdio', join(project, 'node_modules', '.bin', 'weir'), ['serve', '--stdio', '--config', config], { env, cwd: project });
      expect(tools.includes('tool_browse'), 'tools', tools);
      const serving = start('npm-serve', join(project, 'node_modules', '.bin', 'weir'), ['serve', '--config', config, '--listen', '127.0.0.1:0'], { env, cwd: project, stdout: 'pipe' });
      await new Promise((done) => serving.stdout.once('data', done));
      const { code, killed } = await stop(serving, 8000);
      expect(!killed, 'it did not end in 8 s');
      expectEqual(code, 0, 'exit code');
    });
    await report.check('npm without the platform: the reason and the fix', async () => {
      const bare = empty('npm-bare');
      writeFileSync(join(bare, 'package.json'), '{"private": true}');
      await run('npm-bare', 'npm', ['install', '--omit=optional', 'weir-mcp'], { env, cwd: bare });
      const { code } = await run('npm-bare-run', join(bare, 'node_modules', '.bin', 'weir'), ['--version'], { env, cwd: bare, mayFail: true });
      expectEqual(code, 1, 'exit code');
      expect(readFileSync(join(scratch, 'logs', 'npm-bare-run.log'), 'utf8').includes('--omit=optional'), 'the message names no fix');
    });
    await report.check('npm pack takes each package', async () => {
      for (const path of tarballs) {
        const { output } = await run('npm-pack', 'npm', ['pack', '--dry-run', '--json', path], { env, cwd: home });
        const [packed] = JSON.parse(output);
        expectEqual(packed.version, version, packed.name);
        expect(packed.files.some(({ mode }) => mode === 0o755), `${packed.name} has no program`, packed.files);
      }
    });
  } finally {
    registry.close();
  }
}

async function wheels(report, packages, said) {
  const [wheel] = readdirSync(join(packages, 'pypi')).map((name) => join(packages, 'pypi', name));
  const python = join(folder, 'venv', 'bin', 'python');
  await report.check('pip install, in a new environment without an index', async () => {
    await run('venv', 'python3', ['-m', 'venv', '--clear', join(folder, 'venv')]);
    await run('pip', python, ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-index', wheel]);
    for (const command of [[join(folder, 'venv', 'bin', 'weir')], [join(folder, 'venv', 'bin', 'weir-mcp')], [python, '-m', 'weir_mcp']]) {
      const { output } = await run('pip-run', command[0], [...command.slice(1), '--version']);
      expectEqual(output.trim(), said, command.join(' '));
    }
    await run('pip-check', python, ['-m', 'pip', '--disable-pip-version-check', 'check']);
  });
  await report.check('pip: weir upgrade names pip, and uninstall leaves nothing', async () => {
    const { output } = await run('pip-upgrade', join(folder, 'venv', 'bin', 'weir'), ['upgrade']);
    expectEqual(output.trim(), 'python -m pip install --upgrade weir-mcp', 'command');
    await run('pip-uninstall', python, ['-m', 'pip', 'uninstall', '--quiet', '-y', 'weir-mcp']);
    expectEqual(readdirSync(join(folder, 'venv', 'bin')).filter((name) => name.startsWith('weir')), [], 'what is left');
  });
  await report.check('uvx weir-mcp --version, in an empty HOME', async () => {
    const home = empty('uv-home');
    const env = { HOME: home, UV_CACHE_DIR: join(home, 'cache'), UV_TOOL_DIR: join(home, 'tools'), UV_TOOL_BIN_DIR: join(home, 'bin'), UV_NO_CONFIG: '1' };
    const uvx = join(work, 'pythonuv', 'bin', 'uvx');
    const args = ['--offline', '--no-index', '--from', wheel];
    expectEqual((await run('uvx', uvx, [...args, 'weir-mcp', '--version'], { env, cwd: home })).output.trim(), said, 'output');
    expectEqual((await run('uvx-upgrade', uvx, [...args, 'weir-mcp', 'upgrade'], { env, cwd: home })).output.trim(), 'uvx weir-mcp@latest', 'command');
    await run('uv-tool', join(work, 'pythonuv', 'bin', 'uv'), ['tool', 'install', '--quiet', '--offline', '--no-index', wheel], { env, cwd: home });
    expectEqual((await run('uv-tool-upgrade', join(home, 'bin', 'weir'), ['upgrade'], { env, cwd: home })).output.trim(), 'uv tool upgrade weir-mcp', 'command');
  });
}

async function bundle(report, packages) {
  await report.check('weir.mcpb: the command of its manifest is a gateway', async () => {
    const unpacked = empty('bundle');
    await run('unzip', 'python3', ['-m', 'zipfile', '-e', join(packages, 'weir.mcpb'), unpacked]);
    const manifest = JSON.parse(readFileSync(join(unpacked, 'manifest.json'), 'utf8'));
    const system = process.platform;
    const config = writeConfig('packages-mcpb', { mode: 'gateway', mcpServers: {} });
    const fill = (text) => text.replace('${__dirname}', unpacked).replace('${user_config.config}', config);
    for (const name of files(join(unpacked, 'server'))) await run('chmod', 'chmod', ['755', join(unpacked, 'server', name)]); // zipfile forgets modes
    const { command } = manifest.server.mcp_config.platform_overrides[system];
    const { tools } = await handshake('mcpb', fill(command), [...manifest.server.mcp_config.args.map(fill), '--idle-exit', '1s'], { cwd: unpacked, env: { ...process.env, XDG_STATE_HOME: empty('bundle-state') } });
    expect(tools.includes('tool_execute'), 'tools', tools);
    const server = JSON.parse(readFileSync(join(packages, 'server.json'), 'utf8'));
    expectEqual(server.packages.find((one) => one.registryType === 'mcpb').fileSha256, createHash('sha256').update(readFileSync(join(packages, 'weir.mcpb'))).digest('hex'), 'hash in server.json');
  });
}

// systemPackages checks what GoReleaser made: the archive, and the .deb as dpkg installs it into an empty root.
async function systemPackages(report, release, same) {
  const [deb] = readdirSync(release).filter((name) => name.endsWith('.deb')).map((name) => join(release, name));
  const [archive] = readdirSync(release).filter((name) => name.endsWith('.tar.gz')).map((name) => join(release, name));
  await report.check('two builds of the release: the same bytes', async () => {
    const names = sameFiles(release, same, (name) => /\.(deb|rpm|apk|tar\.gz|cdx\.json)$|^checksums\.txt$|\/weir$/.test(name));
    expect(names.length >= 7, 'too few files', names);
  });
  await report.check('the archive holds the program, its licence, manual and completions', async () => {
    const place = empty('archive');
    await run('tar', 'tar', ['-xzf', archive, '-C', place]);
    const there = files(place);
    for (const name of ['weir', 'LICENSE', 'README.md', 'CHANGELOG.md', 'man/weir.1.gz', 'completions/weir.bash']) expect(there.includes(name), `${name} is missing`, there);
    expectEqual((await run('archive-run', join(place, 'weir'), ['--version'])).output.trim(), `weir v${version}`, 'version');
  });
  await report.check('dpkg --install into an empty root', async () => {
    const root = empty('deb-root');
    for (const part of ['var/lib/dpkg/info', 'var/lib/dpkg/updates']) mkdirSync(join(root, part), { recursive: true });
    for (const part of ['status', 'available']) writeFileSync(join(root, 'var/lib/dpkg', part), '');
    await run('dpkg', 'fakeroot', ['dpkg', `--root=${root}`, '--force-not-root', '--force-architecture', '--log=/dev/null', '--install', deb]);
    const weir = join(root, 'usr/bin/weir');
    expectEqual((await run('deb-run', weir, ['--version'])).output.trim(), `weir v${version}`, 'version');
    expectEqual((await run('deb-upgrade', weir, ['upgrade', '--json'])).output.includes('"channel": "deb"'), true, 'channel deb');
    for (const name of ['usr/share/man/man1/weir.1.gz', 'usr/share/man/man1/weir-call.1.gz', 'usr/share/bash-completion/completions/weir', 'usr/share/doc/weir/copyright',
      'usr/lib/systemd/system/weir.service', 'etc/weir/weir.yaml', 'usr/share/weir/prometheus-rules.yml', 'usr/share/weir/grafana.json']) {
      expect(existsSync(join(root, name)), `${name} is missing`);
    }
    await run('deb-config', weir, ['config', 'check', '--strict', join(root, 'etc/weir/weir.yaml')]);
    expectEqual(readFileSync(join(root, 'var/lib/dpkg/info/weir.conffiles'), 'utf8').trim(), '/etc/weir/weir.yaml', 'conffiles');
    await run('dpkg-remove', 'fakeroot', ['dpkg', `--root=${root}`, '--force-not-root', '--log=/dev/null', '--purge', 'weir']);
    expect(!existsSync(weir), 'it is still there after dpkg --purge');
  });
}

export async function installed({ weir, release, same }) {
  const report = new Report('packages');
  weir = resolve(weir ?? join(here, '..', 'bin', 'weir'));
  const said = (await run('version', weir, ['--version'])).output.trim();
  const dist = join(folder, 'dist');
  mkdirSync(folder, { recursive: true });
  await run('build-dist', 'go', ['build', '-o', dist, './internal/dist/cmd/dist'], { cwd: join(here, '..') });
  const make = (out) => run('dist', dist, ['-version', version, '-time', '1795345200', '-binary', `${goos}/${goarch}=${weir}`, '-partial', '-out', out], { cwd: join(here, '..') });
  const packages = empty('first');
  await make(packages);
  await report.check('two runs of dist: the same bytes', async () => {
    const other = empty('second');
    await make(other);
    sameFiles(packages, other);
  });
  await npmPackages(report, packages, said);
  await wheels(report, packages, said);
  await bundle(report, packages);
  if (release) await systemPackages(report, resolve(release), resolve(same));
  else console.log('note    the archive and the .deb are checked by make packages');
  return report.close();
}

if (process.argv[1] === join(here, 'packages.mjs')) {
  await main(async (options, rest) => {
    const value = (name) => (rest.includes(name) ? rest[rest.indexOf(name) + 1] : undefined);
    await setupUV();
    return installed({ ...options, release: value('--release'), same: value('--same') });
  });
}
