// Fifteen tasks of an agent over real servers: what they cost a model in turns and tokens natively, with single calls through
// weir, and with programs (bench/tasks). It installs the servers and writes down how they start; bench/tasks starts them.
//
//   node interop/tasks.mjs --weir bin/weir [-before PROGRAM] [-only PATTERN]
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { filesStdio, everythingStdio, expect, here, main, memoryStdio, node22, Report, run, work, writeConfig } from './harness.mjs';
import { npmPackages, once, pythonServers } from './setup.mjs';

const folder = join(here, 'servers');
const script = (...parts) => join(folder, 'node_modules', ...parts);
const bin = (name, args = [], env = undefined) => ({ command: node22(), args: [script('.bin', name), ...args], env });
const pip = (environment, name, args = []) => ({ command: join(work, environment, 'bin', name), args });

// called are the servers of the tasks. $ROOT stands for the folder of the tasks.
const called = () => ({
  everything: everythingStdio(),
  files: filesStdio('$ROOT'),
  memory: memoryStdio('$ROOT/memory.json'),
  thinking: bin('mcp-server-sequential-thinking'),
  time: pip('pythonservers', 'mcp-server-time', ['--local-timezone', 'UTC']),
  git: pip('pythonservers', 'mcp-server-git'),
  fetch: pip('pythonservers', 'mcp-server-fetch', ['--ignore-robots-txt', '--allow-private-ips']),
  sqlite: pip('pythonsqlite', 'mcp-server-sqlite', ['--db-path', '$ROOT/shop.db']),
});

// listed are servers of which only the tools are listed: they would need accounts. Each is started once with made-up ones.
const listed = () => ({
  airtable: bin('airtable-mcp-server', [], { AIRTABLE_API_KEY: 'none' }),
  chrome: bin('chrome-devtools-mcp'),
  circleci: bin('mcp-server-circleci'),
  datadog: bin('mcp-server-datadog', [], { DATADOG_API_KEY: 'none', DATADOG_APP_KEY: 'none' }),
  firecrawl: bin('firecrawl-mcp', [], { FIRECRAWL_API_KEY: 'none' }),
  github: bin('mcp-server-github'),
  gitlab: bin('mcp-server-gitlab', [], { GITLAB_PERSONAL_ACCESS_TOKEN: 'none' }),
  hubspot: bin('mcp-hubspot', [], { PRIVATE_APP_ACCESS_TOKEN: 'none' }),
  maps: bin('mcp-server-google-maps', [], { GOOGLE_MAPS_API_KEY: 'none' }),
  mongodb: bin('mongodb-mcp-server'),
  notion: bin('notion-mcp-server'),
  playwright: bin('playwright-mcp', ['--headless']),
  slack: bin('mcp-server-slack', [], { SLACK_BOT_TOKEN: 'none', SLACK_TEAM_ID: 'none' }),
});

export async function tasks({ weir }, args = []) {
  const report = new Report('tasks');
  expect(weir && existsSync(weir), '--weir PATH is missing');
  await Promise.all([
    npmPackages(),
    once('servers of tasks', join(folder, 'node_modules', '.package-lock.json'), ['servers/package.json', 'servers/package-lock.json'], () =>
      run('npm-servers', 'npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error'], { cwd: folder, limit: 900_000 })),
    pythonServers(),
  ]);
  const file = writeConfig('tasks', { servers: called(), listed: listed(), lists: join(work, 'tool-lists') });
  await report.check('every call of the tasks is answered as the agent needs it', async () => {
    const { output } = await run('tasks', 'go', ['run', './bench/tasks', '-weir', weir, '-servers', file, ...args], { cwd: join(here, '..'), limit: 1_500_000 });
    console.log(output.trimEnd());
  });
  return report.close();
}

if (process.argv[1] === join(here, 'tasks.mjs')) await main(tasks);
