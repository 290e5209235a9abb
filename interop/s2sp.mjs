// Holds S2SP against the public Python implementation (PyPI mcp-s2sp), in both directions, through the gateway: its tables to its own
// consumer and to ours, ours to its consumer, async and sync, and tables of servers that know nothing of it; then the MCP inspector
// lists and calls our example servers.
//
//   node interop/s2sp.mjs --weir bin/weir
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Client, expect, expectEqual, freePort, here, main, module, node22, Report, run, startWeir, textOf, work, Wrong } from './harness.mjs';
import { idsIn } from './clients.mjs';
import { setup } from './setup.mjs';

const python = { command: join(work, 'pythons2sp', 'bin', 'python'), args: [join(here, 's2sp', 'server.py')] };
const asyncKeys = ['total_rows', 'columns', 'abstract_domains', 'body_domains', 'resource_url', 'abstract'];
const syncKeys = ['total_rows', 'columns', 'abstract_domains', 'body_domains', 'abstract', 'resource_url'];

const post = async (url, body) => {
  const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body });
  return [response.status, await response.json()];
};

async function throughTheGateway(report, weir) {
  // The chart server is told where it may fetch from, so the port is known before weir starts.
  const port = await freePort();
  const at = `127.0.0.1:${port}`;
  const running = await startWeir(weir, 'weir-s2sp', {
    mcpServers: {
      python,
      weather: { command: '${weir:exe}', args: ['demo', 'weather'] },
      chart: { command: '${weir:exe}', args: ['demo', 'chart', '--allow', at] },
      inventory: { type: 'http', command: '${weir:exe}', args: ['demo', 'inventory', '--listen', '127.0.0.1:${weir:port}'], url: 'http://127.0.0.1:${weir:port}/mcp' },
    },
  }, ['--listen', at]);
  const client = await Client.connect('ts1', { transport: 'http', url: running.url });
  const check = (name, f) => report.check(name, f);
  const id = async (name) => {
    const [server] = name.split(':');
    const browse = async () => textOf(await client.call('tool_browse', { path: `/${server}` }));
    let text = await browse();
    // A Python server may need its time to come up.
    for (const end = Date.now() + 30_000; text.includes('"retryable":true') && Date.now() < end; text = await browse()) await sleep(200);
    return idsIn(text).find((id) => id.startsWith(`${name}#`) || id.startsWith(`${name}@`)) ?? (() => { throw new Wrong(`no tool ${name}: ${text}`); })();
  };
  const ids = {};
  for (const name of ['python:list_readings', 'python:list_samples', 'python:sum_rows', 'weather:get_alerts', 'chart:draw_chart', 'inventory:list_products']) ids[name] = await id(name);
  const execute = async (name, args, more = {}) => {
    const result = await client.call('tool_execute', { tool_id: ids[name], args, ...more });
    if (result.isError) throw new Wrong(`${name}: ${textOf(result)}`);
    return textOf(result);
  };
  const rows = (...rows) => JSON.stringify(rows);

  await check('Python resource: without abstract_domains the plain rows', async () => {
    const plain = JSON.parse(await execute('python:list_readings', { count: 2 }));
    expectEqual(plain.map((row) => Object.keys(row).join()), ['sensor,value,place,comment', 'sensor,value,place,comment'], 'columns');
  });
  for (const [source, args, columns, consumer, want] of [
    ['python:list_readings', { count: 3 }, 'sensor', 'python:sum_rows', /^2 rows, sum 20, columns _row_id,sensor,value,place,comment/],
    ['python:list_readings', { count: 3 }, 'sensor', 'chart:draw_chart', /^Drew .* for 2 rows/],
    // Its own data plane answers 500 for these rows, which have NaN and times, and has lost them then.
    ['python:list_samples', {}, 'sensor', 'python:sum_rows', /^2 rows, sum 21.0, columns _row_id,sensor,value,at/],
    ['weather:get_alerts', { rows: 3 }, 'event', 'python:sum_rows', /^2 rows, sum 0, columns _row_id,event,id,severity/],
    ['inventory:list_products', {}, 'sku', 'python:sum_rows', /^2 rows, sum 0, columns _row_id,sku,/],
    ['inventory:list_products', {}, 'sku', 'chart:draw_chart', /^Drew .* for 2 rows/],
  ]) {
    const some = (abstract) => JSON.stringify(abstract.filter((row) => row._row_id === 0 || row._row_id === 2));
    await check(`${source} to ${consumer}, async`, async () => {
      const answer = JSON.parse(await execute(source, args, { abstract_domains: columns, mode: 'async' }));
      expectEqual(Object.keys(answer).filter((key) => key !== 'warnings').sort(), asyncKeys.toSorted(), 'keys');
      expect(answer.resource_url.startsWith(`http://${at}/s2sp/data/`), 'not the gateway’s', answer.resource_url);
      const call = { abstract_data: some(answer.abstract), resource_url: answer.resource_url };
      const got = await execute(consumer, call);
      expect(want.test(got), 'wrong answer', got);
      expectEqual(await post(answer.resource_url, '{}'), [404, { error: 'Unknown or expired resource' }], 'a second fetch');
    });
    await check(`${source} to ${consumer}, sync`, async () => {
      const answer = JSON.parse(await execute(source, args, { abstract_domains: columns, mode: 'sync' }));
      expectEqual(Object.keys(answer).filter((key) => key !== 'warnings'), syncKeys, 'keys');
      expect(answer.resource_url.startsWith('ddi://'), 'no ddi:// handle', answer.resource_url);
      const got = await execute(consumer, { abstract_data: some(answer.abstract), resource_url: answer.resource_url });
      expect(want.test(got), 'wrong answer', got);
    });
  }
  await check('a held-back table to the Python consumer, by its handle', async () => {
    const text = await execute('python:list_readings', { count: 60 });
    const [handle] = /art_[a-z0-9]+/.exec(text) ?? [];
    expect(text.startsWith('table: 60 rows × 4 columns'), 'no table', text);
    const got = await execute('python:sum_rows', { abstract_data: { $table: handle, row_ids: [1, 5], columns: ['value'] }, column_mapping: '{"worth":"value"}' });
    expectEqual(got, '2 rows, sum 60, columns _row_id,value', 'answer');
  });
  await check('the Python data plane itself, at /mcps/python/mcp', async () => {
    const direct = await Client.connect('ts1', { transport: 'http', url: running.at('python') });
    const answer = JSON.parse(textOf(await direct.call('list_readings', { count: 3, abstract_domains: '["sensor"]' })));
    expectEqual(Object.keys(answer), asyncKeys, 'keys');
    expect(!answer.resource_url.startsWith(`http://${at}/`), 'rewritten', answer.resource_url);
    expectEqual(await direct.call('sum_rows', { abstract_data: rows({ _row_id: 1 }), resource_url: answer.resource_url }).then(textOf), '1 rows, sum 10, columns _row_id,sensor,value,place,comment', 'answer');
    await direct.close();
  });
  await client.close();
  await running.stop();
}

