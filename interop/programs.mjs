// Clients of others run one program over eight servers: the SDKs of TypeScript and Python, 1.x and 2.x, in both eras and over
// each transport, Claude Code itself with a model that is written down here, and the messages of VS Code as it sends them.
//
//   node interop/programs.mjs --weir bin/weir
import { once } from 'node:events';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { combinations, session } from './clients.mjs';
import { everythingStdio, expect, expectEqual, filesStdio, here, main, memoryStdio, node22, Report, run, scratch, startWeir, textOf, work, writeConfig, Wrong } from './harness.mjs';
import { install, modules } from './hosts.mjs';
import { pythonServers, setup } from './setup.mjs';

const pip = (environment, name, args = []) => ({ command: join(work, environment, 'bin', name), args });

const program = `const [said, listed, graph, clock, log, page, tables] = await Promise.all([
  tools.everything.echo({message: input.word}),
  tools.files.list_directory({path: input.root}),
  tools.memory.read_graph({}),
  tools.time.convert_time({source_timezone: "UTC", time: "12:00", target_timezone: "Asia/Tokyo"}),
  tools.git.git_log({repo_path: input.repo, max_count: 1}),
  tools.fetch.fetch({url: input.page}),
  tools.sqlite.list_tables({}),
]);
const note = await tools.notes.create_note({title: "eight", text: said});
await tools.notes.delete_note({id: note.id});
return {
  said, files: (listed.content ?? listed).match(/\\[FILE\\]/g).length, entities: graph.entities.length, tokyo: clock.target.datetime.slice(11, 16),
  commit: /Message: (.*)/.exec(log)[1], page: page.includes("uptime"), tables, note: note.title,
};`;
const names = ['everything', 'fetch', 'files', 'git', 'memory', 'notes', 'sqlite', 'time'];
const wanted = { said: 'Echo: hello', files: 2, entities: 0, tokyo: '21:00', commit: 'the first one', page: true, tables: [], note: 'eight' };

// make writes the folder and the repository that the program reads.
async function make(weir) {
  const root = join(scratch, 'root');
  const repo = join(scratch, 'repo');
  for (const folder of [root, repo]) {
    rmSync(folder, { recursive: true, force: true });
    mkdirSync(folder, { recursive: true });
    for (const name of ['a.txt', 'b.txt']) writeFileSync(join(folder, name), `${name}\n`);
  }
  for (const name of ['memory.json', 'shop.db']) rmSync(join(scratch, name), { force: true });
  const git = (...args) => run('git', 'git', args, { cwd: repo });
  await git('init', '-q');
  await git('add', '-A');
  await git('-c', 'user.name=Ann', '-c', 'user.email=ann@example.com', 'commit', '-q', '-m', 'the first one');
  const mcpServers = {
    everything: everythingStdio(),
    files: filesStdio(root),
    memory: memoryStdio(join(scratch, 'memory.json')),
    time: pip('pythonservers', 'mcp-server-time', ['--local-timezone', 'UTC']),
    git: pip('pythonservers', 'mcp-server-git'),
    fetch: pip('pythonservers', 'mcp-server-fetch', ['--ignore-robots-txt', '--allow-private-ips']),
    sqlite: pip('pythonsqlite', 'mcp-server-sqlite', ['--db-path', join(scratch, 'shop.db')]),
    notes: { command: weir, args: ['demo', 'notes'] },
  };
  return { config: { mcpServers }, input: { word: 'hello', root, repo } };
}

// up reports whether a browse of / shows every server, and none of them down.
const up = (text) => names.every((name) => text.includes(`/${name} `)) && !/not searched|still starting| down/.test(text);

// settled browses until every server is up: a gateway answers before its servers do.
async function settled(call) {
  let text = '';
  for (const until = Date.now() + 90_000; Date.now() < until; await sleep(200)) {
    text = textOf(await call('tool_browse', { path: '/' }));
    if (up(text)) return;
  }
  throw new Wrong(`not every server is up:\n${text}`);
}

