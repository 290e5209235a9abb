// The official clients use a gateway with every control on: dry runs, quotas, policy, approval, cache, tolerant arguments and
// cache-stable browsing, as text and as JSON; then `weir select` beside it. Each client has a gateway of its own, as a client
// of the modern era has no session for a quota to end with.
//
//   node interop/clients-controls.mjs --weir bin/weir
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { combinations, envelopeOf, errorOf, findTool, idsIn, label, session } from './clients.mjs';
import { fixtures } from './fixtures.mjs';
import { everythingStdio, expect, expectEqual, filesStdio, main, Report, run, startWeir, textOf, work, writeConfig } from './harness.mjs';
import { setup } from './setup.mjs';

const allowed = 2;
const marker = '__cache_breakpoint__';
const configOf = (files, limited) => ({
  mcpServers: { everything: everythingStdio(), files: filesStdio(files.root) },
  tolerant_args: true,
  cache_stable: true,
  cache: { read_only: true },
  retry: { max_attempts: 2 },
  policy: {
    approval_wait: '0s',
    rules: [
      { action: 'deny', namespace: 'files', read_only: false, reason: 'files are read-only here' },
      { action: 'require_approval', tool: 'get-env' },
    ],
  },
  rate_limits: limited ? { per_tool: { [limited]: { max_calls_per_session: allowed } } } : {},
});

