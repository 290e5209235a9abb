// The official MCP conformance suite against the Go SDK's conformance server: directly, then through weir's passthrough
// /mcps/conf/mcp, then at the gateway's own /mcp in plain mode. Nothing may change at the passthrough, so the results must be the
// same check by check; at /mcp each check that differs is explained. A check that fails on both sides is the server's own business.
// The scenarios of the extensions for tasks and skills, which that server lacks, run against tasks-server.mjs and skills-server.mjs
// in the same three ways.
//
//   node interop/conformance.mjs --weir bin/weir     all, compared
//   node interop/conformance.mjs                     the direct run only, held against the counts it is known to have
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { answering, expect, expectEqual, freePort, here, main, module, node22, Report, run, scratch, start, startWeir, stop, tail, Wrong } from './harness.mjs';
import { byScenario, cell, sameAsPage } from './figures.mjs';
import { plainNames } from './plain-names.mjs';
import { conformanceServer, setup } from './setup.mjs';

// The counts are those of the direct run with the pinned suite and the pinned server; they catch a suite that silently ran
// less. The 30 failures of 2026-07-28 are all in Tasks, an extension the server does not have and the suite does not score.
// The legacy revisions need a server with sessions, the current one has none.
const runs = [
  { name: '2025-11-25', args: ['--requirements', '2025-11-25'], stateless: false, passed: 82, failed: 0 },
  { name: '2026-07-28', args: ['--requirements', '2026-07-28'], stateless: true, passed: 165, failed: 30 },
  { name: '2025-06-18', args: ['--spec-version', '2025-06-18'], stateless: false, passed: 56, failed: 0 },
];

// The checks that come out otherwise at /mcp. A server of its own for this run has the lists that it begins with.
const front = {
  '2025-11-25': {
    'server-server-sse-multiple-streams / server-sse-streams-functional': 'the gateway answers with JSON where nothing comes before the result',
    'server-server-sse-polling / server-sse-content-type': 'see the streams',
    'server-server-sse-polling / server-sse-disconnect-resume': 'see the streams',
    'server-server-sse-polling / server-sse-priming-event': 'see the streams',
    'server-server-sse-polling / server-sse-retry-field': 'see the streams',
    'server-server-sse-polling / stream-closed': 'see the streams',
  },
  '2026-07-28': {
    'server-server-sse-multiple-streams / server-sse-streams-functional': 'the gateway answers with JSON where nothing comes before the result',
    'server-server-stateless / sep-2575-server-sends-tools-list-changed-on-subscription': 'weir speaks 2025-11-25 to a server of both eras, and there this one, without sessions, has no stream for changes',
    'server-server-stateless / sep-2575-server-sends-prompts-list-changed-on-subscription': 'see the tools',
    'server-input-required-result-validate-input / sep-2322-validate-input-responses': 'the server calls an answer of another type a wrong header, and headers are between it and weir: the model reads the error',
  },
};

