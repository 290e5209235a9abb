// Tables in Arrow form, as weir's own writer makes them: pyarrow, polars and duckdb read them with the types and values that they had.
//
//   node interop/tables.mjs --weir bin/weir
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, expectEqual, here, main, Report, run, scratch, startWeir, textOf, work, Wrong } from './harness.mjs';
import { count, row } from './readings.mjs';
import { setup } from './setup.mjs';

const python = join(work, 'pythontables', 'bin', 'python');

// types are the columns' types in the words of each library.
const types = {
  pyarrow: { _row_id: 'int64', n: 'int64', half: 'double', even: 'bool', name: 'string', large: 'int64', huge: 'string', tags: 'string', none: 'null' },
  polars: { _row_id: 'Int64', n: 'Int64', half: 'Float64', even: 'Boolean', name: 'String', large: 'Int64', huge: 'String', tags: 'String', none: 'Null' },
  duckdb: { _row_id: 'BIGINT', n: 'BIGINT', half: 'DOUBLE', even: 'BOOLEAN', name: 'VARCHAR', large: 'BIGINT', huge: 'VARCHAR', tags: 'VARCHAR', none: '"NULL"' },
};

// expected is a row as a reader prints it: numbers as texts, whatever no type of Arrow holds as it stands in JSON.
const expected = (i) => {
  const value = JSON.parse(row(i));
  return {
    _row_id: `${i}`, n: `${i}`, half: `${value.half}`, even: value.even, name: value.name,
    large: `${9007199254740993n + BigInt(i)}`, huge: '18446744073709551616', tags: value.tags && JSON.stringify(value.tags), none: null,
  };
};

export async function arrowReaders({ weir }) {
  const report = new Report('Arrow streams for pyarrow, polars and duckdb');
  if (!weir) return report.close();
  const running = await startWeir(weir, 'weir-tables', { mcpServers: { readings: { command: process.execPath, args: [join(here, 'readings.mjs')] } } });
  const client = await Client.connect('ts1', { transport: 'http', url: running.url });
  const [id] = /readings:list_readings\S*/.exec(textOf(await client.call('tool_browse', { path: '/readings' }))) ?? [];

  // fetched saves the rows of one call, in Arrow form.
  const fetched = async (rows) => {
    const text = textOf(await client.call('tool_execute', { tool_id: id, args: { rows }, abstract_domains: 'n', mode: 'async' }));
    const [url] = /http:\/\/[^"\s]*\/s2sp\/data\/[^"\s]*/.exec(text) ?? [];
    if (!url) throw new Wrong(`no resource_url: ${text.slice(0, 300)}`);
    const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/vnd.apache.arrow.stream' }, body: '{}' });
    expectEqual([response.status, response.headers.get('Content-Type')], [200, 'application/vnd.apache.arrow.stream'], 'answer');
    const file = join(scratch, `rows-${rows}.arrow`);
    writeFileSync(file, Buffer.from(await response.arrayBuffer()));
    return file;
  };
  const file = await fetched(count);
  for (const library of Object.keys(types)) {
    await report.check(`${library} reads ${count} rows, to the last digit`, async () => {
      const { output } = await run(`arrow-${library}`, python, [join(here, 's2sp', 'readers.py'), library, file]);
      const got = JSON.parse(output);
      expectEqual(got.types, types[library], 'types');
      expectEqual(got.rows.length, count, 'rows');
      got.rows.forEach((row, i) => expectEqual(row, expected(i), `row ${i}`));
      if (library === 'pyarrow') {
        expectEqual(got.marked, ['huge', 'tags'], 'columns of JSON');
        expectEqual(got.batches, Math.ceil(count / 8192), 'record batches');
      }
    });
  }
  await client.close();
  await running.stop();
  return report.close();
}

if (process.argv[1] === join(here, 'tables.mjs')) await main(async (options) => { await setup(); return arrowReaders(options); });
