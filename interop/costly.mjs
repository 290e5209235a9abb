// An MCP server over stdio whose tools ask for as much computing as they can get: the upstream of work.mjs. It needs nothing installed.
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

// worst keeps hundreds of threads of a linear-time engine alive at every character.
export const worst = '(?:a?){300}b';

const object = (properties) => ({ type: 'object', properties });
const tools = [
  { name: 'echo', description: 'Say a text again.', inputSchema: object({ text: { type: 'string' } }) },
  { name: 'match', description: 'Take a text of a costly form.', inputSchema: object({ text: { type: 'string', pattern: worst } }) },
  { name: 'nested', description: 'Take lists in lists.', inputSchema: object({ list: { contains: { contains: { contains: { type: 'string' } } } } }) },
  { name: 'line', description: 'Answer one long line.', inputSchema: object({}) },
  { name: 'rows', description: 'Answer many rows.', inputSchema: object({}) },
];

const text = (value) => ({ content: [{ type: 'text', text: value }] });
const call = {
  echo: ({ text: said }) => text(said ?? ''),
  match: () => text('called'),
  nested: () => text('called'),
  line: () => text('a'.repeat(20 << 20)),
  rows: () => text(JSON.stringify(Array.from({ length: 20_000 }, () => ({ a: 'a'.repeat(200) })))),
};

const answer = ({ method, params }) => {
  switch (method) {
    case 'initialize':
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'costly', version: '1' } };
    case 'tools/list':
      return { tools };
    case 'tools/call':
      return call[params.name](params.arguments ?? {});
    default:
      return {};
  }
};

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  createInterface({ input: process.stdin }).on('line', (line) => {
    const message = JSON.parse(line);
    if (message.id === undefined || message.method === undefined) return;
    process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id: message.id, result: answer(message) })}\n`);
  });
}
