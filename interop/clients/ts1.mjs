// The TypeScript SDK 1.x client behind the line protocol of lines.mjs.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema, LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { Provider, withSignIn } from './oauth.mjs';
import { answers, capabilities, identity, serve, target } from './lines.mjs';

const authProvider = target.oauth && new Provider(target.oauth.client);

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target.url), { authProvider }),
  sse: () => new SSEClientTransport(new URL(target.url)),
  stdio: () => new StdioClientTransport({ command: target.command, args: target.args, env: process.env, stderr: 'inherit' }),
};

await serve(async (events) => {
  const client = new Client(identity('ts1'), { capabilities });
  client.setRequestHandler(CreateMessageRequestSchema, () => answers.sampling);
  client.setRequestHandler(ElicitRequestSchema, () => answers.elicitation);
  client.setRequestHandler(ListRootsRequestSchema, () => answers.roots);
  client.setNotificationHandler(LoggingMessageNotificationSchema, (n) => { events.log(n.params); });
  let transport;
  const connect = () => { transport = transports[target.transport](); return client.connect(transport); };
  const signedIn = (what) => (authProvider ? withSignIn(authProvider, (back) => transport.finishAuth(back.get('code')), what) : what());
  await signedIn(connect);
  return {
    session: {
      server: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions(),
      protocolVersion: transport.protocolVersion,
    },
    call: (params, options) => signedIn(() => client.callTool(params, undefined, options)),
    client,
  };
});
