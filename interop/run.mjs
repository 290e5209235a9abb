// Runs every driver: node interop/run.mjs --weir bin/weir. Without --weir the drivers check themselves, directly.
import { inBrowser } from './browser.mjs';
import { conformance } from './conformance.mjs';
import { conformanceAsClient } from './conformance-client.mjs';
import { officialClients } from './clients.mjs';
import { controls } from './clients-controls.mjs';
import { contextCost } from './context.mjs';
import { main, stopAll } from './harness.mjs';
import { upstreams } from './matrix.mjs';
import { setup } from './setup.mjs';
import { tablesOfOthers } from './s2sp.mjs';
import { offices } from './smcp.mjs';
import { socketIO } from './socketio.mjs';

await main(async (options) => {
  await setup();
  let code = 0;
  for (const driver of [conformance, conformanceAsClient, officialClients, controls, upstreams, contextCost, socketIO, offices, tablesOfOthers, inBrowser]) {
    try {
      code = (await driver(options)) || code;
    } catch (error) {
      console.log(`FAILED  ${error.stack}`);
      code = 1;
    }
    await stopAll(); // A driver that gave up leaves nothing to the next.
  }
  return code;
});