// Where the agent's era is not the server's, weir translates, and not every check can come out as it does without it. Each
// one that does not, or not always, is explained; any other is a failure.
const crossings = [
  {
    name: '2026-07-28 at a server with sessions', args: ['--requirements', '2026-07-28'], stateless: false,
    explained: {
      'server-input-required-result-basic-elicitation / sep-2322-elicitation-incomplete': 'a question of a legacy server has no name; weir gives it one',
      'server-input-required-result-basic-elicitation / sep-2322-elicitation-complete': 'follows from the one before',
      'server-input-required-result-multiple-input-requests / sep-2322-multiple-inputs-incomplete': 'a legacy server asks one question after the other, so a round has one',
      'server-input-required-result-multiple-input-requests / sep-2322-multiple-inputs-complete': 'follows from the one before',
      'server-input-required-result-multi-round / sep-2322-multi-round-r2': 'the suite answers by names of its own, which the server never gave, so the call ends early',
      'server-input-required-result-multi-round / sep-2322-multi-round-r3': 'follows from the one before',
      'server-server-sse-multiple-streams / server-sse-streams-functional': 'weir answers a bridged call with JSON where nothing came before the result',
      'server-server-stateless / sep-2575-http-server-method-not-found-404': 'the server answers an unknown method of a session with HTTP 400 and plain text',
      'server-tasks-dispatch-and-envelope / sep-2663-tasks-result-removed-method-not-found': 'see the unknown method',
      'server-tasks-dispatch-and-envelope / tasks-removed-tasks-list': 'see the unknown method',
      'server-input-required-result-capability-check / sep-2322-respect-client-capabilities': 'this server puts both of its questions at once, and fails when the first to arrive is the one that the client cannot answer',
      'server-server-stateless / sep-2575-missing-capability-http-400': 'a legacy server does not refuse for a missing capability',
      'server-server-stateless / sep-2575-server-rejects-undeclared-capability': 'see the missing capability',
    },
  },
  // This server speaks both eras, so weir hands the legacy one through; what it cannot do without sessions, it cannot do directly.
  { name: '2025-11-25 at a server without sessions', args: ['--requirements', '2025-11-25'], stateless: true, explained: {} },
];

async function startServer(stateless) {
  const port = await freePort();
  const child = start(`conformance-server-${stateless ? 'stateless' : 'sessions'}`, conformanceServer, [`-http=127.0.0.1:${port}`, `-stateless=${stateless}`]);
  const url = `http://127.0.0.1:${port}`;
  await answering(url, child);
  return { url, child };
}

// suite runs the suite and returns a Map from "scenario / check" to its status. The same check id can come several times in one
// scenario, so its number is part of the key.
async function suite(label, url, args) {
  const output = join(scratch, 'conformance', label);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const { output: printed } = await run(`suite-${label}`, node22(), [
    module('@modelcontextprotocol', 'conformance', 'dist', 'index.js'), 'server', '--url', url, ...args, '--output-dir', output,
  ], { mayFail: true, limit: 300_000 }); // The suite exits with 1 for a scored failure; what counts here is the comparison.
  const total = /^Total: (\d+) passed, (\d+) failed/m.exec(printed);
  if (!total) throw new Wrong(`the suite printed no total:\n${tail(printed)}`);
  return { statuses: statusesIn(output), passed: Number(total[1]), failed: Number(total[2]) };
}

