// weir as the client that the conformance suite examines: node weir.mjs WEIR SERVER_URL
//
//   suite's server ◀── weir's client ── weir serve ◀── requests of this program
//
// The requests are those that the suite's own example client makes. What reaches the server has to be weir's own connection, so
// they go to /mcps/conf/mcp without a session, from a client of the other era, or to the gateway.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { setTimeout as sleep } from 'node:timers/promises';
import { main, startWeir } from '../harness.mjs';

const [weir, server] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}');

let gateway;
let nextID = 1;

// ask makes one request to the server through weir.
async function ask(method, params = {}) {
  const response = await fetch(gateway.at('conf'), {
    method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
    body: JSON.stringify({ jsonrpc: '2.0', id: nextID++, method, params }),
  });
  const text = await response.text();
  const last = response.headers.get('Content-Type')?.startsWith('text/event-stream') ? text.split('\n').filter((line) => line.startsWith('data: {')).at(-1).slice(6) : text;
  const message = JSON.parse(last);
  if (message.error) throw new Error(`${method}: ${message.error.code} ${message.error.message}`);
  return message.result;
}

const tools = async () => (await ask('tools/list')).tools;
const call = (name, args = {}) => ask('tools/call', { name, arguments: args });
const attempt = async (promise) => { try { return await promise; } catch (error) { console.error(error.message); } };

// agent connects a client of the legacy era that answers questions with a form's content.
async function agent(url, content) {
  const client = new Client({ name: 'agent', version: '1' }, { capabilities: { elicitation: { form: { applyDefaults: true } } } });
  client.setRequestHandler(ElicitRequestSchema, () => ({ action: 'accept', content }));
  await client.connect(new StreamableHTTPClientTransport(new URL(url)));
  return client;
}

// execute has the gateway run the tools that it shows, or those of them with a name.
async function execute(args, content, only) {
  const client = await agent(gateway.url, content);
  const { content: [{ text }] } = await client.callTool({ name: 'tool_browse', arguments: { path: '/conf' } });
  const ids = text.match(/\bconf:[\w.-]+[@#][\w~]+/g).filter((id) => !only || id.startsWith(`conf:${only}`));
  if (ids.length === 0) throw new Error(`the gateway shows no such tool:\n${text}`);
  for (const id of new Set(ids)) console.error(id, JSON.stringify(await attempt(client.callTool({ name: 'tool_execute', arguments: { tool_id: id, args } }))));
  await client.close();
}

// rounds calls tools that ask, as a client of the era without rounds.
async function rounds(names, content) {
  const client = await agent(gateway.at('conf'), content);
  for (const name of names) console.error(name, JSON.stringify(await attempt(client.callTool({ name, arguments: {} }))));
  await client.close();
}

const scenarios = {
  'initialize': tools,
  'tools_call': async () => { await tools(); await call('add_numbers', { a: 5, b: 3 }); },
  'sse-retry': async () => { await tools(); await call('test_reconnection'); },
  'elicitation-sep1034-client-defaults': () => execute({}, {}, 'test_client_elicitation_defaults'),
  'request-metadata': () => attempt(tools()),
  'sep-2322-client-request-state': () => rounds(['test_mrtr_echo_state', 'test_mrtr_no_state', 'test_mrtr_unrelated', 'test_mrtr_no_result_type'], { confirmed: true }),
  'http-standard-headers': async () => {
    const list = async (method, key) => (await attempt(ask(method)))?.[key]?.[0];
    const tool = await list('tools/list', 'tools');
    if (tool) await attempt(call(tool.name));
    const resource = await list('resources/list', 'resources');
    if (resource) await attempt(ask('resources/read', { uri: resource.uri }));
    const prompt = await list('prompts/list', 'prompts');
    if (prompt) await attempt(ask('prompts/get', { name: prompt.name, arguments: {} }));
  },
  'http-custom-headers': async () => {
    await tools();
    for (const { name, arguments: args } of context.toolCalls ?? []) await attempt(call(name, args));
  },
  'http-invalid-tool-headers': () => execute({ region: 'us-west1' }),
  'json-schema-ref-no-deref': tools,
  'json-schema-2020-12-preservation': async () => {
    const tool = (await tools()).find(({ name }) => name === 'json_schema_2020_12_tool');
    await call('json_schema_echo', { schema: tool.inputSchema });
  },
};

await main(async () => {
  // This server asks on the stream that belongs to no call, so it needs a connection for each session.
  const per_session = scenario === 'elicitation-sep1034-client-defaults';
  gateway = await startWeir(weir, `weir-as-client-${scenario}`, { mcpServers: { conf: { type: 'http', url: server, per_session } } });
  for (let tries = 0; ; tries++) { // weir greets and lists the server by itself first
    const health = await (await fetch(`${gateway.base}/healthz`)).json();
    if (health.upstreams.conf.state !== 'starting' || tries > 100) break;
    await sleep(50);
  }
  await scenarios[scenario]();
  await gateway.stop();
  return 0;
});