async function controlsFlow(client, check, combination, files, limited) {
  const text = (name, args) => client.call(name, args);
  // json has the gateway answer for programs: the same document as text and as structuredContent.
  const json = async (name, args) => {
    const result = await client.get('callTool', { name, arguments: args, _meta: { 'weir/format': 'json' } });
    expectEqual(JSON.parse(textOf(result)), result.structuredContent, 'the text beside structuredContent');
    return result.structuredContent;
  };
  const sum = await check('finds a tool', () => findTool(client, 'sum of two numbers', 'everything:get-sum'));
  const read = await check('finds another', () => findTool(client, 'read a text file', 'files:read_text_file'));
  const write = await check('finds a third', () => findTool(client, 'create a new file or overwrite', 'files:write_file'));

  await check('a dry run reports and runs nothing', async () => {
    const args = { tool_id: limited, args: { message: 'not said' }, dry_run: true };
    for (const report of [JSON.parse(textOf(await text('tool_execute', args))), await json('tool_execute', args), await json('tool_execute', args)]) {
      expect(report.dry_run === true && report.tool_id === limited && report.args_valid === true && report.annotations.verified === false, 'wrong report', report);
      expectEqual(report.checks.map(({ name, status }) => `${name} ${status}`), ['schema_validation pass', 'rate_limit pass', 'policy pass'], 'checks');
    }
    expectEqual(errorOf(await text('tool_execute', { ...args, args: { message: {} } })).error, 'ARGS_INVALID', 'error');
  });

  await check('a quota is used up by calls, not by dry runs', async () => {
    for (let n = 0; n < allowed; n++) {
      const result = await text('tool_execute', { tool_id: limited, args: { message: `number ${n}` } });
      expectEqual(result.content, [{ type: 'text', text: `Echo: number ${n}` }], 'content');
    }
    const args = { tool_id: limited, args: { message: 'one too many' } };
    for (const error of [errorOf(await text('tool_execute', args)), await json('tool_execute', args), errorOf(await text('tool_execute', { ...args, dry_run: true }))]) {
      expect(error.error === 'RATE_LIMITED' && error.retryable === true, 'wrong error', error);
      expect(error.details.scope === `tool:${limited}/session` && error.details.retry_after === null, 'wrong details', error.details);
    }
  });

  await check('the policy refuses what writes', async () => {
    const file = join(files.root, `refused-${label(combination).replaceAll(' ', '-')}.txt`);
    const args = { tool_id: write, args: { path: file, content: 'x' } };
    for (const error of [errorOf(await text('tool_execute', args)), await json('tool_execute', args), errorOf(await text('tool_execute', { ...args, dry_run: true }))]) {
      expect(error.error === 'PERMISSION_DENIED' && error.retryable === false, 'wrong error', error);
      expect(error.message.includes('files are read-only here') && error.details.action === 'deny', 'the error does not say why', error);
    }
    let there = true;
    try { readFileSync(file); } catch { there = false; }
    expect(!there, 'the file was written');
  });

  await check('a person is asked where the policy says so', async () => {
    const id = await findTool(client, 'environment variables', 'everything:get-env');
    expectEqual((await json('tool_execute', { tool_id: id, args: {}, dry_run: true })).checks.at(-1), { name: 'policy', status: 'approval_required' }, 'check');
    const result = await text('tool_execute', { tool_id: id, args: {} });
    if (!combination.mode) {
      expect(!result.isError && envelopeOf(result).status === 'ok', 'the call was not made', textOf(result));
    } else if (result.isError) {
      expectEqual(errorOf(result).error, 'PERMISSION_DENIED', 'error');
    }
  });

  await check('an equal call is answered from the cache', async () => {
    const file = join(files.root, 'cached.txt');
    const call = { tool_id: read, args: { path: file } };
    // The server asks for roots in its first call, and what it answers after a question is not kept.
    await text('tool_execute', { tool_id: read, args: { path: files.small.file } });
    writeFileSync(file, 'as it was');
    const first = await text('tool_execute', call);
    expect(textOf(first) === 'as it was' && !envelopeOf(first).provenance.cache_hit, 'wrong first answer', first);
    writeFileSync(file, 'as it is now');
    const second = await text('tool_execute', { args: { path: file }, tool_id: read });
    expect(textOf(second) === 'as it was' && envelopeOf(second).provenance.cache_hit === true, 'wrong second answer', second);
    const third = await json('tool_execute', call);
    expect(third.provenance.cache_hit === true && third.summary === 'as it was', 'wrong third answer', third);
    const other = await text('tool_execute', { tool_id: read, args: { path: file, head: 1 } });
    expect(textOf(other) === 'as it is now' && !envelopeOf(other).provenance.cache_hit, 'another call was answered from the cache', other);
    rmSync(file);
  });

  await check('arguments are repaired, and the repairs recorded', async () => {
    const repaired = await text('tool_execute', { tool_id: sum, args: { a: '20', b: '22' } });
    expect(textOf(repaired).includes('42'), 'wrong sum', textOf(repaired));
    expectEqual(envelopeOf(repaired).provenance.arg_repairs.map(({ path }) => path).sort(), ['$.a', '$.b'], 'paths of arg_repairs');
    const whole = await json('tool_execute', { tool_id: sum, args: '{"a":30,"b":33}' });
    expect(whole.summary.includes('63') && whole.provenance.arg_repairs.length === 1, 'a stringified object was not repaired', whole);
    expectEqual(errorOf(await text('tool_execute', { tool_id: sum, args: { a: 'two', b: 22 } })).error, 'ARGS_INVALID', 'error');
  });

  await check('a tool_id that differs in case is repaired, and a beginning of one is not', async () => {
    const result = await text('tool_execute', { tool_id: sum.toUpperCase(), args: { a: 1, b: 2 } });
    const { provenance } = envelopeOf(result);
    expect(!result.isError && provenance.tool_id === sum && provenance.selection, 'not repaired', result);
    const error = errorOf(await text('tool_execute', { tool_id: sum.slice(0, -2), args: { a: 1, b: 2 } }));
    expect(error.error === 'HYDRATE_FAILED' && error.details.nearest.includes(sum), 'wrong error', error);
  });

  await check('what was seen comes first, then the marker, then what is new', async () => {
    const cards = async (query) => {
      const lines = textOf(await text('tool_browse', { query, top_k: 6 })).split('\n');
      return lines.filter((line) => line.startsWith(marker) || idsIn(line.split(' ')[0]).length > 0);
    };
    const idOf = (line) => line.split(' ')[0];
    const before = await cards('list a directory with sizes');
    const again = await cards('list a directory with sizes');
    expectEqual(again.map(idOf), before.map(idOf).filter((id) => id !== marker).sort(), 'all of them are known now');
    const seen = new Map(again.map((line) => [idOf(line), line]));
    const mixed = await cards('directory tree and resource links');
    const at = mixed.findIndex((line) => line.startsWith(marker));
    expect(at > 0 && at < mixed.length - 1, 'there is no marker between two parts', mixed);
    for (const line of mixed.slice(at + 1)) expect(!seen.has(idOf(line)), 'a card that was seen is called new', line);
    const known = mixed.slice(0, at).map(idOf);
    expectEqual(known, [...known].sort(), 'the known part');
    for (const line of mixed) if (seen.has(idOf(line))) expectEqual(line, seen.get(idOf(line)), 'a card that was seen');
    const found = await client.get('callTool', { name: 'tool_browse', arguments: { query: 'directory tree and resource links', top_k: 6 }, _meta: { 'weir/format': 'json' } });
    expectEqual({ cards: JSON.parse(textOf(found)) }, found.structuredContent, 'the text beside structuredContent');
    expectEqual(found.structuredContent.cards.map(({ id }) => id), mixed.map(idOf).filter((id) => id !== marker).sort(), 'cards in structuredContent');
  });
}

