// What the page asks the gateway. A token travels in a header, never in a URL.

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

// signIn and signOut return the page of the issuer, which sends the browser back to this page; signOut none if it has none.
export const signIn = () => sign('POST');
export const signOut = () => sign('DELETE');

async function sign(method) {
  const response = await fetch('login', { method, headers: { 'Weir-Login': login.token ?? '' } }).catch(() => undefined);
  const said = await response?.json().catch(() => undefined);
  if (!response?.ok) throw new Refused(response?.status ?? 0, said?.error?.message ?? 'weir does not answer.');
  return said.address;
}

// credentials are the headers of a request: of the token of this tab, else of the login.
export function credentials() {
  const held = token.get();
  if (held) return { Authorization: `Bearer ${held}` };
  return login.token ? { 'Weir-Login': login.token } : {};
}

// Refused is an answer that is an error: status is 0 where the gateway was not reached.
export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

async function send(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: 'no-store', ...options, headers: { ...credentials(), ...options.headers } });
  } catch (error) {
    if (options.signal?.aborted) throw error;
    throw new Refused(0, 'weir does not answer.');
  }
  if (response.ok) return response;
  const said = await response.json().catch(() => undefined);
  throw new Refused(response.status, said?.error?.message ?? `The gateway answered ${response.status}.`);
}

// node is the node of a cluster that the pages are of, '' for the one that answers. It is in the address, so that a page is of
// one node behind a balancer, too.
export const node = new URLSearchParams(location.search).get('node') ?? '';
const ofAll = /^(me|approvals|sessions|clients|registry|cluster)\b/; // these take no node

function pathOf(path, parameters) {
  const query = new URLSearchParams();
  if (node && !ofAll.test(path)) query.set('node', node);
  for (const [name, value] of Object.entries(parameters)) if (value !== undefined && value !== '' && value !== false) query.set(name, value);
  return `api/v1/${path}${query.size ? `?${query}` : ''}`;
}

export const get = async (path, parameters = {}, signal = undefined) => (await send(pathOf(path, parameters), { signal })).json();

// file asks for bytes to save; it returns the Response.
export const file = (path, parameters = {}) => send(pathOf(path, parameters), {});

export const post = async (path, body = {}) =>
  (await send(pathOf(path, {}), { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })).json();

// change changes what is under a tag: the answer is 409 if another change came first.
export const change = async (method, path, body, tag) =>
  (await send(pathOf(path, {}), { method, headers: { 'Content-Type': 'application/json', 'If-Match': `"${tag}"` }, body: JSON.stringify(body) })).json();

// follow reads the stream of calls until it ends: on is called with the kind, the data and the id of each. EventSource
// cannot send a header, so this reads the stream itself.
export async function follow(after, signal, on) {
  const response = await send(pathOf('calls/stream', { after }), { signal });
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
      const { kind, data, id } = eventOf(part);
      if (data) on(kind, JSON.parse(data), id);
    }
  }
}

function eventOf(part) {
  let kind = 'message', id, data = '';
  for (const line of part.split('\n')) {
    const [, field, text] = /^([a-z]*): ?(.*)$/.exec(line) ?? [];
    if (field === 'event') kind = text;
    else if (field === 'id') id = text;
    else if (field === 'data') data += text;
  }
  return { kind, data, id };
}

const version = '2026-07-28';
const client = { name: 'weir console', version: '1' };

// request sends one request of MCP, with the rights and the limits of an agent. params and the answer are JSON texts, so that
// numbers keep their digits. hear, if there is one, is called with each message that comes before the answer; the server may
// then ask the person who called (elicitation, sampling).
export async function request(method, name, params, /** @type {{ signal?: AbortSignal, hear?: (message: any) => void }} */ { signal, hear } = {}) {
  const meta = {
    'io.modelcontextprotocol/protocolVersion': version, 'io.modelcontextprotocol/clientInfo': client,
    'io.modelcontextprotocol/clientCapabilities': hear ? { elicitation: { form: {}, url: {} }, sampling: {} } : {},
    ...(hear ? { progressToken: 1, 'io.modelcontextprotocol/logLevel': 'debug' } : {}),
  };
  const headers = { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': version, 'Mcp-Method': method };
  const response = await send('api/v1/mcp', {
    method: 'POST', signal, headers: name ? { ...headers, 'Mcp-Name': name } : headers,
    body: `{"jsonrpc":"2.0","id":1,"method":${JSON.stringify(method)},"params":${params.replace(/\}\s*$/, '')}${/^\{\s*\}\s*$/.test(params) ? '' : ','}"_meta":${JSON.stringify(meta)}}}`,
  });
  if (!response.headers.get('Content-Type')?.startsWith('text/event-stream')) return response.text();
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '', read; !(read = await reader.read()).done;) {
    const parts = (rest + read.value).split('\n\n');
    rest = parts.pop();
    for (const part of parts) {
      const { data } = eventOf(part);
      if (!data) continue;
      const message = JSON.parse(data);
      if (message.id === 1 && !message.method) return data;
      hear?.(message);
    }
  }
  throw new Refused(0, 'The gateway ended the call without an answer.');
}

// tool calls a tool of the gateway.
export const tool = (name, rawArguments, signal) => request('tools/call', name, `{"name":${JSON.stringify(name)},"arguments":${rawArguments}}`, { signal });

// lines reads lines of JSON as they come, until the stream ends.
export async function lines(path, parameters, signal, on) {
  const response = await send(pathOf(path, parameters), { signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = '', read; !(read = await reader.read()).done;) {
    const parts = (rest + read.value).split('\n');
    rest = parts.pop();
    const all = parts.filter(Boolean).map((part) => JSON.parse(part));
    if (all.length) on(all);
  }
}
