// Puts an MCP server that speaks stdio only behind HTTP, with the transports of the official TypeScript SDK:
//
//   node bridge.mjs http|sse PORT COMMAND ARG…      http: /mcp      sse: /sse and /message
//
// Each session gets a server process of its own; messages pass unchanged.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { SSEServerTransport } from '@modelcontextprotocol/sdk/server/sse.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';

const [kind, port, command, ...args] = process.argv.slice(2);
const sessions = new Map();

// join pipes messages between a session and its server process until one of them ends.
async function join(front) {
  const back = new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' });
  front.onmessage = (message) => back.send(message).catch(() => front.close());
  back.onmessage = (message) => front.send(message).catch(console.error);
  front.onclose = () => { sessions.delete(front.sessionId); back.close().catch(console.error); };
  back.onclose = () => front.close().catch(console.error);
  await back.start();
}

async function streamableHTTP(request, response) {
  const session = request.headers['mcp-session-id'];
  if (session) {
    const front = sessions.get(session);
    if (!front) return response.writeHead(404).end();
    return front.handleRequest(request, response);
  }
  const front = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (id) => sessions.set(id, front),
  });
  await join(front);
  await front.start();
  return front.handleRequest(request, response);
}

async function httpSSE(request, response) {
  const url = new URL(request.url, 'http://localhost');
  if (url.pathname === '/sse' && request.method === 'GET') {
    const front = new SSEServerTransport('/message', response);
    sessions.set(front.sessionId, front);
    await join(front);
    return front.start();
  }
  const front = sessions.get(url.searchParams.get('sessionId'));
  if (url.pathname !== '/message' || !front) return response.writeHead(404).end();
  return front.handlePostMessage(request, response);
}

const paths = { http: ['/mcp', streamableHTTP], sse: ['/', httpSSE] };
const [path, handle] = paths[kind];
createServer((request, response) => {
  if (!request.url.startsWith(path)) return response.writeHead(404).end();
  return handle(request, response).catch((error) => {
    console.error(error);
    if (!response.headersSent) response.writeHead(500);
    response.end();
  });
}).listen(Number(port), '127.0.0.1');
