// Installs what the drivers need, pinned, into ignored folders: npm packages, Python environments and the Go SDK's
// conformance server and client. A second run finds everything in place and returns at once.
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { here, main, run, work } from './harness.mjs';

export const conformanceServer = join(work, 'everything-server');
export const goClient = join(work, 'go-client');
export const conformanceClient = join(work, 'everything-client');

// once runs an installation unless its result is there and was made from the same inputs.
export async function once(name, result, inputs, install) {
  const stamp = join(work, `${name}.stamp`);
  const hash = createHash('sha256').update(process.version);
  for (const input of inputs) hash.update(readFileSync(join(here, input)));
  const want = hash.digest('hex');
  if (existsSync(result) && existsSync(stamp) && readFileSync(stamp, 'utf8') === want) return;
  console.log(`installing ${name}`);
  await install();
  writeFileSync(stamp, want);
}

const python = (generation) => async () => {
  const environment = join(work, `python${generation}`);
  await run(`venv-${generation}`, 'python3', ['-m', 'venv', '--clear', environment]);
  await run(`pip-${generation}`, join(environment, 'bin', 'python'),
    ['-m', 'pip', 'install', '--quiet', '--disable-pip-version-check', '--no-deps', '-r', join(here, 'clients', `requirements-${generation}.txt`)]);
};

// setupUV installs what packages.mjs needs.
export const setupUV = () => once('uv', join(work, 'pythonuv', 'bin', 'python'), ['clients/requirements-uv.txt'], python('uv'));

// pythonServers installs the MCP servers of PyPI that programs.mjs and tasks.mjs call.
export const pythonServers = () => Promise.all([
  once('Python servers', join(work, 'pythonservers', 'bin', 'python'), ['clients/requirements-servers.txt'], python('servers')),
  once('Python server sqlite', join(work, 'pythonsqlite', 'bin', 'python'), ['clients/requirements-sqlite.txt'], python('sqlite')),
]);

// npmPackages installs the packages of package.json, the pinned Node among them.
export const npmPackages = () => once('npm packages', join(here, 'node_modules', '.package-lock.json'), ['package.json', 'package-lock.json'], () =>
  run('npm', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: here }));

export async function setup() {
  await Promise.all([
    npmPackages(),
    once('Python client 1', join(work, 'python1', 'bin', 'python'), ['clients/requirements-1.txt'], python(1)),
    once('Python client 2', join(work, 'python2', 'bin', 'python'), ['clients/requirements-2.txt'], python(2)),
    once('Python Socket.IO', join(work, 'pythonsocketio', 'bin', 'python'), ['clients/requirements-socketio.txt'], python('socketio')),
    once('Python a2c-smcp 0.1.2', join(work, 'pythona2c1', 'bin', 'python'), ['clients/requirements-a2c1.txt'], python('a2c1')),
    once('Python a2c-smcp, newest', join(work, 'pythona2c4', 'bin', 'python'), ['clients/requirements-a2c4.txt'], python('a2c4')),
    once('Python S2SP', join(work, 'pythons2sp', 'bin', 'python'), ['clients/requirements-s2sp.txt'], python('s2sp')),
    once('Python readers of Arrow', join(work, 'pythontables', 'bin', 'python'), ['clients/requirements-tables.txt'], python('tables')),
    once('Python fastmcp', join(work, 'pythonfastmcp', 'bin', 'python'), ['clients/requirements-fastmcp.txt'], python('fastmcp')),
    once('Python OTLP', join(work, 'pythonotlp', 'bin', 'python'), ['clients/requirements-otlp.txt'], python('otlp')),
    setupUV(),
    once('Go conformance client', conformanceClient, ['peers/go.mod', 'peers/go.sum'], () =>
      run('go-build-client', 'go', ['build', '-o', conformanceClient, 'github.com/modelcontextprotocol/go-sdk/conformance/everything-client'], { cwd: join(here, 'peers') })),
    once('Go client', goClient, ['peers/go.mod', 'peers/go.sum', 'peers/goclient/main.go'], () =>
      run('go-build-goclient', 'go', ['build', '-o', goClient, './goclient'], { cwd: join(here, 'peers') })),
    once('Go conformance server', conformanceServer, ['peers/go.mod', 'peers/go.sum'], () =>
      run('go-build', 'go', ['build', '-o', conformanceServer, 'github.com/modelcontextprotocol/go-sdk/conformance/everything-server'], { cwd: join(here, 'peers') })),
  ]);
}

if (process.argv[1] === join(here, 'setup.mjs')) await main(async () => { await setup(); return 0; });
