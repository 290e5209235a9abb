// An MCP server of 2026-07-28 with the Tasks extension, made for the scenarios tasks-* of the official suite, whose tools it has:
// node tasks-server.mjs PORT. It answers with JSON, keeps no sessions and has nothing else.
import { randomUUID } from 'node:crypto';
import { meta, Refused, serve } from './modern-server.mjs';

const extension = 'io.modelcontextprotocol/tasks';
const text = (said, more = {}) => ({ content: [{ type: 'text', text: said }], ...more });
const ask = (message, name) => ({ method: 'elicitation/create', params: { mode: 'form', message, requestedSchema: { type: 'object', properties: { [name]: { type: name === 'confirm' ? 'boolean' : 'string' } }, required: [name] } } });
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

const wantsTasks = () => new Refused(-32021, 'the client must declare the Tasks extension', { requiredCapabilities: { extensions: { [extension]: {} } } });

// --- tasks ---

const tasks = new Map();

class Task {
  constructor(work) {
    this.id = randomUUID();
    this.created = this.updated = new Date().toISOString();
    this.status = 'working';
    this.answers = {};
    tasks.set(this.id, this);
    work(this).then((result) => this.end('completed', { result }), ({ code = -32603, message }) => this.end('failed', { error: { code, message } }));
  }

  set(status) {
    this.status = status;
    this.updated = new Date().toISOString();
  }

  end(status, outcome = {}) {
    if (this.outcome) return;
    this.outcome = outcome;
    this.set(status);
  }

  // input waits until the client has answered all requests.
  input(requests) {
    this.requests = requests;
    this.set('input_required');
    return new Promise((resume) => { this.resume = resume; });
  }

  update(responses) {
    for (const [key, response] of Object.entries(responses)) {
      if (this.status !== 'input_required' || !(key in this.requests)) continue;
      this.answers[key] = response;
      delete this.requests[key];
    }
    if (this.status !== 'input_required' || Object.keys(this.requests).length > 0) return;
    this.set('working');
    this.resume(this.answers);
  }

  base() {
    return { taskId: this.id, status: this.status, createdAt: this.created, lastUpdatedAt: this.updated, ttlMs: 600_000, pollIntervalMs: 100 };
  }

  detailed() {
    return { resultType: 'complete', ...this.base(), ...(this.status === 'input_required' ? { inputRequests: this.requests } : {}), ...this.outcome };
  }
}

// --- tools: a task is a function of the Task, and a tool that makes none answers at once ---

const object = (properties = {}) => ({ type: 'object', properties });
const tools = {
  greet: { schema: object({ name: { type: 'string' } }), now: ({ name }) => text(`Hello, ${name}!`) },
  slow_compute: {
    schema: object({ seconds: { type: 'number' }, label: { type: 'string' } }),
    task: ({ seconds = 0 }) => async () => { await sleep(seconds * 1000); return text(`computed for ${seconds} s`); },
  },
  failing_job: { required: true, schema: object(), task: () => async () => { await sleep(200); return text('the job failed', { isError: true }); } },
  protocol_error_job: { schema: object(), task: () => async () => { await sleep(200); throw new Refused(-32603, 'the job broke'); } },
  confirm_delete: {
    schema: object({ filename: { type: 'string' } }),
    task: ({ filename }) => async (task) => text(`${filename}: ${JSON.stringify((await task.input({ confirm: ask(`Delete ${filename}?`, 'confirm') })).confirm)}`),
  },
  multi_input: { schema: object(), task: () => async (task) => text(JSON.stringify(await task.input({ first: ask('The first?', 'name'), second: ask('The second?', 'name') }))) },
  test_tool_with_task: {
    required: true,
    schema: object(),
    before: ({ inputResponses }) => (inputResponses?.user_name ? undefined : { resultType: 'input_required', inputRequests: { user_name: ask('Your name?', 'name') }, requestState: 'asked' }),
    task: (_, { inputResponses }) => async () => { await sleep(100); return text(`Hello, ${inputResponses.user_name.content?.name}!`); },
  },
};

async function callTool(params, declared) {
  const tool = tools[params.name];
  if (!tool) throw new Refused(-32602, `no tool ${params.name}`);
  const args = params.arguments ?? {};
  if (tool.now) return { resultType: 'complete', ...tool.now(args) };
  if (!declared && tool.required) throw wantsTasks();
  const question = tool.before?.(params);
  if (question) return question;
  const work = tool.task(args, params);
  if (!declared) return { resultType: 'complete', ...await work({ input: () => { throw new Refused(-32603, 'this needs a task'); } }) };
  return { resultType: 'task', ...new Task(work).base() };
}

// --- methods ---

const found = ({ taskId }) => {
  const task = tasks.get(taskId);
  if (!task) throw new Refused(-32602, `no task ${taskId}`);
  return task;
};

const complete = { resultType: 'complete' };
const cacheable = { ...complete, ttlMs: 0, cacheScope: 'private' };
const methods = {
  'server/discover': () => ({
    ...cacheable, supportedVersions: ['2026-07-28'], capabilities: { tools: {}, extensions: { [extension]: {} } },
    _meta: { [meta('serverInfo')]: { name: 'tasks', version: '1' } },
  }),
  'tools/list': () => ({ ...cacheable, tools: Object.entries(tools).map(([name, tool]) => ({ name, description: `The tool ${name} of the suite.`, inputSchema: tool.schema })) }),
  'tools/call': callTool,
  'tasks/get': (params) => found(params).detailed(),
  'tasks/update': (params) => { found(params).update(params.inputResponses ?? {}); return complete; },
  'tasks/cancel': (params) => { found(params).end('cancelled'); return complete; },
};

// checked refuses a request whose headers say something else than its body.
function checked(headers, { method, params = {} }) {
  const named = method.startsWith('tasks/') ? params.taskId : params.name;
  for (const [name, want] of [['mcp-method', method], ['mcp-name', method.startsWith('tasks/') || method === 'tools/call' ? named : undefined]]) {
    if (want !== undefined && headers[name] !== want) throw new Refused(-32020, `the header ${name} is ${headers[name]}, the body says ${want}`);
  }
}

serve(process.argv[2], methods, (headers, message) => {
  checked(headers, message);
  const declared = message.params?._meta?.[meta('clientCapabilities')]?.extensions?.[extension] !== undefined;
  if (message.method.startsWith('tasks/') && !declared) throw wantsTasks();
  return declared;
});
