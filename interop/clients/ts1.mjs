// The TypeScript SDK 1.x client behind the line protocol of lines.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { answers, capabilities, identity, serve, target } from './lines.mjs';

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target.url)),
  sse: () => new SSEClientTransport(new URL(target.url)),
  stdio: () => new StdioClientTransport({ command: target.command, args: target.args, env: process.env, stderr: 'inherit' }),
};

await serve(async (events) => {
  const client = new Client(identity('ts1'), { capabilities });
  client.setRequestHandler(CreateMessageRequestSchema, () => answers.sampling);
  client.setRequestHandler(ElicitRequestSchema, () => answers.elicitation);
  client.setRequestHandler(ListRootsRequestSchema, () => answers.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => { events.log(n.params); });
  const transport = transports[target.transport]();
  await client.connect(transport);
  return {
    session: {
      server: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions(),
      protocolVersion: transport.protocolVersion,
    },
    call: (params, options) => client.callTool(params, undefined, options),
    client,
  };
});
