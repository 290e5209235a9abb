// Foreign servers as upstreams of weir: server-everything and server-filesystem, each over stdio, streamable HTTP and HTTP+SSE.
// What a client gets through /mcps/{name}/mcp must be what it gets from the server itself, and the gateway must reach the same
// tools with the same results.
//
//   node interop/matrix.mjs --weir bin/weir
//   node interop/matrix.mjs                     compares each server with itself: are the checks themselves repeatable?
import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixtures } from './fixtures.mjs';
import {
  Client, everythingServer, everythingStdio, expect, expectEqual, filesServer, filesStdio, here, main, memoryStdio, Report, startWeir, textOf, scratch,
} from './harness.mjs';
import { setup } from './setup.mjs';

const asJSON = (value) => JSON.parse(JSON.stringify(value));

// A comparison is an operation that both sides answer; the whole replies must be equal. The refusals among them must be errors,
// of the protocol or of the tool, and the others must not. Results that hold the time or an address are left out.
const answers = (files) => ({
  everything: [
    ['tools', 'listTools'], ['resources', 'listResources'], ['resource templates', 'listResourceTemplates'], ['prompts', 'listPrompts'],
    ['a text result', 'callTool', { name: 'echo', arguments: { message: 'grüße 🌊 \u2028 end' } }],
    ['numbers', 'callTool', { name: 'get-sum', arguments: { a: 0.1, b: 9007199254740991 } }],
    ['structured content', 'callTool', { name: 'get-structured-content', arguments: { location: 'Chicago' } }],
    ['an image', 'callTool', { name: 'get-tiny-image', arguments: {} }],
    ['annotations', 'callTool', { name: 'get-annotated-message', arguments: { messageType: 'error', includeImage: true } }],
    ['resource links', 'callTool', { name: 'get-resource-links', arguments: { count: 3 } }],
    ['a large text', 'callTool', { name: 'echo', arguments: { message: 'x'.repeat(300_000) } }],
    ['sampling during a call', 'callTool', { name: 'trigger-sampling-request', arguments: { prompt: 'name a weir' } }],
    ['elicitation during a call', 'callTool', { name: 'trigger-elicitation-request', arguments: {} }],
    ['a resource', 'readResource', { uri: 'demo://resource/static/document/features.md' }],
    ['a prompt', 'getPrompt', { name: 'args-prompt', arguments: { city: 'Leeds', state: 'Yorkshire' } }],
    ['a completion', 'complete', { ref: { type: 'ref/prompt', name: 'completable-prompt' }, argument: { name: 'department', value: 'E' } }],
  ],
  files: [
    ['tools', 'listTools'],
    ['a directory', 'callTool', { name: 'list_directory', arguments: { path: files.root } }],
    ['a small file', 'callTool', { name: 'read_text_file', arguments: { path: files.small.file } }],
    ['a large file', 'callTool', { name: 'read_text_file', arguments: { path: files.alerts.file } }],
  ],
});

const refusals = (files) => ({
  everything: [
    ['an unknown tool', 'callTool', { name: 'no-such-tool', arguments: {} }],
    ['wrong arguments', 'callTool', { name: 'get-sum', arguments: { a: 'one' } }],
    ['an unknown resource', 'readResource', { uri: 'demo://resource/nowhere' }],
    ['an unknown prompt', 'getPrompt', { name: 'no-such-prompt' }],
  ],
  files: [
    ['a missing file', 'callTool', { name: 'read_text_file', arguments: { path: join(files.root, 'missing') } }],
    ['a forbidden file', 'callTool', { name: 'read_text_file', arguments: { path: '/etc/hostname' } }],
  ],
});

// What the gateway is asked for: a query that finds the tool, the tool, its arguments.
const executions = (files) => ({
  everything: ['echo back a message', 'echo', { message: 'through the gateway' }],
  files: ['read a text file', 'read_text_file', { path: files.small.file }],
});

// comparable leaves out what depends on timing: progress has a check of its own, and when a server logs is its own affair.
const comparable = ({ id, logs, progress, ...reply }) => reply;

async function compareReplies(report, name, direct, through, operations, refused) {
  for (const [what, op, params] of operations) {
    await report.check(`${name}: ${what}`, async () => {
      const want = comparable(await direct.ask(op, params));
      expect(Boolean(want.error || want.result?.isError) === refused, `the server itself ${refused ? 'answered' : 'refused'}`, want);
      expectEqual(comparable(await through.ask(op, params)), want, what);
    });
  }
}

