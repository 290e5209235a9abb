// The official MCP conformance suite against the Go SDK's conformance server: directly, then through weir's passthrough
// /mcps/conf/mcp. Nothing may change on the way, so the results must be the same check by check; a check that fails on both
// sides is the server's own business.
//
//   node interop/conformance.mjs --weir bin/weir     both, compared
//   node interop/conformance.mjs                     the direct run only, held against the counts it is known to have
import { mkdirSync, readFileSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { answering, expect, freePort, here, main, module, node22, Report, run, start, startWeir, stop, tail, work, Wrong } from './harness.mjs';
import { conformanceServer, setup } from './setup.mjs';

// The counts are those of the direct run with the pinned suite and the pinned server; they catch a suite that silently ran
// less. The 30 failures of 2026-07-28 are all in Tasks, an extension the server does not have and the suite does not score.
// The legacy revisions need a server with sessions, the current one has none.
const runs = [
  { name: '2025-11-25', args: ['--requirements', '2025-11-25'], stateless: false, passed: 82, failed: 0 },
  { name: '2026-07-28', args: ['--requirements', '2026-07-28'], stateless: true, passed: 165, failed: 30 },
  { name: '2025-06-18', args: ['--spec-version', '2025-06-18'], stateless: false, passed: 56, failed: 0 },
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
  const output = join(work, 'conformance', label);
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
  return report.close();
}

if (process.argv[1] === join(here, 'conformance.mjs')) {
  await main(async (options) => { await setup(); return conformance(options); });
}
