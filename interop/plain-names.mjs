// A proxy that takes the name of the server off the names of tools, as plain mode lists them: a suite that knows its server's
// tools finds them at /mcp. The tool of the gateway itself, tool_view, keeps its name.
import { createServer, request } from 'node:http';
import { once } from 'node:events';

// plainNames returns a URL at which the tools of one server of a gateway have the names that the server gave them.
export async function plainNames(gateway, server) {
  const prefix = `${server}__`;
  const listening = createServer(async (from, to) => {
    const parts = [];
    for await (const part of from) parts.push(part);
    let body = Buffer.concat(parts);
    const headers = { ...from.headers };
    const message = parsed(body);
    if (message?.method === 'tools/call' && typeof message.params?.name === 'string' && message.params.name !== 'tool_view') {
      message.params.name = prefix + message.params.name;
      body = Buffer.from(JSON.stringify(message));
      if (headers['mcp-name'] !== undefined) headers['mcp-name'] = prefix + headers['mcp-name'];
    }
    if (body.length > 0) headers['content-length'] = String(body.length);
    delete headers['transfer-encoding'];
    const onward = request(gateway, { method: from.method, headers, agent: false }, async (answer) => {
      if (message?.method !== 'tools/list') {
        to.writeHead(answer.statusCode, answer.headers);
        to.flushHeaders();
        answer.pipe(to);
        return;
      }
      const received = [];
      for await (const part of answer) received.push(part);
      const renamed = Buffer.concat(received).toString().replaceAll(`{"name":"${prefix}`, '{"name":"');
      to.writeHead(answer.statusCode, { ...answer.headers, 'content-length': Buffer.byteLength(renamed) }).end(renamed);
    });
    onward.on('error', () => to.destroy());
    to.on('close', () => onward.destroy());
    onward.end(body);
  }).listen(0, '127.0.0.1');
  await once(listening, 'listening');
  return { url: `http://127.0.0.1:${listening.address().port}`, stop: () => { listening.closeAllConnections(); listening.close(); } };
}

const parsed = (body) => {
  try {
    return JSON.parse(body);
  } catch {
    return undefined;
  }
};
