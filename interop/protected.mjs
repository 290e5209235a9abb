// A server of the TypeScript SDK behind that SDK's own check of bearer tokens: node protected.mjs PORT ISSUER
//
// Every request needs a token for this server with the scope mcp; the tool change needs the scope admin, too.
import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { requireBearerAuth } from '@modelcontextprotocol/sdk/server/auth/middleware/bearerAuth.js';
import { InvalidTokenError } from '@modelcontextprotocol/sdk/server/auth/errors.js';
import { mcpAuthMetadataRouter } from '@modelcontextprotocol/sdk/server/auth/router.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import express from 'express';
import { createRemoteJWKSet, jwtVerify } from 'jose';

const [port, issuer] = [Number(process.argv[2]), process.argv[3]];
const resource = `http://127.0.0.1:${port}/mcp`;
const metadata = await (await fetch(`${issuer}/.well-known/openid-configuration`)).json();
const keys = createRemoteJWKSet(new URL(metadata.jwks_uri));

const verifier = {
  async verifyAccessToken(token) {
    try {
      const { payload } = await jwtVerify(token, keys, { issuer, audience: resource, clockTolerance: 60 });
      return { token, clientId: payload.client_id, scopes: payload.scope.split(' '), expiresAt: payload.exp + 60, extra: { sub: payload.sub } };
    } catch (error) {
      throw new InvalidTokenError(error.message);
    }
  },
};
const resourceMetadataUrl = `http://127.0.0.1:${port}/.well-known/oauth-protected-resource/mcp`;
const needs = (...requiredScopes) => requireBearerAuth({ verifier, requiredScopes, resourceMetadataUrl });

// answer serves one request; the server has no sessions.
async function answer(request, response) {
  const server = new Server({ name: 'protected', version: '1.0.0' }, { capabilities: { tools: {} } });
  const schema = { type: 'object' };
  server.setRequestHandler(ListToolsRequestSchema, () => ({ tools: [{ name: 'whoami', inputSchema: schema }, { name: 'change', inputSchema: schema }] }));
  server.setRequestHandler(CallToolRequestSchema, ({ params }, { authInfo }) => {
    const text = params.name === 'change' ? `changed by ${authInfo.extra.sub}` : `${authInfo.extra.sub} with ${authInfo.scopes.join(' ')}`;
    return { content: [{ type: 'text', text }] };
  });
  const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
  await server.connect(transport);
  await transport.handleRequest(request, response, request.body);
}

const app = express();
app.use(mcpAuthMetadataRouter({ oauthMetadata: metadata, resourceServerUrl: new URL(resource), scopesSupported: ['mcp'] }));
app.post('/mcp', express.json(), (request, response, next) => {
  const change = request.body?.method === 'tools/call' && request.body.params.name === 'change';
  needs('mcp', ...(change ? ['admin'] : []))(request, response, next);
}, answer);
app.use('/mcp', (_, response) => response.status(405).end());
app.listen(port, '127.0.0.1');