// statusesIn reads what the suite has written into a folder.
export function statusesIn(output) {
  const statuses = new Map();
  for (const folder of readdirSync(output).sort()) {
    const scenario = folder.replace(/-\d{4}-\d\d-\d\dT[\d-]+Z$/, '');
    const seen = new Map();
    for (const check of JSON.parse(readFileSync(join(output, folder, 'checks.json'), 'utf8'))) {
      const number = (seen.get(check.id) ?? 0) + 1;
      seen.set(check.id, number);
      statuses.set(`${scenario} / ${check.id}${number > 1 ? ` #${number}` : ''}`, { status: check.status, why: check.errorMessage ?? '' });
    }
  }
  return statuses;
}

// compare lists the checks whose status differs.
export function compare(direct, through) {
  const lines = [];
  for (const key of [...new Set([...direct.keys(), ...through.keys()])].sort()) {
    const [a, b] = [direct.get(key), through.get(key)];
    if (a?.status !== b?.status) lines.push(`${key}: direct ${a?.status ?? 'absent'}, through weir ${b?.status ?? 'absent'}${b?.why ? ` (${b.why})` : ''}`);
  }
  return lines;
}

export async function conformance({ weir }) {
  const report = new Report(weir ? 'conformance, direct and through weir' : 'conformance, direct');
  const found = {}; // the statuses of runs, for the page
  for (const { name, args, stateless, passed, failed } of runs) {
    const server = await startServer(stateless);
    const direct = await report.check(`${name} direct: ${passed} passed, ${failed} failed`, async () => {
      const result = await suite(`${name}-direct`, server.url, args);
      expect(result.passed === passed && result.failed === failed, `${result.passed} passed, ${result.failed} failed, want ${passed} and ${failed}`);
      expect(result.statuses.size >= passed + failed, `only ${result.statuses.size} checks on disk`);
      return result;
    });
    if (weir) {
      await report.check(`${name} through weir: equal check by check`, async () => {
        expect(direct, 'there is no direct run to compare with');
        const gateway = await startWeir(weir, `weir-conformance-${name}`, { mcpServers: { conf: { type: 'http', url: server.url } } });
        try {
          const through = await suite(`${name}-weir`, gateway.at('conf'), args);
          const differences = compare(direct.statuses, through.statuses);
          expect(differences.length === 0, `${through.passed} passed, ${through.failed} failed; ${differences.length} checks differ\n${differences.join('\n')}`);
          expect(through.passed === direct.passed && through.failed === direct.failed, `${through.passed} passed, ${through.failed} failed, want ${direct.passed} and ${direct.failed}`);
        } finally {
          await gateway.stop();
        }
      });
    }
    await stop(server.child);
    if (!weir || !front[name]) continue;
    found[name] = direct?.statuses;
    found[`${name} front`] = await report.check(`${name} at /mcp: equal check by check, ${Object.keys(front[name]).length} explained`, () => atFront(weir, name, args, stateless, direct));
  }
  Object.assign(found, await tasks(report, weir), await skills(report, weir));
  if (weir) await report.check('the figures of docs/conformance.md', () => sameAsPage('Servers', rows(found)));
  if (weir) for (const crossing of crossings) await cross(report, weir, crossing);
  return report.close();
}

// rows are the table of the page: what a server passes directly and through /mcps/NAME/mcp, which is the same, and at /mcp.
function rows(found) {
  const columns = ['2025-11-25', '2025-11-25 front', '2026-07-28', '2026-07-28 front'].map((name) => byScenario(found[name]));
  for (const [extension, into] of [['tasks', 2], ['tasks front', 3], ['skills', 2], ['skills front', 3]]) {
    for (const [scenario, statuses] of byScenario(found[extension])) columns[into].set(scenario, statuses); // that server has the extension
  }
  const scenarios = [...new Set(columns.flatMap((column) => [...column.keys()]))].sort();
  return scenarios.map((scenario) => [scenario, ...columns.map((column) => cell(column.get(scenario)))]);
}

// unexplained returns the differences between two runs that nothing explains, and fails where an explanation explains nothing.
function unexplained(direct, through, explained) {
  const differences = compare(direct, through);
  const key = (line) => line.slice(0, line.indexOf(': direct '));
  const idle = Object.keys(explained).filter((one) => !differences.some((line) => key(line) === one));
  expect(idle.length === 0, `no difference any more: ${idle.join(', ')}`);
  return differences.filter((line) => !(key(line) in explained));
}

// atFront runs a suite at the gateway's own /mcp, and compares with the direct run.
async function atFront(weir, name, args, stateless, direct) {
  expect(direct, 'there is no direct run to compare with');
  const server = await startServer(stateless);
  const gateway = await startWeir(weir, `weir-front-${name}`, { mode: 'plain', mcpServers: { conf: { type: 'http', url: server.url } } });
  const names = await plainNames(gateway.url, 'conf');
  try {
    const through = await suite(`${name}-front`, names.url, args);
    const differences = unexplained(direct.statuses, through.statuses, front[name]);
    expect(differences.length === 0, `${through.passed} passed, ${through.failed} failed; ${differences.length} checks differ\n${differences.join('\n')}`);
    console.log(`        ${through.passed} passed, ${through.failed} failed`);
    return through.statuses;
  } finally {
    names.stop();
    await gateway.stop();
    await stop(server.child);
  }
}

// The scenarios of the Tasks extension, and the checks that fail at /mcp: the gateway waits for the task itself, so an agent gets
// the result, or a handle, and never a task; and there are no methods of tasks.
const taskScenarios = [
  'lifecycle', 'capability-negotiation', 'wire-fields', 'request-state-removal', 'mrtr-input', 'request-headers', 'dispatch-and-envelope', 'status-notifications',
  'required-task-error', 'mrtr-composition',
].map((name) => `tasks-${name}`);
const noTasksAtFront = Object.entries({
  'capability-negotiation': ['sep-2663-tasks-methods-non-declaring', 'tasks-extension-advertised', 'tasks-per-request-meta-opt-in'],
  'dispatch-and-envelope': ['sep-2663-durable-create-strong-consistency', 'sep-2663-tasks-get-invalid-task-id-32602', 'tasks-server-directed-creation-no-hint'],
  lifecycle: [
    'sep-2663-cancel-ack-empty-result', 'sep-2663-result-type-task-on-create', 'sep-2663-tasks-get-status-completed', 'sep-2663-tasks-get-status-failed',
    'sep-2663-tasks-get-status-working', 'sep-2663-tool-error-uses-completed-status', 'tasks-cancel-terminal-idempotent-ack',
  ],
  'mrtr-composition': ['sep-2663-mrtr-synchronous-before-task-creation'],
  'mrtr-input': ['sep-2663-tasks-get-status-input-required', 'tasks-mrtr-partial-fulfillment', 'tasks-mrtr-tasks-update-resumes'],
  'request-headers': ['sep-2663-routing-headers-accepted-on-tasks-get', 'sep-2663-server-rejects-mismatched-mcp-name-on-tasks-get'],
  'request-state-removal': ['tasks-request-state-removal-setup'],
  'required-task-error': ['sep-2663-server-returns-missing-capability-when-required'],
  'wire-fields': ['tasks-no-early-ttl-expiry', 'tasks-no-related-task-meta-on-inlined-result', 'tasks-wire-field-renames'],
}).flatMap(([scenario, checks]) => checks.map((check) => `server-tasks-${scenario} / ${check}`));

// extensionRun runs scenarios, all at once, and returns the status of each check.
async function extensionRun(label, url, scenarios) {
  const output = join(scratch, 'conformance', label);
  rmSync(output, { recursive: true, force: true });
  await Promise.all(scenarios.map((scenario) => run(`suite-${label}-${scenario}`, node22(), [
    module('@modelcontextprotocol', 'conformance', 'dist', 'index.js'), 'server', '--url', url, '--scenario', scenario, '--output-dir', output,
  ], { mayFail: true, limit: 120_000 })));
  return statusesIn(output);
}

// tasks runs the scenarios of the Tasks extension: nothing fails directly, the passthrough changes nothing, and at /mcp those checks
// fail that noTasksAtFront lists.
async function tasks(report, weir) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = start('tasks-server', node22(), [join(here, 'tasks-server.mjs'), String(port)]);
  await answering(url, server);
  const failing = (statuses) => [...statuses].filter(([, { status }]) => status === 'FAILURE').map(([key]) => key).sort();
  const direct = await report.check('Tasks direct: 44 passed, 1 skipped', async () => {
    const statuses = await extensionRun('tasks-direct', url, taskScenarios);
    const count = (status) => [...statuses.values()].filter((check) => check.status === status).length;
    expect(count('SUCCESS') === 44 && count('SKIPPED') === 1 && statuses.size === 45, `${count('SUCCESS')} passed, ${count('SKIPPED')} skipped of ${statuses.size}; failed: ${failing(statuses).join(', ')}`);
    return statuses;
  });
  let front;
  if (weir && direct) {
    const gateway = await startWeir(weir, 'weir-tasks', { mode: 'plain', tasks: { wait: '1s' }, mcpServers: { conf: { type: 'http', url } } });
    await report.check('Tasks through weir: equal check by check', async () => {
      const differences = compare(direct, await extensionRun('tasks-weir', gateway.at('conf'), taskScenarios));
      expect(differences.length === 0, `${differences.length} checks differ\n${differences.join('\n')}`);
    });
    await report.check(`Tasks at /mcp: ${noTasksAtFront.length} checks fail, which need a task that the agent sees`, async () => {
      const names = await plainNames(gateway.url, 'conf');
      try {
        front = await extensionRun('tasks-front', names.url, taskScenarios);
        expectEqual(failing(front), noTasksAtFront, 'failures');
      } finally {
        names.stop();
      }
    });
    await gateway.stop();
  }
  await stop(server);
  return { tasks: direct, 'tasks front': front };
}