// progress must arrive during the call and in order. The SDK may drop the last one when it comes with the result in one read.
async function checkProgress(report, name, client) {
  await report.check(`${name}: progress during a call`, async () => {
    const reply = await client.ask('callTool', { name: 'trigger-long-running-operation', arguments: { duration: 0.4, steps: 4 } });
    expect(reply.result, 'the call failed', reply.error);
    const steps = reply.progress.map((p) => p.progress);
    expect(steps.length >= 3, `only ${steps.length} of 4 progress notifications`, reply.progress);
    expectEqual(steps, [1, 2, 3, 4].slice(0, steps.length), 'progress');
  });
}

// concurrent has several clients call at the same time; each must get its own answers.
async function checkConcurrent(report, name, connect) {
  await report.check(`${name}: three clients at once, each with its own answers`, async () => {
    const sessions = await Promise.all([1, 2, 3].map(connect));
    try {
      await Promise.all(sessions.map(async (client, who) => {
        for (let i = 0; i < 20; i++) {
          expectEqual(textOf(await client.call('echo', { message: `client ${who} call ${i}` })), `Echo: client ${who} call ${i}`, 'text');
        }
      }));
    } finally {
      await Promise.all(sessions.map((client) => client.close()));
    }
  });
}

async function checkGateway(report, name, gateway, direct, [query, tool, args]) {
  await report.check(`${name}: reached through the gateway`, async () => {
    const level = textOf(await gateway.call('tool_browse', { path: `/${name}` }));
    const id = new RegExp(`\\b${name}:${tool}(?:[@#][^\\s"]+)?`).exec(level)?.[0];
    expect(id, `/${name} does not show ${tool}`, level);
    const found = textOf(await gateway.call('tool_browse', { query: `${query} ${name}`, top_k: 20 }));
    expect(found.includes(id), `browsing for ${JSON.stringify(query)} does not show ${id}`, found);
    const result = await gateway.call('tool_execute', { tool_id: id, args });
    expectEqual(result.content, (await direct.call(tool, args)).content, 'content');
    expect(result._meta?.['weir/envelope']?.status === 'ok', 'wrong envelope', result._meta);
  });
}

// checkMemory changes the state of a server in one call and reads it in another.
async function checkMemory(report, gateway) {
  await report.check('memory: keeps its state between calls', async () => {
    const level = textOf(await gateway.call('tool_browse', { path: '/memory' }));
    const idOf = (tool) => new RegExp(`\\bmemory:${tool}(?:[@#][^\\s"]+)?`).exec(level)?.[0];
    const entities = [{ name: 'weir', entityType: 'dam', observations: ['lets through what is wanted'] }];
    const created = await gateway.call('tool_execute', { tool_id: idOf('create_entities'), args: { entities } });
    expect(!created.isError, 'create_entities failed', created);
    const graph = await gateway.call('tool_execute', { tool_id: idOf('read_graph'), args: {} });
    expect(textOf(graph).includes('lets through what is wanted'), 'the entity is not in the graph', textOf(graph));
  });
}

// checkTasks runs the tool of server-everything that is a task and takes four seconds. If it is ambiguous, it asks its client.
async function checkTasks(report, running, ambiguous) {
  const tool = 'simulate-research-query';
  const what = ambiguous ? 'a task that asks' : 'a task that outlasts its call';
  const args = { topic: 'weirs', ambiguous };
  const isReport = (text) => expect(text.includes('Research Report: weirs') && text.includes('Synthesizing findings'), 'no report', text);
  for (const name of ['everything-stdio', 'everything-http', 'everything-sse']) {
    const plain = `${name}__${tool}`;
    for (const [mode, execute] of [
      ['gateway', (id, more) => ({ name: 'tool_execute', arguments: { tool_id: id, args: { ...args, ...more } } })],
      ['proxy', (id, more) => ({ name: 'tool_execute', arguments: { tool_id: id, args: { ...args, ...more } } })],
      ['plain', (_, more) => ({ name: plain, arguments: { ...args, ...more } })],
    ]) {
      const client = await report.check(`${name}: connects in ${mode} mode`, () => Client.connect('ts1', { transport: 'http', url: `${running.url}?mode=${mode}` }));
      if (!client) continue;
      let id = mode === 'gateway' ? undefined : plain;
      for (const until = Date.now() + 20_000; !id && Date.now() < until; await sleep(100)) { // the server may still be starting
        id = new RegExp(`\\b${name}:${tool}[@#][^\\s"]+`).exec(textOf(await client.call('tool_browse', { path: `/${name}` })))?.[0];
      }
      await report.check(`${name}: ${what} ends in its result in ${mode} mode`, async () => {
        const reply = await client.ask('callTool', execute(id));
        expect(reply.result && !reply.result.isError, 'the call failed', reply);
        const text = await ended(client, mode, textOf(reply.result));
        isReport(text);
        expect(text.includes('Clarification') === ambiguous, 'the question was not answered, or asked in vain', text);
        expect(reply.progress.some(({ message }) => /\.\.\.$/.test(message ?? '')), 'no status message as progress', reply.progress);
        expect(!JSON.stringify(reply.result).includes('taskId'), 'the result names the task of the server', reply.result);
      });
      await client.close();
    }
  }
}

