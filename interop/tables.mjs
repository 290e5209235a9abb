// Tables in Arrow and Parquet: pyarrow, polars and duckdb read what weir writes, with the types and values that the rows had, and weir
// reads what pyarrow and polars write.
//
//   node interop/tables.mjs --weir bin/weir
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Client, expectEqual, here, main, Report, run, scratch, startWeir, textOf, work, Wrong } from './harness.mjs';
import { count, row } from './readings.mjs';
import { setup } from './setup.mjs';

const python = join(work, 'pythontables', 'bin', 'python');

// types are the columns' types in the words of each library.
const types = {
  pyarrow: { _row_id: 'int64', n: 'int64', half: 'double', even: 'bool', name: 'string', large: 'int64', huge: 'decimal128(20, 0)', tags: 'string', none: 'null', day: 'date32[day]', at: 'timestamp[ms]', list: 'list<item: int64>' },
  polars: { _row_id: 'Int64', n: 'Int64', half: 'Float64', even: 'Boolean', name: 'String', large: 'Int64', huge: 'Decimal(precision=20, scale=0)', tags: 'String', none: 'Null', day: 'Date', at: "Datetime(time_unit='ms', time_zone=None)", list: 'List(Int64)' },
  duckdb: { _row_id: 'BIGINT', n: 'BIGINT', half: 'DOUBLE', even: 'BOOLEAN', name: 'VARCHAR', large: 'BIGINT', huge: 'DECIMAL(20,0)', tags: 'VARCHAR', none: '"NULL"', day: 'DATE', at: 'TIMESTAMP_MS', list: 'BIGINT[]' },
};

// inParquet are the types that differ in Parquet, which has JSON and no type of nulls.
const inParquet = {
  pyarrow: { tags: 'extension<arrow.json>', none: 'string', list: 'list<element: int64>' },
  polars: { tags: 'Binary', none: 'String' },
  duckdb: { tags: 'JSON', none: 'VARCHAR', at: 'TIMESTAMP' },
};

// expected is a row as a reader prints it: numbers as texts, whatever no type of Arrow holds as it stands in JSON.
const expected = (i) => {
  const value = JSON.parse(row(i));
  return {
    _row_id: `${i}`, n: `${i}`, half: `${value.half}`, even: value.even, name: value.name,
    large: `${9007199254740993n + BigInt(i)}`, huge: '18446744073709551616', tags: value.tags && JSON.stringify(value.tags), none: null,
    day: value.day, at: `${value.at.slice(0, 19)}${value.at.endsWith('.000') ? '' : `${value.at.slice(19)}000`}`, list: value.list,
  };
};

export async function arrowReaders({ weir }) {
  const report = new Report('Arrow and Parquet of weir, pyarrow, polars and duckdb');
  if (!weir) return report.close();
  const running = await startWeir(weir, 'weir-tables', { mcpServers: { readings: { command: process.execPath, args: [join(here, 'readings.mjs')] } } });
  const client = await Client.connect('ts1', { transport: 'http', url: running.url });
  const cards = textOf(await client.call('tool_browse', { path: '/readings' }));
  const [id] = /readings:list_readings\S*/.exec(cards) ?? [];
  const [read] = /readings:read_file\S*/.exec(cards) ?? [];

  // fetched saves the rows of one call, in a form.
  const fetched = async (rows, form, type) => {
    const text = textOf(await client.call('tool_execute', { tool_id: id, args: { rows }, abstract_domains: 'n', mode: 'async' }));
    const [url] = /http:\/\/[^"\s]*\/s2sp\/data\/[^"\s]*/.exec(text) ?? [];
    if (!url) throw new Wrong(`no resource_url: ${text.slice(0, 300)}`);
    const response = await fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json', Accept: type }, body: '{}' });
    expectEqual([response.status, response.headers.get('Content-Type')], [200, type], 'answer');
    const file = join(scratch, `rows-${rows}.${form}`);
    writeFileSync(file, Buffer.from(await response.arrayBuffer()));
    return file;
  };
  for (const [form, type] of [['arrow', 'application/vnd.apache.arrow.stream'], ['parquet', 'application/vnd.apache.parquet']]) {
    const file = await fetched(count, form, type);
    for (const library of Object.keys(types)) {
      await report.check(`${library} reads ${count} rows of ${form}, to the last digit`, async () => {
        const { output } = await run(`${form}-${library}`, python, [join(here, 's2sp', 'readers.py'), library, file]);
        const got = JSON.parse(output);
        expectEqual(got.types, form === 'arrow' ? types[library] : { ...types[library], ...inParquet[library] }, 'types');
        expectEqual(got.rows.length, count, 'rows');
        got.rows.forEach((row, i) => expectEqual(row, expected(i), `row ${i}`));
        if (library === 'pyarrow' && form === 'arrow') {
          expectEqual(got.marked, ['tags'], 'columns of JSON');
          expectEqual(got.batches, Math.ceil(count / 8192), 'record batches');
        }
      });
    }
  }
  const folder = join(scratch, 'written');
  mkdirSync(folder, { recursive: true });
  await run('tables-write', python, [join(here, 's2sp', 'readers.py'), 'write', folder]);
  for (const name of readdirSync(folder).sort()) {
    await report.check(`weir reads ${name}`, async () => {
      const text = textOf(await client.call('tool_execute', { tool_id: read, args: { path: join(folder, name) }, abstract_domains: 'n,text,day,at,price,list,word,inner,bytes', mode: 'sync' }));
      const [abstract] = /"abstract":\[.*\]/s.exec(text) ?? [text];
      expectEqual(abstract, '"abstract":[{"_row_id":0,"n":1,"text":"ü,\\n","day":"2026-01-31","at":"2026-01-31T10:20:30.123456Z","price":12345678901234567890.50,' +
        '"list":[1,null],"word":"a","inner":{"a":1,"b":null},"bytes":"AA=="},{"_row_id":1,"n":null,"text":null,"day":null,"at":null,"price":null,' +
        '"list":[],"word":"a","inner":null,"bytes":null}]', 'rows');
    });
  }
  await client.close();
  await running.stop();
  return report.close();
}

if (process.argv[1] === join(here, 'tables.mjs')) await main(async (options) => { await setup(); return arrowReaders(options); });
