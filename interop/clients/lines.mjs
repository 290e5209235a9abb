// The line protocol by which the drivers use a foreign MCP client, whatever its language: one JSON object a line.
//
//   argv[2]   {"transport":"http|sse|stdio", "url" | "command","args", "mode"}    where to connect, and in which era
//   stdout    {"ready":{server,capabilities,instructions,protocolVersion}}        once connected
//   stdin     {"id":1,"op":"callTool","params":{…}}                               one request at a time
//   stdout    {"id":1,"result":{…},"progress":[…],"logs":[…]}                     or {"id":1,"error":{"code":-32602,"message":"…"}}
//   stdin     end of input: the client closes its connection and exits
//
// The client answers whatever the server asks back with fixed answers, so that runs can be compared.
import { createInterface } from 'node:readline';

export const target = JSON.parse(process.argv[2]);
export const identity = (name) => ({ name: `weir-interop-${name}`, version: '1.0.0' });
// What weir declares to upstreams, too: some servers list more tools to clients that can do more.
export const capabilities = { sampling: {}, elicitation: { form: {}, url: {} }, roots: { listChanged: true } };
export const answers = {
  sampling: { model: 'interop-model', role: 'assistant', content: { type: 'text', text: 'an answer sampled by the client' } },
  elicitation: { action: 'accept', content: { name: 'Ada', check: true, integer: 42, number: 3.5 } },
  roots: { roots: [{ uri: 'file:///interop', name: 'interop' }] },
};

const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');

// serve connects and answers requests until its input ends.
export async function serve(connect) {
  let logs = [];
  const { session, call, client } = await connect({ log: (params) => logs.push(params) }).catch((error) => {
    console.error(`cannot connect: ${error.message}${error.cause ? `: ${error.cause.message}` : ''}`);
    process.exit(1);
  });
  const operations = {
    listTools: () => client.listTools(),
    listResources: () => client.listResources(),
    listResourceTemplates: () => client.listResourceTemplates(),
    listPrompts: () => client.listPrompts(),
    readResource: (params) => client.readResource(params),
    getPrompt: (params) => client.getPrompt(params),
    complete: (params) => client.complete(params),
    callTool: (params, progress) => call(params, { onprogress: (p) => progress.push(p), timeout: 30_000 }),
  };
  say({ ready: session });
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, op, params } = JSON.parse(line);
    const progress = [];
    logs = [];
    try {
      const result = await operations[op](params, progress);
      say({ id, result, progress, logs });
    } catch (error) {
      say({ id, error: { code: error.code ?? null, message: String(error.message ?? error) } });
    }
  }
  await client.close();
}
