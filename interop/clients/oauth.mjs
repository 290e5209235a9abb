// The person and the storage that both TypeScript SDKs want of a client with OAuth.
import { browse } from './browse.mjs';

export const redirect = 'http://127.0.0.1:9/callback'; // nothing listens there: the browser stops at it

// A Provider keeps what a client has in memory, and has the browser open what it is to open.
export class Provider {
  // client is the id of a client that was registered by hand; without one the SDK registers itself.
  constructor(client) { this.client = client && { client_id: client }; }

  get redirectUrl() { return redirect; }

  get clientMetadata() {
    return {
      client_name: 'weir-interop', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
      token_endpoint_auth_method: 'none', application_type: 'native',
    };
  }

  clientInformation() { return this.client; }
  saveClientInformation(client) { this.client = client; }
  tokens() { return this.kept; }
  saveTokens(tokens) { this.kept = tokens; }
  saveCodeVerifier(verifier) { this.verifier = verifier; }
  codeVerifier() { return this.verifier; }

  async redirectToAuthorization(address) { this.back = new URL(await browse(address.href)).searchParams; }
}

// withSignIn does what a client does, once more if it stops for a sign-in, which finish ends.
export async function withSignIn(provider, finish, what) {
  provider.back = undefined;
  try {
    return await what();
  } catch (error) {
    if (!provider.back) throw error;
    await finish(provider.back);
    return what();
  }
}
