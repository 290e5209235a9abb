// MCP for web pages: one agent behind weir, called with fetch.
//
//   import { MCPBrowserClient } from '/MCPBrowserClient.js';
//   const client = new MCPBrowserClient({ baseUrl: '/mcps/agent-name' });
//   const tools = await client.listTools();
//   const result = await client.callTool('execute_code', { code: '1 + 1' }, { onProgress: console.log });
//
// What it promises:
//   - Nothing is sent before the first call. The session is made by that, and made again when the agent has lost it.
//   - A call that may have run is never sent again. When its answer is lost, its error has data.mayHaveRun.
//   - A tool that is answered with a task is waited for; onTaskUpdate is told how it goes. With {wait: false} it is not.
//   - Every error is an MCPError with the agent's own code, message and data, but for a call that the page itself aborted.
//
// An ES module without dependencies, for every browser with fetch and streams.

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05'];
const FINAL = new Set(['completed', 'failed', 'cancelled']);
// Asking twice changes nothing, so these are sent again when a connection broke.
const REPEATABLE = new Set(['initialize', 'ping', 'tools/list', 'resources/list', 'resources/templates/list', 'resources/read', 'prompts/list', 'prompts/get', 'completion/complete']);
const MAX_PAGES = 1000;
const MAX_RESUMES = 5;
const MAX_POLL_FAILURES = 5;

/** An error of the agent, of the router, or of the way there. */
export class MCPError extends Error {
  /**
   * @param {number} code JSON-RPC code, such as -32002 for a full queue
   * @param {string} message
   * @param {any} [data] what the agent says besides; data.kind names the error
   * @param {{status?: number, cause?: unknown}} [about] HTTP status, where there was one
   */
  constructor(code, message, data, { status, cause } = {}) {
    super(message, { cause });
    this.name = 'MCPError';
    this.code = code;
    this.data = data;
    this.status = status;
  }
}

/** The client of one agent. */
export class MCPBrowserClient {
  #endpoint;
  #taskURL;
  #options;
  #session = null; // {id, version, hello}
  #opening = null; // the promise of a session on its way
  #nextId = 1;
  #closed = new AbortController();

  /**
   * @param {object} options
   * @param {string | URL} options.baseUrl the agent: /mcps/name, with or without /mcp at the end
   * @param {Record<string, string> | (() => Record<string, string> | Promise<Record<string, string>>)} [options.headers] sent with each request, such as Authorization
   * @param {number | ((poll: number, task: object) => number)} [options.pollInterval] milliseconds between questions about a task: 1000
   * @param {number} [options.timeout] milliseconds a call may be silent; progress begins it anew; 0 sets no limit: 60000
   * @param {RequestCredentials} [options.credentials] of fetch: same-origin
   * @param {object} [options.capabilities] what the page can be asked, with onRequest: {}
   * @param {(method: string, params: any) => any} [options.onRequest] answers what the agent asks during a call (sampling, elicitation, roots)
   * @param {(method: string, params: any) => void} [options.onNotification] is told what belongs to no call
   * @param {{name: string, version: string}} [options.clientInfo]
   */
  constructor({ baseUrl, headers = {}, pollInterval = 1000, timeout = 60_000, credentials = 'same-origin', capabilities = {}, onRequest, onNotification, clientInfo = { name: 'MCPBrowserClient', version: '1' } } = {}) {
    if (!baseUrl) throw new TypeError('MCPBrowserClient needs a baseUrl such as /mcps/agent-name');
    const url = new URL(baseUrl, globalThis.document?.baseURI ?? globalThis.location?.href);
    url.hash = '';
    const path = url.pathname.replace(/\/+$/, '');
    // /mcps/mcp is the agent "mcp" without the ending.
    const agent = path.endsWith('/mcp') && !/\/mcps?\/mcp$/.test(path) ? path.slice(0, -4) : path;
    this.#endpoint = new URL(url);
    this.#endpoint.pathname = `${agent}/mcp`;
    this.#taskURL = new URL(url);
    this.#taskURL.pathname = `${agent}/task`;
    this.#options = { headers, pollInterval, timeout, credentials, capabilities, onRequest, onNotification, clientInfo };
  }

