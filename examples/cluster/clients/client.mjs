// An MCP client of the TypeScript SDK that calls the counting tool until its input ends, and then until a call works.
// It writes a line of JSON for each call.
//
//   node client.mjs URL NAME
import { setTimeout as sleep } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

const [url, name] = process.argv.slice(2);
// A stream of a session breaks with its node. The SDK gives it up after two attempts to open it again.
const reconnectionOptions = { initialReconnectionDelay: 200, maxReconnectionDelay: 1000, reconnectionDelayGrowFactor: 1.5, maxRetries: 10_000 };
const transport = new StreamableHTTPClientTransport(new URL(url), { reconnectionOptions });
const client = new Client({ name, version: '1' });
client.onerror = () => {}; // a broken stream is opened again
await client.connect(transport);
const session = transport.sessionId;

let over = false;
process.stdin.on('end', () => { over = true; }).resume();
for (let number = 0, end = 0; ; number++) {
  const id = `${name}-${number}`, began = performance.now();
  const last = over;
  end ||= last && began + 60_000;
  let error = '';
  try {
    const result = await client.callTool({ name: 'count', arguments: { id } }, undefined, { timeout: 20_000 });
    if (!result.content.some(({ text }) => text === `counted ${id}`)) error = JSON.stringify(result);
    if (transport.sessionId !== session) error = 'it is another session';
  } catch (failed) {
    error = String(failed);
  }
  console.log(JSON.stringify({ ms: Math.round(performance.now() - began), error, last }));
  if (last && (error === '' || performance.now() > end)) process.exit(0);
  await sleep(50);
}
