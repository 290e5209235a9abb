// An MCP server over stdio that answers rows with the values that forms of tables tend to lose, and files: the upstream of tables.mjs.
// It needs nothing installed.
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { fileURLToPath, pathToFileURL } from 'node:url';

// count rows are more than one record batch has.
export const count = 20_000;

// row is one row, as JSON text: numbers stand there that JavaScript would round.
export const row = (i) => `{"n":${i},"half":${i / 2 + 0.25},"even":${i % 2 === 0 ? 'true' : 'false'},"name":${JSON.stringify(i % 5 === 0 ? null : `rivière "${i}"\n\u{1F30A}`)},` +
  `"large":${9007199254740993n + BigInt(i)},"huge":18446744073709551616,"tags":${i % 3 === 0 ? 'null' : `["a",${i}]`},"none":null,` +
  `"day":"2026-01-${i % 28 + 10 > 28 ? 28 : i % 28 + 10}","at":"2026-01-31T10:20:30.${String(i % 1000).padStart(3, '0')}","list":${i % 4 === 0 ? '[]' : `[${i},null]`}}`;

const tools = [{ name: 'read_file', description: 'Read a file.', inputSchema: { type: 'object', properties: { path: { type: 'string' } } } }, { name: 'list_readings', description: 'List all readings.', inputSchema: { type: 'object', properties: { rows: { type: 'integer' } } } }];

const answer = ({ method, params }) => {
  switch (method) {
    case 'initialize':
      return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'readings', version: '1' } };
    case 'tools/list':
      return { tools };
    case 'tools/call':
      if (params.name === 'read_file') {
        const { path } = params.arguments;
        return { content: [{ type: 'resource', resource: { uri: pathToFileURL(path).href, mimeType: 'application/octet-stream', blob: readFileSync(path, 'base64') } }] };
      }
      return { content: [{ type: 'text', text: `[${Array.from({ length: params.arguments?.rows ?? count }, (_, i) => row(i)).join()}]` }] };
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