const skillScenarios = ['directory', 'enumeration', 'manifest'].map((name) => `sep-2640-skills-${name}`);

// skills runs the scenarios of the Skills extension: nothing fails directly, and the passthrough changes nothing. The gateway's own
// /mcp does not declare the extension, so the suite skips every check there.
async function skills(report, weir) {
  const port = await freePort();
  const url = `http://127.0.0.1:${port}`;
  const server = start('skills-server', node22(), [join(here, 'skills-server.mjs'), String(port)]);
  await answering(url, server);
  const count = (statuses, status) => [...statuses.values()].filter((check) => check.status === status).length;
  const direct = await report.check('Skills direct: 45 passed', async () => {
    const statuses = await extensionRun('skills-direct', url, skillScenarios);
    expect(count(statuses, 'SUCCESS') === 45 && statuses.size === 45, `${count(statuses, 'SUCCESS')} passed of ${statuses.size}`, [...statuses].filter(([, { status }]) => status !== 'SUCCESS'));
    return statuses;
  });
  let front;
  if (weir && direct) {
    const gateway = await startWeir(weir, 'weir-skills', { mode: 'plain', mcpServers: { conf: { type: 'http', url } } });
    await report.check('Skills through weir: equal check by check', async () => {
      const differences = compare(direct, await extensionRun('skills-weir', gateway.at('conf'), skillScenarios));
      expect(differences.length === 0, `${differences.length} checks differ\n${differences.join('\n')}`);
    });
    await report.check('Skills at /mcp: all skipped, as weir does not declare the extension', async () => {
      front = await extensionRun('skills-front', gateway.url, skillScenarios);
      const other = [...front].filter(([key, { status }]) => status !== 'SKIPPED' && !key.endsWith(' / wire-schema-valid'));
      expect(other.length === 0 && count(front, 'FAILURE') === 0 && front.size === direct.size, `of ${front.size} checks these are not skipped`, other);
    });
    await gateway.stop();
  }
  await stop(server);
  return { skills: direct, 'skills front': front };
}

