// The official MCP conformance suite for clients, with weir as the client: what reaches the suite's server is weir's own
// connection to an upstream. The Go SDK's example client shows what each check says of a client that is right.
//
//   node interop/conformance-client.mjs --weir bin/weir     both, compared check by check
//   node interop/conformance-client.mjs                     the example client only
//
// In the scenarios of auth/ weir signs in at the suite's server (clients/weir-auth.mjs). notRun says what is left out, and why.
import { mkdirSync, rmSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { cell, sameAsPage } from './figures.mjs';
import { compare, statusesIn } from './conformance.mjs';
import { expect, expectEqual, here, main, module, node22, Report, run, scratch, tail, work, Wrong } from './harness.mjs';
import { conformanceClient, setup } from './setup.mjs';

const suite = module('@modelcontextprotocol', 'conformance', 'dist', 'index.js');

const signedIn = (...names) => names.map((name) => `auth/${name}`);
const both = [
  'tools_call', 'json-schema-2020-12-preservation',
  ...signedIn('metadata-default', 'metadata-var1', 'metadata-var2', 'metadata-var3', 'basic-cimd', 'scope-from-www-authenticate', 'scope-from-scopes-supported',
    'scope-omitted-when-undefined', 'scope-step-up', 'scope-retry-limit', 'token-endpoint-auth-basic', 'token-endpoint-auth-post', 'token-endpoint-auth-none', 'pre-registration'),
];
const scenarios = {
  '2025-03-26': signedIn('2025-03-26-oauth-metadata-backcompat', '2025-03-26-oauth-endpoint-fallback'),
  '2025-11-25': ['initialize', 'elicitation-sep1034-client-defaults', 'sse-retry', ...both],
  '2026-07-28': [
    'request-metadata', 'sep-2322-client-request-state', 'http-standard-headers', 'http-custom-headers', 'http-invalid-tool-headers', 'json-schema-ref-no-deref', ...both,
    ...signedIn('resource-mismatch', 'offline-access-scope', 'offline-access-not-supported', 'authorization-server-migration', 'iss-supported', 'iss-not-advertised',
      'iss-supported-missing', 'iss-wrong-issuer', 'iss-unexpected', 'iss-normalized', 'metadata-issuer-mismatch'),
  ],
  // The example client has no extensions: weir has to pass every check by itself.
  extension: signedIn('client-credentials-basic', 'client-credentials-jwt', 'wif-jwt-bearer', 'enterprise-managed-authorization', 'dpop', 'dpop-nonce'),
};

// What the suite has and is not run.
const notRun = {
  'sep-2640-client-no-prefetch': 'weir has no skills', 'sep-2640-client-verify-digest': 'weir has no skills',
  'sep-2640-client-verify-size': 'weir has no skills', 'sep-2640-client-verify-frontmatter': 'weir has no skills',
};

// weir finds out which era a server speaks by greeting it in the legacy one first, as most servers want it. These checks want
// that every request, that one too, is of 2026-07-28; all others of the same scenarios hold for what follows.
const greeting = 'weir greets a server that it does not know with initialize';
const document = 'weir is the client of the document at its public URL, and the suite knows one of another path';
const explained = {
  '2025-11-25 auth/basic-cimd': { why: document, checks: ['cimd-client-id-used'] },
  '2026-07-28 auth/basic-cimd': { why: document, checks: ['cimd-client-id-used'] },
  '2025-03-26 auth/2025-03-26-oauth-endpoint-fallback': { why: 'weir guesses no endpoints', checks: ['authorization-request', 'client-registration', 'token-request', 'valid-bearer-token'] },
  '2026-07-28 request-metadata': { why: greeting, checks: ['sep-2575-http-client-sends-version-header', 'sep-2575-client-populates-meta', 'sep-2575-client-sends-client-info'] },
  '2026-07-28 http-standard-headers': { why: greeting, checks: ['sep-2243-client-includes-standard-headers'] },
};

// examine runs one scenario and returns a Map of its checks and their statuses. Checks that only tell what went over the wire
// are left out: how many there are depends on how a client goes about it.
async function examine(label, command, scenario, revision) {
  const output = join(scratch, 'conformance-client', label, revision, scenario);
  rmSync(output, { recursive: true, force: true });
  mkdirSync(output, { recursive: true });
  const asked = revision === 'extension' ? ['--spec-version', '2026-07-28', '--force'] : ['--spec-version', revision];
  const { output: printed } = await run(`suite-client-${label}-${revision}-${scenario.replaceAll('/', '-')}`, node22(),
    [suite, 'client', '--command', command, '--scenario', scenario, ...asked, '--output-dir', output], { mayFail: true, limit: 120_000 });
  const folder = join(output, dirname(scenario));
  const statuses = new Map([...statusesIn(folder)].filter(([, { status }]) => status !== 'INFO' && status !== 'SKIPPED'));
  if (statuses.size === 0) throw new Wrong(`the suite has made no check:\n${tail(printed)}`);
  return statuses;
}

// worst joins the statuses of checks that come several times under one id: the order and number of requests is the client's.
function worst(statuses) {
  const joined = new Map();
  for (const [key, value] of statuses) {
    const id = key.replace(/ #\d+$/, '');
    if (!joined.has(id) || value.status !== 'SUCCESS') joined.set(id, value);
  }
  return joined;
}

const good = (statuses) => [...statuses.values()].filter(({ status }) => status === 'SUCCESS').length;

// examinations begins every examination, a few at a time, and returns a function that gives the promise of one.
function examinations(weir) {
  const atOnce = 3;
  const [waiting, begun] = [[], new Map()];
  for (const [revision, names] of Object.entries(scenarios)) {
    for (const scenario of names) {
      const program = scenario.startsWith('auth/') ? 'weir-auth.mjs' : 'weir.mjs';
      const commands = { direct: revision === 'extension' ? undefined : conformanceClient, weir: weir && `node ${join(here, 'clients', program)} ${weir}` };
      for (const [label, command] of Object.entries(commands)) {
        if (!command) continue;
        begun.set(`${label} ${revision} ${scenario}`, new Promise((settle) => {
          waiting.push(() => examine(label, command, scenario, revision).then((statuses) => settle({ statuses }), (error) => settle({ error })));
        }));
      }
    }
  }
  for (let i = 0; i < atOnce; i++) (async () => { while (waiting.length > 0) await waiting.shift()(); })();
  return async (label, revision, scenario) => {
    const { statuses, error } = await begun.get(`${label} ${revision} ${scenario}`);
    if (error) throw error;
    return worst(statuses);
  };
}

export async function conformanceAsClient({ weir }) {
  const report = new Report(weir ? 'client conformance, the example client and weir' : 'client conformance, the example client');
  const totals = { direct: 0, weir: 0, failed: 0 };
  await report.check('the scenarios are those of the suite', async () => {
    const { output } = await run('suite-list', node22(), [suite, 'list']);
    const listed = output.slice(output.indexOf('Client scenarios'), output.indexOf('Authorization server scenarios'));
    for (const [revision, names] of Object.entries(scenarios)) {
      const want = [...listed.matchAll(/^ {2}- (\S+) \[([^\]]*)\]/gm)].filter(([, name, revisions]) => revisions.split(',').includes(revision) && !notRun[name]).map(([, name]) => name);
      expectEqual([...names].sort(), want.sort(), revision);
    }
  });
  rmSync(join(work, 'runs', 'weir-auth'), { recursive: true, force: true }); // the homes of an earlier run
  const examined = examinations(weir);
  const found = {}; // cells of the page by scenario
  for (const [revision, names] of Object.entries(scenarios)) {
    for (const scenario of names) {
      const direct = revision === 'extension' ? new Map() : await report.check(`${revision} ${scenario}, the example client: all checks hold`, async () => {
        const statuses = await examined('direct', revision, scenario);
        expect(good(statuses) === statuses.size, 'some do not', [...statuses]);
        totals.direct += statuses.size;
        return statuses;
      });
      if (!weir) continue;
      const exception = explained[`${revision} ${scenario}`];
      await report.check(`${revision} ${scenario}, weir: ${exception ? `the same except ${exception.checks.length}: ${exception.why}` : 'the same'}`, async () => {
        expect(direct, 'there is nothing to compare with');
        const through = await examined('weir', revision, scenario);
        Object.assign(found[scenario] ??= {}, { [`direct ${revision}`]: cell(direct), [`weir ${revision}`]: cell(through) });
        totals.weir += good(through);
        // weir declares capabilities that the example client does not, and passes the checks that this brings.
        for (const [id, value] of through) if (!direct.has(id) && value.status === 'SUCCESS') through.delete(id);
        const differences = compare(direct, through);
        const unexplained = differences.filter((line) => !exception?.checks.some((id) => line.startsWith(`${basename(scenario)} / ${id}:`)));
        totals.failed += differences.length - unexplained.length;
        expect(unexplained.length === 0, `${unexplained.length} checks differ\n${unexplained.join('\n')}`);
        expect(differences.length === (exception?.checks.length ?? 0), `only ${differences.length} checks differ: tell so in explained`);
      });
    }
  }
  if (weir) {
    await report.check('the figures of docs/conformance.md', () => sameAsPage('Clients', Object.keys(found).sort().map((scenario) => {
      const of = (name) => found[scenario][name] ?? '–';
      const revision = of('weir 2025-03-26') === '–' ? '2025-11-25' : '2025-03-26';
      return [scenario, of(`direct ${revision}`), of(`weir ${revision}`), of('direct 2026-07-28'), found[scenario]['weir extension'] ?? of('weir 2026-07-28')];
    })));
  }
  console.log(`# ${totals.direct} checks hold for the example client${weir ? `, ${totals.weir} for weir; ${totals.failed} do not and are explained` : ''}`);
  return report.close();
}

if (process.argv[1] === join(here, 'conformance-client.mjs')) {
  await main(async (options) => { await setup(); return conformanceAsClient(options); });
}
