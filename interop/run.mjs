// Runs every driver: node interop/run.mjs --weir bin/weir. Without --weir the drivers check themselves, directly.
import { main, stopAll } from './harness.mjs';
import { setup } from './setup.mjs';

// Where each driver is. They are loaded after the installation, because some import what it installs.
const drivers = [
  ['./conformance.mjs', 'conformance'],
  ['./conformance-client.mjs', 'conformanceAsClient'],
  ['./identity.mjs', 'identity'],
  ['./clients.mjs', 'officialClients'],
  ['./clients-controls.mjs', 'controls'],
  ['./hosts.mjs', 'hostsCheck'],
  ['./matrix.mjs', 'upstreams'],
  ['./context.mjs', 'contextCost'],
  ['./http2.mjs', 'overHTTP2'],
  ['./socketio.mjs', 'socketIO'],
  ['./smcp.mjs', 'offices'],
  ['./s2sp.mjs', 'tablesOfOthers'],
  ['./tables.mjs', 'arrowReaders'],
  ['./traces.mjs', 'spansOfOthers'],
  ['./packages.mjs', 'installed'],
  ['./work.mjs', 'oneAgentsWork'],
  ['./memory.mjs', 'bytesOfOthers'],
  ['./restart.mjs', 'restarts'],
  ['./browser.mjs', 'inBrowser'],
  ['./console.mjs', 'consolePage'],
  ['./connect.mjs', 'connectPages'],
];

await main(async (options) => {
  await setup();
  let code = 0;
  for (const [file, name] of drivers) {
    try {
      code = (await (await import(file))[name](options)) || code;
    } catch (error) {
      console.log(`FAILED  ${error.stack}`);
      code = 1;
    }
    await stopAll(); // A driver that gave up leaves nothing to the next.
  }
  return code;
});
