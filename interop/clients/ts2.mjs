// The TypeScript SDK 2.x client behind the line protocol of lines.mjs.
import { Client, SSEClientTransport, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { Provider, withSignIn } from './oauth.mjs';
import { answers, capabilities, identity, serve, target } from './lines.mjs';

const authProvider = target.oauth && new Provider(target.oauth.client);

const transports = {
  http: () => new StreamableHTTPClientTransport(new URL(target.url), { authProvider }),
  sse: () => new SSEClientTransport(new URL(target.url)),
  stdio: () => new StdioClientTransport({ command: target.command, args: target.args, env: process.env, stderr: 'inherit' }),
};

await serve(async (events) => {
  const client = new Client(identity('ts2'), { capabilities, versionNegotiation: { mode: target.mode ?? 'legacy' } });
  client.setRequestHandler('sampling/createMessage', () => answers.sampling);
  client.setRequestHandler('elicitation/create', () => answers.elicitation);
  client.setRequestHandler('roots/list', () => answers.roots);
  client.setNotificationHandler('notifications/message', (n) => { events.log(n.params); });
  let transport;
  const connect = () => { transport = transports[target.transport](); return client.connect(transport); };
  const signedIn = (what) => (authProvider ? withSignIn(authProvider, (back) => transport.finishAuth(back), what) : what());
  await signedIn(connect);
  return {
    session: {
      server: client.getServerVersion(), capabilities: client.getServerCapabilities(), instructions: client.getInstructions(),
      protocolVersion: client.getNegotiatedProtocolVersion(),
    },
    call: (params, options) => signedIn(() => client.callTool(params, options)),
    client,
  };
});
