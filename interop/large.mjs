// An MCP server over HTTP whose tool answers a quarter of a gigabyte: the upstream of memory.mjs. It needs nothing installed, holds
// nothing of what it sends, and prints its port.
import { createServer } from 'node:http';
import { once } from 'node:events';

const size = 250 << 20;
const lines = Buffer.from('a line of a log without end, as JSON writes it: with an escape\\n'.repeat(1024));

const tools = [
  { name: 'log', description: 'Answer a long log.', inputSchema: { type: 'object', properties: { day: { type: 'integer' } } } },
  { name: 'echo', description: 'Say a text again.', inputSchema: { type: 'object', properties: { text: { type: 'string' } } } },
];

async function log(response, id, day) {
  response.write(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":{"content":[{"type":"text","text":"day ${day}\\n`);
  for (let sent = 0; sent < size && !response.destroyed; sent += lines.length) {
    if (!response.write(lines)) await Promise.race([once(response, 'drain'), once(response, 'close')]).catch(() => {});
  }
  response.end('"}]}}');
}

createServer(async (request, response) => {
  response.setMaxListeners(0);
  if (request.method !== 'POST') return response.writeHead(405).end();
  let body = '';
  for await (const piece of request) body += piece;
  const { id, method, params } = JSON.parse(body);
  if (id === undefined) return response.writeHead(202).end();
  response.setHeader('Content-Type', 'application/json');
  const results = {
    initialize: () => ({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'large', version: '1' } }),
    'tools/list': () => ({ tools }),
    'tools/call': () => ({ content: [{ type: 'text', text: params.arguments.text }] }),
  };
  if (method === 'tools/call' && params.name === 'log') return log(response, id, params.arguments.day);
  response.end(JSON.stringify({ jsonrpc: '2.0', id, result: results[method]?.() ?? {} }));
}).listen(0, '127.0.0.1', function () { console.log(this.address().port); });
