// oidc-provider as the authorization server of weir and of its servers: node issuer.mjs PORT '{"resources": [URL, ...], "life": seconds, "clients": [...]}'
//
// Tokens are JWTs of one resource each, with the scopes mcp and admin. Clients register themselves, sign in on the provider's
// own pages (clients/browse.mjs fills in the forms), and get rotating refresh tokens. PKCE is required.
import { generateKeyPairSync } from 'node:crypto';
import Provider, { errors } from 'oidc-provider';

const port = Number(process.argv[2]);
const { resources, life, clients = [] } = JSON.parse(process.argv[3]);
const issuer = `http://127.0.0.1:${port}`;
const key = generateKeyPairSync('ec', { namedCurve: 'P-256' }).privateKey.export({ format: 'jwk' });

const provider = new Provider(issuer, {
  jwks: { keys: [{ ...key, alg: 'ES256', use: 'sig', kid: 'k1' }] },
  cookies: { keys: ['interop'] },
  scopes: ['openid', 'offline_access', 'groups', 'mcp', 'admin'],
  claims: { openid: ['sub'], groups: ['groups'] },
  conformIdTokenClaims: false, // claims of scopes are in the ID token, as most providers have them
  clients: [{ client_id: 'known', redirect_uris: ['http://127.0.0.1:9/callback'], token_endpoint_auth_method: 'none', application_type: 'native', grant_types: ['authorization_code', 'refresh_token'] }, ...clients],
  fetch: (url, { dispatcher, ...options }) => fetch(url, options), // logout tokens go to weir on this machine, which its own one refuses
  clientDefaults: { id_token_signed_response_alg: 'ES256' },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: ['staff'] }) }),
  pkce: { required: () => true },
  // weir lets clocks differ by a minute: the clock of this issuer is a minute late, so that its tokens end in time.
  formats: { customizers: { jwt(_, token, jwt) { jwt.payload.iat -= 60; jwt.payload.exp -= 60; } } },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    backchannelLogout: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => false, // a token request without resource gets no token for a server
      getResourceServerInfo: (_, resource) => {
        if (!resources.includes(resource)) throw new errors.InvalidTarget();
        return { scope: 'mcp admin', audience: resource, accessTokenTTL: life, accessTokenFormat: 'jwt', jwt: { sign: { alg: 'ES256' } } };
      },
    },
  },
});
const log = (what) => console.error(new Date().toISOString(), what);
provider.on('registration_create.success', () => log('registered'));
provider.on('grant.success', ({ oidc }) => log(`granted ${oidc.params.grant_type} to ${oidc.client.clientId}: ${oidc.entities.AccessToken?.scope}`));
provider.on('grant.error', (ctx, error) => log(`refused ${ctx.oidc.params?.grant_type}: ${error.message}: ${error.error_description} ${error.error_detail ?? ''}`));
provider.on('authorization.error', (_, error) => log(`refused an authorization: ${error.message}: ${error.error_description}`));
provider.on('server_error', (_, error) => log(error.stack));
provider.on('backchannel.success', (_, client) => log(`told ${client.clientId} of a logout`));
provider.on('backchannel.error', (_, error, client) => log(`could not tell ${client.clientId} of a logout: ${error.message}`));
provider.on('refresh_token.destroyed', () => log('destroyed'));
provider.on('grant.revoked', () => log('revoked'));
provider.listen(port, '127.0.0.1');
