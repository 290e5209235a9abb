// weir as the client of a protected server that the conformance suite examines: node weir-auth.mjs WEIR SERVER_URL
//
//   suite's server ◀── weir serve ◀── requests of this program
//   suite's issuer ◀── weir login ──address──▶ this program, in the place of a person at a browser
//
// The suite's issuer asks nobody and sends the browser back at once. What a person does here is: sign in, call, and sign in
// again when a call says so.
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { basename, join, relative } from 'node:path';
import { aloneIn, signIn } from './sign-in.mjs';
import { main, scratch, startWeir, writeConfig } from '../harness.mjs';

const [weir, server] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO;
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT || '{}');

// A person gives up after so many sign-ins; the suite allows three for one call.
const patience = 5;

// What the suite hands to a client stands in the configuration, with the issuer that the client is known at: an operator
// reads it where the server says it.
const workload = scenario === 'auth/wif-jwt-bearer';
const managed = scenario === 'auth/enterprise-managed-authorization';
const machine = workload || managed || scenario.startsWith('auth/client-credentials');
const flow = workload ? 'jwt_bearer' : managed ? 'id_jag' : 'client_credentials';
const at = new URL(server);
const metadata = context.client_id && await (await fetch(`${at.origin}/.well-known/oauth-protected-resource${at.pathname}`)).json();
const oauth = context.client_id && {
  client_id: context.client_id, client_secret: context.client_secret, private_key: context.private_key_pem,
  issuer: metadata.authorization_servers[0], ...(machine && { flow }),
  ...(managed && { idp: { issuer: context.idp_issuer, client_id: context.idp_client_id } }),
};

await main(async () => {
  mkdirSync(join(scratch, 'signed-in'), { recursive: true });
  const home = mkdtempSync(join(scratch, 'signed-in', `${scenario.replaceAll('/', '-')}-`));
  const name = relative(scratch, home);
  const config = { mcpServers: { conf: { type: 'http', url: server, oauth } } };
  const given = workload ? context.valid_jwt : context.idp_id_token;
  if (given) writeFileSync(oauth.assertion_file = join(home, 'given.jwt'), given);
  if (scenario === 'auth/basic-cimd') config.public_url = 'https://conformance-test.local';
  const file = writeConfig(join(name, 'weir'), config);
  const person = () => signIn(weir, basename(home), 'conf', ['--config', file], aloneIn(home));

  let signIns = 0;
  if (!machine) await person();
  const gateway = await startWeir(weir, `weir-${basename(home)}`, file, [], aloneIn(home));
  let nextID = 1;

  // ask makes one request to the server through weir, and signs in when the answer says that it needs that.
  async function ask(method, params = {}) {
    for (;;) {
      const response = await fetch(gateway.at('conf'), {
        method: 'POST', headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream' },
        body: JSON.stringify({ jsonrpc: '2.0', id: nextID++, method, params }),
      });
      const text = await response.text();
      console.error(method, response.status, text.slice(0, 1000));
      const answer = JSON.parse(response.headers.get('Content-Type')?.startsWith('text/event-stream') ? text.split('\n').filter((line) => line.startsWith('data: {')).at(-1).slice(6) : text);
      if (!answer.error) return answer.result;
      if (!/run `weir login conf`/.test(answer.error.message) || ++signIns > patience) throw new Error(`${method}: ${answer.error.message}`);
      await person();
    }
  }
  await ask('tools/list');
  await ask('tools/call', { name: 'test-tool', arguments: {} });
  await gateway.stop();
  return 0;
});