// expectRan checks the answer of the program and that weir made its nine calls.
function expectRan(result) {
  expect(!result.isError, 'the program failed', textOf(result));
  expectEqual(JSON.parse(textOf(result)), wanted, 'what the program returned');
  const { calls } = result._meta['weir/run'];
  const servers = new Set(calls.map(({ tool_id: id }) => id.split(':')[0]));
  expect(servers.size === 8, `calls of ${servers.size} servers`, calls);
}

// A Wire speaks JSON-RPC as a program does that has no SDK here.
class Wire {
  constructor(send) {
    this.send = send;
    this.next = 0;
  }

  async request(method, params) {
    const message = await this.send({ jsonrpc: '2.0', id: this.next++, method, params });
    expect(message.result, `${method} was refused`, message);
    return message.result;
  }

  // introduce makes the handshake of 2025-11-25.
  async introduce(clientInfo, capabilities) {
    await this.request('initialize', { protocolVersion: '2025-11-25', capabilities, clientInfo });
    await this.send({ jsonrpc: '2.0', method: 'notifications/initialized' });
    const { tools } = await this.request('tools/list', undefined);
    expect(tools.some(({ name }) => name === 'tool_run'), 'tool_run is not listed', tools.map(({ name }) => name));
    await settled((name, args) => this.request('tools/call', { name, arguments: args }));
  }
}

// posting sends messages over streamable HTTP and reads answers of both kinds.
function posting(url) {
  let sessionID;
  return async (message) => {
    const headers = { 'content-type': 'application/json', accept: 'text/event-stream, application/json', 'mcp-protocol-version': '2025-11-25' };
    if (sessionID) headers['mcp-session-id'] = sessionID;
    const response = await fetch(url, { method: 'POST', headers, body: JSON.stringify(message), signal: AbortSignal.timeout(60_000) });
    sessionID ??= response.headers.get('mcp-session-id');
    const text = await response.text();
    if (message.id === undefined) return undefined;
    if (text.startsWith('{')) return JSON.parse(text);
    const lines = text.split('\n').filter((line) => /^data: *\S/.test(line)).map((line) => JSON.parse(line.slice('data:'.length)));
    return lines.find(({ id, method }) => id === message.id && !method);
  };
}

// startModel serves the API of the model that Claude Code asks, as far as it needs it. next takes the text of the last tool
// result, undefined at first, and returns the next call of a tool, or the text that ends the conversation.
async function startModel(next) {
  let uses = 0;
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    if (!request.url.startsWith('/v1/messages?')) {
      response.writeHead(404).end();
      return;
    }
    const { model, messages } = JSON.parse(body);
    const result = messages.flatMap(({ content }) => content).findLast(({ type }) => type === 'tool_result');
    await sleep(200);
    const step = next(result && [result.content].flat().map((part) => part.text ?? part).join('\n'));
    const block = typeof step === 'string' ? { type: 'text', text: '' } : { type: 'tool_use', id: `toolu_${++uses}`, name: `mcp__weir__${step.name}`, input: {} };
    const delta = typeof step === 'string' ? { type: 'text_delta', text: step } : { type: 'input_json_delta', partial_json: JSON.stringify(step.input) };
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    for (const [type, data] of [
      ['message_start', { message: { id: 'msg_1', type: 'message', role: 'assistant', model, content: [], stop_reason: null, stop_sequence: null, usage: { input_tokens: 1, output_tokens: 1 } } }],
      ['content_block_start', { index: 0, content_block: block }],
      ['content_block_delta', { index: 0, delta }],
      ['content_block_stop', { index: 0 }],
      ['message_delta', { delta: { stop_reason: typeof step === 'string' ? 'end_turn' : 'tool_use', stop_sequence: null }, usage: { output_tokens: 1 } }],
      ['message_stop', {}],
    ]) response.write(`event: ${type}\ndata: ${JSON.stringify({ type, ...data })}\n\n`);
    response.end();
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => { server.close(); server.closeAllConnections(); } };
}

