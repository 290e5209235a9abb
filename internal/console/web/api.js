// What the page asks the server. A token travels in a header, never in a URL.

const key = 'weir-token'; // the page of /status has the same

export const token = {
  get: () => sessionStorage.getItem(key) ?? '',
  set: (value) => (value ? sessionStorage.setItem(key, value) : sessionStorage.removeItem(key)),
};

// login is what GET /login says: the issuer of logins, who is signed in, and the token for changes.
let login = { login: '' };

// who asks who is signed in. A server that does not answer has no login.
export async function who() {
  login = await fetch('login', { cache: 'no-store' }).then((r) => (r.ok ? r.json() : login)).catch(() => login);
  return login;
}

// signIn sends the browser to the issuer, which sends it back to this page.
export async function signIn() {
  const response = await fetch('login', { method: 'POST' }).catch(() => undefined);
  const said = await response?.json().catch(() => undefined);
  if (!response?.ok) throw new Refused(response?.status ?? 0, said?.error?.message ?? 'weir does not answer.');
  location.assign(said.address);
}

export const signOut = () => fetch('login', { method: 'DELETE', headers: { 'Weir-Login': login.token ?? '' } });

// credentials are the headers of a request: of the token of this tab, else of the login.
export function credentials() {
  const held = token.get();
  if (held) return { Authorization: `Bearer ${held}` };
  return login.token ? { 'Weir-Login': login.token } : {};
}

// Refused is an answer that is none: status is 0 where the server was not reached.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function ask(path, parameters, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined && value !== '') query.set(name, value);
  let response;
  try {
    response = await fetch(`api/v1/${path}${query.size ? `?${query}` : ''}`, { headers: credentials(), signal, cache: 'no-store' });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Refused(0, 'weir does not answer.');
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => undefined);
  throw new Refused(response.status, said?.error?.message ?? `The server answered ${response.status}.`);
}

export const get = async (path, parameters = {}, signal = undefined) => (await ask(path, parameters, signal)).json();

// events reads the stream of events until it ends: on is called with the kind, the data and the id of each. EventSource
// cannot send a header, so this reads the stream itself.
export async function events(after, signal, on) {
  const response = await ask('calls/stream', { after }, signal);
  on('open');
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    rest += value;
    const parts = rest.split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      let kind = 'message', id, data = '';
      for (const line of part.split('\n')) {
        const [, field, text] = /^([a-z]*): ?(.*)$/.exec(line) ?? [];
        if (field === 'event') kind = text;
        else if (field === 'id') id = text;
        else if (field === 'data') data += text;
      }
      if (data) on(kind, JSON.parse(data), id);
    }
  }
}