// cross runs a suite through weir against a server of the other kind, and compares with the direct run against the kind of server
// whose results are to be reached: for the modern suite a modern server, for the legacy one the same server.
async function cross(report, weir, { name, args, stateless, explained }) {
  await report.check(`${name}: equal check by check, ${Object.keys(explained).length} explained`, async () => {
    const label = name.replaceAll(' ', '-');
    const reference = await startServer(true);
    const direct = await suite(`${label}-direct`, reference.url, args);
    await stop(reference.child);
    const server = await startServer(stateless);
    const gateway = await startWeir(weir, `weir-${label}`, { mcpServers: { conf: { type: 'http', url: server.url } } });
    try {
      const through = await suite(`${label}-weir`, gateway.at('conf'), args);
      const differences = compare(direct.statuses, through.statuses).filter((line) => !(line.slice(0, line.indexOf(': direct ')) in explained));
      expect(through.statuses.size > 0.8 * direct.statuses.size, `only ${through.statuses.size} checks, ${direct.statuses.size} directly`);
      expect(differences.length === 0, `${differences.length} checks differ and are not explained\n${differences.join('\n')}`);
    } finally {
      await gateway.stop();
      await stop(server.child);
    }
  });
}

if (process.argv[1] === join(here, 'conformance.mjs')) {
  await main(async (options) => { await setup(); return conformance(options); });
}