// claudeCode runs Claude Code itself, which starts the gateway as a command. Its model browses until every server is up, runs
// the program, and ends with what the program returned. No account is needed, and nothing leaves the machine.
async function claudeCode(weir, file, input) {
  await install('claude-code');
  let ran;
  let browses = 0;
  const model = await startModel((result) => {
    if (ran === 'now') {
      ran = result;
      return result;
    }
    if (!result || (!up(result) && browses < 200)) {
      browses++;
      return { name: 'tool_browse', input: { path: '/' } };
    }
    ran = 'now';
    return { name: 'tool_run', input: { program, input } };
  });
  const home = join(scratch, 'home');
  rmSync(home, { recursive: true, force: true });
  mkdirSync(home);
  const mcp = writeConfig('claude-code', { mcpServers: { weir: { command: weir, args: ['serve', '--stdio', '--mode', 'gateway', '--config', file] } } });
  try {
    await run('claude-code', node22(), [modules('claude-code', '@anthropic-ai/claude-code/cli-wrapper.cjs'), '-p', 'Run the program.', '--mcp-config', mcp,
      '--strict-mcp-config', '--allowedTools', 'mcp__weir__tool_browse', 'mcp__weir__tool_run', '--output-format', 'json'], {
      cwd: home, limit: 150_000,
      env: {
        ...Object.fromEntries(Object.keys(process.env).map((name) => [name, undefined])),
        PATH: process.env.PATH, HOME: home, USERPROFILE: home, LANG: 'C.UTF-8', ANTHROPIC_BASE_URL: model.url, ANTHROPIC_API_KEY: 'none',
        DISABLE_AUTOUPDATER: '1', CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: '1', ENABLE_TOOL_SEARCH: 'false',
      },
    });
  } finally {
    model.close();
  }
  return ran;
}

// vsCode posts, and its calls name the conversation and the request.
async function vsCode(url, input) {
  const wire = new Wire(posting(url));
  await wire.introduce({ name: 'Visual Studio Code', version: '1.106.0' }, {
    roots: { listChanged: true }, sampling: {}, elicitation: { form: {}, url: {} },
    tasks: { list: {}, cancel: {}, requests: { sampling: { createMessage: {} }, elicitation: { create: {} } } },
  });
  return wire.request('tools/call', {
    name: 'tool_run', arguments: { program, input },
    _meta: { progressToken: 'b1946ac9-2d1f-4b5a-9d0e-6f1c2a3b4c5d', 'vscode.conversationId': '4c0e1f6e-5b7a-4d52-8e53-0a1b2c3d4e5f', 'vscode.requestId': 'request_1' },
  });
}

export async function programs({ weir }) {
  const report = new Report('programs over eight servers');
  if (!weir) return report.close();
  const { config, input } = await make(weir);
  const gateway = await startWeir(weir, 'weir-programs', config, ['--mode', 'gateway']);
  input.page = `${gateway.base}/healthz`;
  const file = writeConfig('weir-programs-stdio', config);
  const targets = { http: { url: gateway.url }, sse: { url: `${gateway.base}/sse` }, stdio: { command: weir, args: ['serve', '--stdio', '--mode', 'gateway', '--config', file] } };
  for (const combination of combinations) {
    await session(report, combination, targets[combination.transport], (client, check) =>
      check('runs a program over eight servers', async () => {
        await settled((name, args) => client.call(name, args));
        expectRan(await client.call('tool_run', { program, input }));
      }));
  }
  await report.check('Claude Code: the same program', async () => {
    const text = await claudeCode(weir, file, input);
    expectEqual(JSON.parse(text ?? '""'), wanted, 'what its model read of the program');
  });
  await report.check("VS Code's messages: the same program", async () => expectRan(await vsCode(gateway.url, input)));
  await gateway.stop();
  return report.close();
}

if (process.argv[1] === join(here, 'programs.mjs')) {
  await main(async (options) => { await setup(); await pythonServers(); return programs(options); });
}