// ended returns the text of a call's result, for which it asks as a model is told to.
async function ended(client, mode, text) {
  for (let i = 0; i < 20 && text.includes('Wait for its result: '); i++) {
    const [, tool, args] = /Wait for its result: (\S+) (\{.*\})/.exec(text);
    expect(tool === (mode === 'proxy' ? 'tool_execute' : 'tool_view'), 'the wrong tool is named', text);
    text = textOf(await client.call(tool, JSON.parse(args)));
  }
  return text;
}

export async function upstreams({ weir }) {
  const report = new Report(weir ? 'upstreams through weir' : 'upstreams, each compared with itself');
  const files = fixtures();
  const memory = join(scratch, 'memory-matrix.json');
  rmSync(memory, { force: true });
  const everything = { stdio: everythingStdio(), http: await everythingServer('http'), sse: await everythingServer('sse') };
  const filesystem = { stdio: filesStdio(files.root), http: await filesServer('http', files.root), sse: await filesServer('sse', files.root) };
  const rows = ['stdio', 'http', 'sse'].flatMap((transport) => [
    { name: `everything-${transport}`, server: 'everything', transport, target: everything[transport] },
    { name: `files-${transport}`, server: 'files', transport, target: filesystem[transport] },
  ]);
  const entry = ({ transport, target: { command, args, url } }) => (transport === 'stdio' ? { command, args } : { type: transport, url });
  const config = { mcpServers: { ...Object.fromEntries(rows.map((row) => [row.name, entry(row)])), memory: memoryStdio(memory) } };

  const target = ({ transport, target: { command, args, url } }) => ({ transport, command, args, url });
  const running = weir && await startWeir(weir, 'weir-matrix', asJSON(config));
  const through = (row) => Client.connect('ts1', running ? { transport: 'http', url: running.at(row.name) } : target(row));
  const gateway = running && await Client.connect('ts1', { transport: 'http', url: running.url });
  for (const row of rows) {
    const direct = await Client.connect('ts1', target(row));
    const client = await report.check(`${row.name}: connects`, () => through(row));
    if (client) {
      // The transport of the direct session differs, and with it whether the SDK tells its version.
      for (const side of [direct, client]) delete side.session.protocolVersion;
      await report.check(`${row.name}: same server, capabilities and instructions`, () => expectEqual(client.session, direct.session, 'session'));
      await compareReplies(report, row.name, direct, client, answers(files)[row.server], false);
      await compareReplies(report, row.name, direct, client, refusals(files)[row.server], true);
      if (row.server === 'everything') await checkProgress(report, row.name, client);
      await client.close();
    }
    if (row.server === 'everything') await checkConcurrent(report, row.name, () => through(row));
    if (gateway) await checkGateway(report, row.name, gateway, direct, executions(files)[row.server]);
    await direct.close();
  }
  if (gateway) {
    await checkMemory(report, gateway);
    await checkTasks(report, running, true);
    await gateway.close();
    await running.stop();
    const hasty = await startWeir(weir, 'weir-tasks', asJSON({ ...config, tasks: { wait: '1s' } }));
    await checkTasks(report, hasty, false);
    await hasty.stop();
  }
  return report.close();
}

if (process.argv[1] === join(here, 'matrix.mjs')) {
  await main(async (options) => { await setup(); return upstreams(options); });
}
