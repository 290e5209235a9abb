// What three real servers cost a model in tokens: their own definitions, proxy mode and gateway mode, and a task of two tools
// in each (bench/context). It needs Go, as the counting does.
//
//   node interop/context.mjs
import { join } from 'node:path';
import { rmSync } from 'node:fs';
import { fixtures } from './fixtures.mjs';
import { everythingStdio, expect, filesStdio, here, main, memoryStdio, Report, run, scratch, writeConfig } from './harness.mjs';
import { setup } from './setup.mjs';

export async function contextCost() {
  const report = new Report('context cost');
  const files = fixtures();
  const memory = join(scratch, 'context-memory.json');
  rmSync(memory, { force: true });
  const file = writeConfig('context', {
    mcpServers: { everything: everythingStdio(), files: filesStdio(files.root), memory: memoryStdio(memory) },
    task: [
      {
        query: 'read a text file', server: 'files', tool: 'read_text_file', args: { path: files.alerts.file },
        view: { type: 'json_path', path: '$.alerts[0:20]' },
      },
      {
        query: 'create entities in the knowledge graph', server: 'memory', tool: 'create_entities',
        args: { entities: [{ name: 'county 3', entityType: 'place', observations: ['has a severe alert'] }] },
      },
    ],
  });
  await report.check('a quarter of the definitions and three fifths of the task at most', async () => {
    const { output } = await run('context', 'go', ['run', './bench/context', '-servers', file], { cwd: join(here, '..') });
    console.log(output.trimEnd());
    const row = /gateway mode +(\d+) \(([\d.]+) %\) +(\d+) \(([\d.]+) %\) +(\d+) \(([\d.]+) %\)/.exec(output);
    expect(row, 'there is no row of gateway mode', output);
    expect(Number(row[4]) < 25, `they cost ${row[4]} %`);
    expect(Number(row[6]) < 60, `the task costs ${row[6]} %`);
  });
  return report.close();
}

if (process.argv[1] === join(here, 'context.mjs')) await main(async () => { await setup(); return contextCost(); });