  /** What the agent said of itself: {protocolVersion, capabilities, serverInfo, instructions}. Makes the session. */
  async connect() {
    return (await this.#open()).hello;
  }

  /** All tools. */
  listTools(options) { return this.#list('tools/list', 'tools', options); }

  /** All resources. */
  listResources(options) { return this.#list('resources/list', 'resources', options); }

  /** All resource templates. */
  listResourceTemplates(options) { return this.#list('resources/templates/list', 'resourceTemplates', options); }

  /** All prompts. */
  listPrompts(options) { return this.#list('prompts/list', 'prompts', options); }

  /** The first content of a resource: its text, or base64 where it is binary. request('resources/read', {uri}) has all of it. */
  async readResource(uri, options) {
    const [content] = (await this.request('resources/read', { uri }, options))?.contents ?? [];
    return content?.text ?? content?.blob;
  }

  /** A prompt with its arguments filled in: {description, messages}. */
  getPrompt(name, args = {}, options) {
    return this.request('prompts/get', { name, arguments: args }, options);
  }

  /**
   * Calls a tool. A tool that failed is a result with isError.
   * @param {string} name
   * @param {object} [args]
   * @param {object} [options]
   * @param {(progress: {progress: number, total?: number, message?: string}) => void} [options.onProgress]
   * @param {(task: {id: string, status: string, logTail?: string}) => void} [options.onTaskUpdate] is told each change of the call's task
   * @param {AbortSignal} [options.signal] cancels the call, and its task
   * @param {boolean} [options.wait] false: the result of an async tool is its taskId, and getTask asks for more
   * @param {number} [options.timeout]
   * @param {object} [options.meta] goes into params._meta
   */
  async callTool(name, args = {}, { onTaskUpdate, wait = true, ...options } = {}) {
    const result = await this.request('tools/call', { name, arguments: args }, options);
    const id = taskIdOf(result);
    return id && wait ? this.waitForTask(id, { onTaskUpdate, signal: options.signal }) : result;
  }

  /**
   * Asks until a task has ended, and returns its result. A task that failed without one is an MCPError.
   * @param {string} id
   * @param {{onTaskUpdate?: (task: object) => void, signal?: AbortSignal}} [options]
   */
  async waitForTask(id, { onTaskUpdate, signal } = {}) {
    const both = anySignal(signal, this.#closed.signal);
    let told = '';
    let failures = 0;
    try {
      for (let poll = 0; ; poll++) {
        let task = null;
        try {
          task = await this.getTask(id, { signal });
          failures = 0;
        } catch (error) {
          // The way may be down for a moment; an agent that answers has answered.
          if (both.aborted || (error.status && error.status !== 502 && error.status !== 503 && error.status !== 429) || ++failures > MAX_POLL_FAILURES) throw error;
        }
        if (task) {
          const now = JSON.stringify([task.status, task.updatedAt, task.logSeq]);
          if (now !== told) {
            told = now;
            onTaskUpdate?.(task);
          }
          if (FINAL.has(task.status)) return taskResult(task);
        }
        const { pollInterval } = this.#options;
        const interval = typeof pollInterval === 'function' ? pollInterval(poll, task) : pollInterval;
        await sleep(Math.max(interval, 10) * 2 ** failures, both);
      }
    } catch (error) {
      if (signal?.aborted) this.cancelTask(id).catch(() => {}); // it may have ended by now
      throw error;
    }
  }

  /** A task as it is now: {id, toolName, status, createdAt, updatedAt, error, result, logTail, …}. */
  async getTask(id, { signal } = {}) { return this.#task('GET', id, signal); }

  /** Cancels a task and returns it. */
  async cancelTask(id, { signal } = {}) { return this.#task('DELETE', id, signal); }

  /** Sends any request and returns its result; options as those of callTool. */
  async request(method, params = {}, options = {}) {
    for (let attempt = 0; ; attempt++) {
      const session = await this.#open(options.signal);
      try {
        return await this.#exchange(session, method, params, options);
      } catch (error) {
        const again = error.lost || (error.broken && REPEATABLE.has(method) && !options.signal?.aborted);
        if (error.lost && this.#session === session) this.#session = null;
        if (!again || attempt > 0 || this.#closed.signal.aborted) throw error;
      }
    }
  }

  /** Ends the session. Calls that wait are rejected, and no more can be made. */
  async close() {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort(new MCPError(-32800, 'the client was closed', { kind: 'cancelled' }));
    const session = this.#session;
    this.#session = null;
    if (!session?.id) return;
    try {
      await this.#fetch('DELETE', session, undefined, undefined, { keepalive: true });
    } catch { /* the agent ends an idle session by itself */ }
  }

  // --- session ---

  async #open(signal) {
    this.#closed.signal.throwIfAborted();
    signal?.throwIfAborted();
    if (this.#session) return this.#session;
    this.#opening ??= this.#initialize().finally(() => { this.#opening = null; });
    return untilAborted(this.#opening, signal);
  }

  async #initialize() {
    const { capabilities, clientInfo } = this.#options;
    const fresh = { id: null, version: null, hello: null };
    const hello = await this.#exchange(fresh, 'initialize', { protocolVersion: VERSIONS[0], capabilities, clientInfo }, {});
    if (!VERSIONS.includes(hello?.protocolVersion)) throw new MCPError(-32600, `the agent speaks ${hello?.protocolVersion}, which this client does not`, { kind: 'unsupported_version' });
    fresh.version = hello.protocolVersion;
    fresh.hello = hello;
    const response = await this.#fetch('POST', fresh, { jsonrpc: '2.0', method: 'notifications/initialized' }, this.#closed.signal);
    await response.body?.cancel();
    if (!this.#closed.signal.aborted) this.#session = fresh;
    return fresh;
  }

  // --- one request and its response ---

  async #exchange(session, method, params, { onProgress, signal, timeout = this.#options.timeout, meta }) {
    const id = this.#nextId++;
    const sent = onProgress || meta ? { ...params, _meta: { ...params._meta, ...meta, ...(onProgress && { progressToken: id }) } } : params;
    const giveUp = new AbortController();
    const clock = deadline(timeout, () => giveUp.abort(new MCPError(-32003, `the agent did not answer ${method} within ${timeout} ms`, { kind: 'timeout' })));
    const all = anySignal(signal, this.#closed.signal, giveUp.signal);
    const tell = {
      id,
      progress: (p) => { clock.restart(); if (p?.progressToken === id) onProgress?.(p); },
      request: (message) => this.#answer(session, message),
      notification: (message) => this.#options.onNotification?.(message.method, message.params),
    };
    try {
      const response = await this.#fetch('POST', session, { jsonrpc: '2.0', id, method, params: sent }, all).catch((cause) => {
        throw all.aborted ? cause : broken(`the agent cannot be reached: ${cause.message}`, method, cause);
      });
      if (method === 'initialize') session.id = response.headers.get('Mcp-Session-Id');
      const message = await this.#response(session, response, tell, method, all);
      if ('error' in message) throw new MCPError(message.error.code, message.error.message, message.error.data, { status: response.status });
      return message.result;
    } catch (error) {
      if (!all.aborted) throw error;
      // In this era a closed connection cancels nothing: it has to be said.
      if (method !== 'initialize') this.#notify(session, 'notifications/cancelled', { requestId: id, reason: giveUp.signal.aborted ? 'timed out' : 'cancelled by the page' });
      throw all.reason;
    } finally {
      clock.stop();
    }
  }

  async #response(session, response, tell, method, signal) {
    const type = response.headers.get('Content-Type') ?? '';
    if (response.ok && type.startsWith('text/event-stream')) return this.#stream(session, response, tell, method, signal);
    let text;
    try {
      text = await response.text();
    } catch (cause) {
      throw signal.aborted ? cause : broken('the answer broke off', method, cause);
    }
    let message = null;
    try { message = JSON.parse(text); } catch { /* not JSON */ }
    if (Array.isArray(message)) message = message.find((m) => m?.id === tell.id) ?? null;
    if (response.status === 404 && session.id && message?.error?.code !== -32601) {
      // The session was not known, so nothing has run.
      throw Object.assign(new MCPError(message?.error?.code ?? -32001, message?.error?.message ?? 'the session was lost', message?.error?.data, { status: 404 }), { lost: true });
    }
    if (message && ('result' in message || message.error)) return message;
    throw new MCPError(-32603, `the agent answered ${response.status} ${response.statusText} to ${method}`, { kind: 'http', status: response.status, body: text.slice(0, 500) }, { status: response.status });
  }

  // stream reads events until the response comes. A stream that breaks is resumed where the agent gave event ids; the call
  // itself is not sent again.
  async #stream(session, response, tell, method, signal) {
    let last = null;
    let retry = 250;
    for (let resumes = 0; ; resumes++) {
      let cause;
      try {
        for await (const event of events(response.body)) {
          if (event.id !== undefined) last = event.id;
          if (event.retry !== undefined) retry = Math.min(event.retry, 30_000);
          if (!event.data) continue;
          const message = JSON.parse(event.data);
          for (const one of Array.isArray(message) ? message : [message]) {
            if (one.method === undefined) {
              if (one.id === tell.id) return one;
            } else if (one.id !== undefined) tell.request(one);
            else if (one.method === 'notifications/progress') tell.progress(one.params);
            else tell.notification(one);
          }
        }
      } catch (error) {
        if (signal.aborted) throw error;
        cause = error;
      } finally {
        response.body?.cancel().catch(() => {});
      }
      if (last === null || resumes >= MAX_RESUMES) throw broken('the answer broke off', method, cause);
      await sleep(retry, signal);
      try {
        response = await this.#fetch('GET', session, undefined, signal, { last });
      } catch (error) {
        if (signal.aborted) throw error;
        response = new Response(null);
        continue;
      }
      if (!response.ok) {
        await response.body?.cancel();
        if (response.status === 404 && this.#session === session) this.#session = null;
        throw broken('the answer was lost with the session', method, cause);
      }
    }
  }

  async #answer(session, { id, method, params }) {
    const reply = { jsonrpc: '2.0', id };
    try {
      if (method === 'ping') reply.result = {};
      else if (this.#options.onRequest) reply.result = (await this.#options.onRequest(method, params)) ?? {};
      else reply.error = { code: -32601, message: `method not found: ${method}` };
    } catch (error) {
      reply.error = { code: Number.isInteger(error?.code) ? error.code : -32603, message: String(error?.message ?? error), data: error?.data };
    }
    try {
      const response = await this.#fetch('POST', session, reply, this.#closed.signal);
      await response.body?.cancel();
    } catch { /* the call that was asked for fails by itself */ }
  }

  #notify(session, method, params) {
    this.#fetch('POST', session, { jsonrpc: '2.0', method, params }, undefined, { keepalive: true })
      .then((response) => response.body?.cancel(), () => {});
  }

  async #fetch(method, session, body, signal, { last, keepalive } = {}) {
    const headers = await this.#headers();
    headers.set('Accept', method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream');
    if (body !== undefined) headers.set('Content-Type', 'application/json');
    if (session.id) headers.set('Mcp-Session-Id', session.id);
    if (session.version) headers.set('Mcp-Protocol-Version', session.version);
    if (last != null) headers.set('Last-Event-ID', last);
    return fetch(this.#endpoint, {
      method, headers, signal, keepalive, cache: 'no-store', credentials: this.#options.credentials,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  }

  async #headers() {
    const { headers } = this.#options;
    return new Headers(typeof headers === 'function' ? await headers() : headers);
  }

  async #list(method, key, options) {
    const all = [];
    let cursor;
    for (let page = 0; page < MAX_PAGES; page++) {
      const result = await this.request(method, cursor === undefined ? {} : { cursor }, options);
      all.push(...(result?.[key] ?? []));
      cursor = result?.nextCursor;
      if (cursor === undefined || cursor === null) return all;
    }
    throw new MCPError(-32603, `${method} has more than ${MAX_PAGES} pages`, { kind: 'too_large' });
  }

  async #task(method, id, signal) {
    const url = new URL(this.#taskURL);
    url.searchParams.set('taskId', id);
    const all = anySignal(signal, method === 'DELETE' ? undefined : this.#closed.signal);
    let response;
    try {
      response = await fetch(url, { method, headers: await this.#headers(), signal: all, cache: 'no-store', credentials: this.#options.credentials, keepalive: method === 'DELETE' });
    } catch (cause) {
      throw all.aborted ? all.reason : new MCPError(-32603, `the agent cannot be reached: ${cause.message}`, { kind: 'connection' }, { cause });
    }
    let body = null;
    try { body = await response.json(); } catch { /* not JSON */ }
    if (response.ok && body?.task) return body.task;
    const error = body?.error;
    throw new MCPError(error?.code ?? -32603, error?.message ?? (typeof error === 'string' ? error : `the agent answered ${response.status} to the question about task ${id}`),
      error?.data, { status: response.status });
  }
}

/**
 * The same for pages written for the client before it: functions in place of a class, whole results from readResource, and
 * params._meta as third argument of callTool.
 * @param {string | URL} baseUrl the agent's endpoint
 * @param {object} [options] those of MCPBrowserClient
 */
export function createAgentClient(baseUrl, options = {}) {
  const client = new MCPBrowserClient({ ...options, baseUrl });
  let hello = null;
  const connect = async () => { hello = await client.connect(); };
  return {
    connect,
    listTools: () => client.listTools(),
    callTool: (name, args, meta, more) => client.callTool(name, args, { ...more, meta }),
    listResources: () => client.listResources(),
    readResource: async (uri, meta) => {
      const result = await client.request('resources/read', { uri }, { meta });
      return result?.resource ?? result;
    },
    listPrompts: () => client.listPrompts(),
    getPrompt: (name, args) => client.getPrompt(name, args),
    getTaskStatus: (id) => client.getTask(id),
    cancelTask: (id) => client.cancelTask(id),
    ping: () => client.request('ping'),
    close: () => client.close(),
    getCapabilities: () => hello?.capabilities ?? null,
    getServerInfo: () => hello?.serverInfo ?? null,
    getInstructions: () => hello?.instructions ?? null,
  };
}

export default MCPBrowserClient;

// --- parts ---

// broken is the error of a call whose answer is lost: whether it has run is not known.
function broken(message, method, cause) {
  return Object.assign(new MCPError(-32603, message, { kind: 'connection', mayHaveRun: !REPEATABLE.has(method) }, { cause }), { broken: true });
}

function taskIdOf(result) {
  return result?.taskId ?? result?._meta?.taskId ?? result?.metadata?.taskId ?? result?.task?.taskId;
}

// taskResult is what a task has led to. A tool that ran and failed has a result that says so.
function taskResult(task) {
  if (task.result && (task.status === 'completed' || Array.isArray(task.result.content))) return task.result;
  if (task.status === 'completed') return task.result ?? { content: [] };
  const error = typeof task.error === 'object' && task.error ? task.error : { message: task.error };
  throw new MCPError(error.code ?? (task.status === 'cancelled' ? -32800 : -32000), error.message ?? `the task was ${task.status}`,
    { kind: task.status === 'cancelled' ? 'cancelled' : 'tool_execution', ...error.data, task });
}

// events reads server-sent events: {data, id, retry}.
async function* events(body) {
  if (!body) return;
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  let event = { data: undefined };
  try {
    while (true) {
      const { value, done } = await reader.read();
      if (done) return; // an event without its empty line is not complete
      rest += value;
      // A CR at the end may be half of a CR LF.
      const end = rest.endsWith('\r') ? rest.length - 1 : rest.length;
      const lines = rest.slice(0, end).split(/\r\n|\r|\n/);
      rest = lines.pop() + rest.slice(end);
      for (const line of lines) {
        if (line === '') {
          if (event.data !== undefined || event.id !== undefined || event.retry !== undefined) yield event;
          event = { data: undefined };
          continue;
        }
        const colon = line.indexOf(':');
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
        if (field === 'data') event.data = event.data === undefined ? value : `${event.data}\n${value}`;
        else if (field === 'id' && !value.includes('\0')) event.id = value;
        else if (field === 'retry' && /^\d+$/.test(value)) event.retry = Number(value);
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function anySignal(...signals) {
  const given = signals.filter(Boolean);
  if (given.length === 1) return given[0];
  if (AbortSignal.any) return AbortSignal.any(given);
  const all = new AbortController();
  for (const signal of given) {
    if (signal.aborted) all.abort(signal.reason);
    else signal.addEventListener('abort', () => all.abort(signal.reason), { once: true, signal: all.signal });
  }
  return all.signal;
}

function untilAborted(promise, signal) {
  if (!signal) return promise;
  return new Promise((resolve, reject) => {
    const stop = () => reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    promise.then(resolve, reject).finally(() => signal.removeEventListener('abort', stop));
  });
}

function sleep(time, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const stop = () => { clearTimeout(timer); reject(signal.reason); };
    const timer = setTimeout(() => { signal?.removeEventListener('abort', stop); resolve(); }, time);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

// deadline calls fn after a time without restart; 0 is none.
function deadline(time, fn) {
  let timer;
  const restart = () => { clearTimeout(timer); if (time > 0) timer = setTimeout(fn, time); };
  restart();
  return { restart, stop: () => clearTimeout(timer) };
}
