// Runs every driver: node interop/run.mjs --weir bin/weir. Without --weir the drivers check themselves, directly.
// Two run at a time, each in a process of its own, and print when they have ended. Names run those alone:
//
//   node interop/run.mjs --weir bin/weir console connect
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { here, main, run, scratch, tail, Wrong } from './harness.mjs';
import { few, install } from './hosts.mjs';
import { pythonServers, setup } from './setup.mjs';

// The drivers, those first that take longest, so that two lanes end at about the same time.
const together = [
  'conformance-client', 'conformance', 'clients', 'programs', 'matrix', 'cluster', 'packages', 'hosts', 'console-nodes', 'clients-controls', 'identity', 'signin-server', 'signin-clients', 'smcp', 'socketio',
  'console', 'console-pages', 'browser', 'connect', 'http2', 'context', 's2sp', 'tables', 'sandbox', 'traces', 'restart',
];

// What these measure is the machine's time or memory: each has it for itself.
const alone = ['work', 'memory'];

// How many drivers may fail and run once more. What passes then is named at the end: it wants mending.
let again = 2;
const unsteady = [];

// drive runs a driver, and returns whether it passed.
async function drive(name, weir) {
  const { code, output } = await run(name, process.execPath, [join(here, `${name}.mjs`), ...(weir ? ['--weir', weir] : []), ...(name === 'hosts' ? few : [])], { limit: 900_000, mayFail: true });
  process.stdout.write(output);
  if (code !== 0) console.log(`FAILED  ${name}.mjs ends with ${code}\n${tail(readFileSync(join(scratch, 'logs', `${name}.log`), 'utf8'))}`);
  return code === 0;
}

// lane runs drivers one after the other, and returns how many failed.
async function lane(names, weir) {
  let failed = 0;
  for (let name; (name = names.shift()) !== undefined;) {
    const began = performance.now();
    let passed = await drive(name, weir);
    if (!passed && again-- > 0) {
      console.log(`# ${name}.mjs runs once more`);
      passed = await drive(name, weir);
      if (passed) unsteady.push(name);
    }
    if (!passed) failed++;
    console.log(`# ${name}.mjs: ${Math.round((performance.now() - began) / 1000)} s\n`);
  }
  return failed;
}

await main(async ({ weir }, names) => {
  const unknown = names.filter((name) => !together.includes(name) && !alone.includes(name));
  if (unknown.length > 0) throw new Wrong(`no driver is called ${unknown.join(', ')}: there are ${[...together, ...alone].sort().join(', ')}`);
  const wanted = (list) => list.filter((name) => (names.length === 0 || names.includes(name)) && (weir || !['hosts', 'programs', 'sandbox'].includes(name)));
  await setup();
  // Two drivers need this client: it is installed before they do it at once.
  if (weir) await Promise.all([pythonServers(), install('claude-code')]);
  // The browser is installed once, before several drivers want it. A driver without one says why.
  await (await import('./chromium.mjs')).chromium().catch((error) => console.log(error.message));
  const queue = wanted(together);
  const failed = (await Promise.all([lane(queue, weir), lane(queue, weir)])).reduce((a, b) => a + b) + await lane(wanted(alone), weir);
  if (unsteady.length > 0) console.log(`UNSTEADY  passed at the second try alone: ${unsteady.join(', ')}`);
  return failed === 0 ? 0 : 1;
});