// selects checks `weir select`, which bounds a model's choice to ids that the gateway offers.
async function selects(report, weir, url) {
  const select = (...args) => run('weir-select', weir, ['select', '--url', url, ...args], { mayFail: true });
  await report.check('weir select: a schema of what the gateway finds', async () => {
    const { code, output } = await select('--query', 'sum of two numbers', '--top-k', '3', '--variant', 'openai');
    const { json_schema: { strict, schema } } = JSON.parse(output);
    expect(code === 0 && strict === true && schema.additionalProperties === false, 'wrong schema', output);
    expect(schema.properties.selection.enum.some((id) => id.startsWith('everything:get-sum')), 'the tool is not among the candidates', output);
  });
  for (const [choice, code, status] of [['EVERYTHING:GET-SUM', 0, 'repaired'], ['everything:no-such-tool', 4, 'rejected']]) {
    await report.check(`weir select: ${choice} is ${status}`, async () => {
      const got = await select('--query', 'sum of two numbers', '--check', choice);
      expect(got.code === code && JSON.parse(got.output).status === status, `exit code ${got.code}`, got.output);
    });
  }
}

export async function controls({ weir }) {
  const report = new Report('clients through a gateway with controls');
  if (!weir) {
    console.log('needs --weir');
    return 0;
  }
  const files = fixtures();
  const { output } = await run('weir-browse', weir, ['browse', '/everything', '--config', writeConfig('weir-plain', configOf(files))]);
  const limited = idsIn(output).find((id) => /^everything:echo[#@]/.test(id));
  expect(limited, 'echo is not there', output);
  const config = configOf(files, limited);
  for (const combination of combinations) {
    const { transport } = combination;
    if (transport === 'stdio') {
      const target = { command: weir, args: ['serve', '--stdio', '--config', writeConfig('weir-controls-stdio', config)] };
      await session(report, combination, target, (client, check) => controlsFlow(client, check, combination, files, limited));
      continue;
    }
    const gateway = await startWeir(weir, 'weir-controls', config);
    const target = { url: transport === 'sse' ? `${gateway.base}/sse` : gateway.url };
    await session(report, combination, target, (client, check) => controlsFlow(client, check, combination, files, limited));
    if (combination === combinations[0]) await selects(report, weir, gateway.url);
    await gateway.stop();
  }
  return report.close();
}

if (process.argv[1] === join(work, '..', 'clients-controls.mjs')) {
  await main(async (options) => { await setup(); return controls(options); });
}
