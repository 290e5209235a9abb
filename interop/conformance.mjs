// The official MCP conformance suite against the Go SDK's conformance server: directly, then through weir's passthrough
// /mcps/conf/mcp. Nothing may change on the way, so the results must be the same check by check; a check that fails on both
// sides is the server's own business.
//
//   node interop/conformance.mjs --weir bin/weir     both, compared
//   node interop/conformance.mjs                     the direct run only, held against the counts it is known to have
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { answering, expect, freePort, here, main, module, node22, Report, run, scratch, start, startWeir, stop, tail, Wrong } from './harness.mjs';
import { conformanceServer, setup } from './setup.mjs';

// The counts are those of the direct run with the pinned suite and the pinned server; they catch a suite that silently ran
// less. The 30 failures of 2026-07-28 are all in Tasks, an extension the server does not have and the suite does not score.
// The legacy revisions need a server with sessions, the current one has none.
const runs = [
  { name: '2025-11-25', args: ['--requirements', '2025-11-25'], stateless: false, passed: 82, failed: 0 },
  { name: '2026-07-28', args: ['--requirements', '2026-07-28'], stateless: true, passed: 165, failed: 30 },
  { name: '2025-06-18', args: ['--spec-version', '2025-06-18'], stateless: false, passed: 56, failed: 0 },
];

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
  }
  if (weir) for (const crossing of crossings) await cross(report, weir, crossing);
  return report.close();
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