async function inspected(report, weir) {
  const inspector = module('@modelcontextprotocol', 'inspector', 'clients', 'launcher', 'build', 'index.js');
  const inspect = async (name, server, ...args) => {
    const { output } = await run(`inspector-${name}`, node22(), [inspector, '--cli', ...server, ...args]);
    return JSON.parse(output);
  };
  for (const [name, server, tool, args, want] of [
    ['weather', [weir, 'demo', 'weather'], 'get_alerts', ['rows=2', 'abstract_domains=event'], /"resource_url":"http:\/\/127\.0\.0\.1:/],
    ['chart', [weir, 'demo', 'chart'], 'draw_chart', [`abstract_data=${JSON.stringify('[{"_row_id":0,"label":"a","value":3}]')}`], /^Drew /],
    ['python', [python.command, ...python.args], 'list_readings', ['count=2', 'abstract_domains=sensor'], /"resource_url"/],
  ]) {
    await report.check(`the MCP inspector lists and calls ${name}`, async () => {
      const { tools } = await inspect(`${name}-list`, server, '--method', 'tools/list');
      expect(tools.some((t) => t.name === tool), `no ${tool}`, tools.map((t) => t.name));
      const result = await inspect(`${name}-call`, server, '--method', 'tools/call', '--tool-name', tool, ...args.flatMap((arg) => ['--tool-arg', arg]));
      expect(!result.isError && want.test(textOf(result)), 'wrong answer', textOf(result));
    });
  }
}

export async function tablesOfOthers({ weir }) {
  const report = new Report('S2SP with the public Python implementation and the MCP inspector');
  if (!weir) {
    await report.check('the Python pair, directly', async () => {
      const direct = await Client.connect('ts1', { transport: 'stdio', ...python });
      const answer = JSON.parse(textOf(await direct.call('list_readings', { count: 3, abstract_domains: 'sensor' })));
      expectEqual(Object.keys(answer), asyncKeys, 'keys');
      await direct.close();
    });
    return report.close();
  }
  await throughTheGateway(report, weir);
  await inspected(report, weir);
  return report.close();
}

if (process.argv[1] === join(here, 's2sp.mjs')) await main(async (options) => { await setup(); return tablesOfOthers(options); });
