// What servers of 2026-07-28 for the official suite share: they answer with JSON, and keep no sessions.
import { createServer } from 'node:http';

export const meta = (name) => `io.modelcontextprotocol/${name}`;

// Refused is an error of JSON-RPC.
export class Refused extends Error {
  constructor(code, message, data) {
    super(message);
    Object.assign(this, { code, data });
  }
}

const statuses = { '-32020': 400, '-32021': 400, '-32601': 404 };

// serve answers requests at a port by methods, which get the params and the outcome of checked.
export function serve(port, methods, checked = () => undefined) {
  createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    let message;
    try {
      message = JSON.parse(Buffer.concat(parts));
    } catch {
      return response.writeHead(request.method === 'POST' ? 400 : 405).end();
    }
    if (message.id === undefined) return response.writeHead(202).end();
    const answer = { jsonrpc: '2.0', id: message.id };
    try {
      const { method, params = {} } = message;
      if (!Object.hasOwn(methods, method)) throw new Refused(-32601, `no method ${method}`);
      answer.result = await methods[method](params, checked(request.headers, message));
    } catch ({ code = -32603, message: said, data }) {
      answer.error = { code, message: said, data };
    }
    return response.writeHead(statuses[answer.error?.code] ?? 200, { 'content-type': 'application/json' }).end(JSON.stringify(answer));
  }).listen(Number(port), '127.0.0.1');
}
