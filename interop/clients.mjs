// The official clients, TypeScript 1.x and 2.x and Python 1.x and 2.x, use weir's gateway: they browse, execute and view over
// streamable HTTP in both eras, over HTTP+SSE and over stdio; then weir in proxy mode and in plain mode.
//
//   node interop/clients.mjs --weir bin/weir
//   node interop/clients.mjs                     the clients directly against server-everything: is the harness itself sound?
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fixtures } from './fixtures.mjs';
import {
  Client, everythingServer, everythingStdio, expect, expectEqual, filesStdio, here, main, memoryStdio, Report, startWeir, textOf, scratch, writeConfig,
} from './harness.mjs';
import { setup } from './setup.mjs';

const modern = '2026-07-28';
export const combinations = [
  { kind: 'ts1', transport: 'http' }, { kind: 'ts1', transport: 'sse' }, { kind: 'ts1', transport: 'stdio' },
  { kind: 'ts2', transport: 'http' }, { kind: 'ts2', transport: 'http', mode: { pin: modern } },
  { kind: 'ts2', transport: 'sse' }, { kind: 'ts2', transport: 'stdio' }, { kind: 'ts2', transport: 'stdio', mode: 'auto' },
  { kind: 'python1', transport: 'http' }, { kind: 'python1', transport: 'sse' }, { kind: 'python1', transport: 'stdio' },
  { kind: 'python2', transport: 'http' }, { kind: 'python2', transport: 'http', mode: 'auto' },
  { kind: 'python2', transport: 'sse' }, { kind: 'python2', transport: 'stdio' }, { kind: 'python2', transport: 'stdio', mode: 'auto' },
];
export const label = ({ kind, transport, mode = 'legacy' }) => `${kind} ${transport} ${mode.pin ?? mode}`;

// session runs checks with one client and always closes it.
export async function session(report, combination, target, checks) {
  const name = label(combination);
  const client = await report.check(`${name}: connects`, () => Client.connect(combination.kind, { ...target, transport: combination.transport, mode: combination.mode }));
  if (!client) return;
  try {
    await checks(client, (what, run) => report.check(`${name}: ${what}`, run));
  } finally {
    await client.close();
  }
}

const names = (result) => result.tools.map((tool) => tool.name);
export const idsIn = (text) => text.match(/\b[a-z][a-z0-9_-]*:[A-Za-z_][A-Za-z0-9_.-]*(?:@[A-Za-z0-9._-]+)?(?:#[0-9a-f]{8})?/g) ?? [];
export const envelopeOf = (result) => {
  const envelope = result._meta?.['weir/envelope'];
  expect(envelope, 'the result has no _meta["weir/envelope"]', result);
  return envelope;
};

// errorOf takes a tool result that must be one of the gateway's own errors.
export function errorOf(result) {
  expect(result.isError === true, 'isError is not set', result);
  try {
    const error = JSON.parse(textOf(result));
    expect(typeof error.message === 'string' && typeof error.retryable === 'boolean' && 'path' in error, 'an error lacks message, path or retryable', error);
    return error;
  } catch (cause) {
    if (cause instanceof SyntaxError) expect(false, 'the error is not JSON', textOf(result));
    throw cause;
  }
}

// hasSchema looks for a JSON Schema that declares a property anywhere in a value.
const hasSchema = (value, property) => value !== null && typeof value === 'object'
  && ((typeof value.properties === 'object' && value.properties !== null && property in value.properties) || Object.values(value).some((v) => hasSchema(v, property)));

export async function findTool(client, query, prefix) {
  const text = textOf(await client.call('tool_browse', { query }));
  const id = idsIn(text).find((id) => id === prefix || id.startsWith(`${prefix}#`) || id.startsWith(`${prefix}@`));
  expect(id, `browsing for ${JSON.stringify(query)} does not show ${prefix}`, text);
  return id;
}

async function gatewayFlow(client, check, combination, files, direct) {
  await check('negotiates the era it asked for', () => {
    const version = client.session.protocolVersion;
    if (version) expect((version === modern) === Boolean(combination.mode), `negotiated ${version}`);
    // A modern server may leave its name out of a result; a legacy one names itself when it is initialized.
    if (!combination.mode) expect(client.session.server?.name, 'the server has no name', client.session);
  });
  await check('lists four tools, and four verbs for the resources and prompts that there are', async () => {
    let result = await client.get('listTools');
    // A gateway that starts with its client tells of the verbs as its servers come up.
    for (const until = Date.now() + 60_000; names(result).length < 8 && Date.now() < until; await sleep(100)) result = await client.get('listTools');
    expectEqual(names(result).sort(), ['tool_browse', 'tool_execute', 'tool_run', 'tool_view', ...primitiveVerbs].sort(), 'tools');
    for (const tool of result.tools) expect(tool.description && tool.inputSchema.type === 'object', `${tool.name} is not described`, tool);
  });

  const echo = await check('browses by query', () => findTool(client, 'echo back a message', 'everything:echo'));
  await check('browses by path', async () => {
    const root = textOf(await client.call('tool_browse', { path: '/' }));
    for (const namespace of ['everything', 'files', 'memory']) expect(root.includes(namespace), `/ does not show ${namespace}`, root);
    const level = textOf(await client.call('tool_browse', { path: '/files' }));
    const listed = idsIn(level).map((id) => id.replace(/[@#].*/, ''));
    expectEqual([...new Set(listed)].sort(), direct.filesTools.map((name) => `files:${name}`).sort(), 'tools at /files');
    expectEqual(textOf(await client.call('tool_browse', { path: '/files/*' })), level, '/files/*');
  });

  await check('a small result passes unchanged, with an envelope in _meta', async () => {
    const result = await client.call('tool_execute', { tool_id: echo, args: { message: 'hello' } });
    expectEqual(result.content, [{ type: 'text', text: 'Echo: hello' }], 'content');
    expect(!result.isError, 'isError is set', result);
    expect(result.structuredContent === undefined, 'structuredContent was added', result.structuredContent);
    const envelope = envelopeOf(result);
    expect(envelope.status === 'ok' && envelope.firewall_stats?.triggered === false, 'wrong envelope', envelope);
    expect(envelope.provenance?.tool_id === echo, 'provenance does not name the tool', envelope.provenance);
  });
  await check('an image passes unchanged', async () => {
    const result = await client.call('tool_execute', { tool_id: await findTool(client, 'tiny image', 'everything:get-tiny-image'), args: {} });
    expectEqual(result.content, direct.image.content, 'content');
  });
  await check('JSON on request', async () => {
    const result = await client.get('callTool', { name: 'tool_execute', arguments: { tool_id: echo, args: { message: 'hello' } }, _meta: { 'weir/format': 'json' } });
    expect(result.structuredContent?.status === 'ok', 'structuredContent is not the envelope', result);
    expectEqual(JSON.parse(textOf(result)), result.structuredContent, 'text');
  });

  const read = await check('finds the tool that reads files', () => findTool(client, 'read a text file', 'files:read_text_file'));
  await check('runs a program of calls to two servers', async () => {
    const program = `const [said, file] = await Promise.all([
  tools.everything.echo({message: input.word}),
  call(input.read, {path: input.path}),
]);
return {said, lines: (file.content ?? file).split('\\n').length};`;
    const result = await client.call('tool_run', { program, input: { word: 'hello', read, path: files.long.file } });
    expect(!result.isError, 'the program failed', textOf(result));
    expectEqual(JSON.parse(textOf(result)), { said: 'Echo: hello', lines: files.long.text.split('\n').length }, 'what the program returned');
  });
  const held = (file) => async () => {
    const result = await client.call('tool_execute', { tool_id: read, args: { path: file.file } });
    const text = textOf(result);
    expect(text.length < file.text.length / 2, `the text has ${text.length} of ${file.text.length} characters`, text);
    const envelope = envelopeOf(result);
    expect(envelope.status === 'ok' && envelope.firewall_stats?.triggered === true, 'wrong envelope', envelope);
    const artifact = envelope.artifacts.find((a) => a.content_hash === file.sha256);
    expect(artifact, 'no artifact holds the bytes of the file', envelope.artifacts);
    expect(artifact.size_bytes === file.size, `size_bytes is ${artifact.size_bytes}, want ${file.size}`);
    expect(text.includes(artifact.handle), 'the text does not name the handle', text);
    expect(result.structuredContent === undefined, 'structuredContent reached the client', result);
    return artifact.handle;
  };
  const alerts = await check('a large JSON result is held back with a handle', held(files.alerts));
  const long = await check('a long text is held back with a handle', held(files.long));

  const view = async (handle, selector) => {
    const result = await client.call('tool_view', { handle, selector });
    expect(!result.isError, 'the view failed', textOf(result));
    return textOf(result);
  };
  await check('views head', async () => {
    const text = await view(long, { type: 'head', chars: 120 });
    expect(text.includes(files.long.text.slice(0, 120)) && !text.includes('line 5:'), 'wrong part', text);
  });
  await check('views lines', async () => {
    const text = await view(long, { type: 'lines', start: 210, end: 213 });
    expect(['line 210:', 'line 211:', 'line 212:'].every((line) => text.includes(line)) && !text.includes('line 209:') && !text.includes('line 213:'), 'wrong lines', text);
  });
  await check('views rows', async () => {
    const text = await view(long, { type: 'rows', start: 3, end: 5 });
    expect(text.includes('line 3:') && text.includes('line 4:') && !text.includes('line 5:'), 'wrong rows', text);
  });
  await check('views a search', async () => {
    const text = await view(long, { type: 'search', pattern: 'dog 27(09|16)$' });
    expect(text.includes('line 387:') && text.includes('line 388:') && !text.includes('line 386:'), 'wrong matches', text);
  });
  await check('views JSON keys', async () => {
    const text = await view(alerts, { type: 'json_keys', keys: ['title', 'count'] });
    expect(text.includes('Alerts of the interop run') && text.includes('200') && !text.includes('alert-1'), 'wrong keys', text);
  });
  await check('views a JSON path', async () => {
    const text = await view(alerts, { type: 'json_path', path: '$.alerts[137].headline' });
    expect(text.includes(files.alert(137).headline) && !text.includes('number 138'), 'wrong value', text);
  });
  await check('a wrong selector is VIEW_FAILED and names the parameter', async () => {
    const error = errorOf(await client.call('tool_view', { handle: long, selector: { type: 'head', chars: 'many' } }));
    expect(error.error === 'VIEW_FAILED' && error.message.includes('chars'), 'wrong error', error);
  });
  await check('an unknown handle is VIEW_FAILED', async () => {
    const error = errorOf(await client.call('tool_view', { handle: 'no-such-handle', selector: { type: 'head' } }));
    expect(error.error === 'VIEW_FAILED', 'wrong error', error);
  });

  await check('an unknown tool_id is HYDRATE_FAILED', async () => {
    const error = errorOf(await client.call('tool_execute', { tool_id: 'everything:ech#00000000', args: {} }));
    expect(error.error === 'HYDRATE_FAILED' && error.retryable === false, 'wrong error', error);
  });
  await check('bad arguments are ARGS_INVALID with the schema', async () => {
    const error = errorOf(await client.call('tool_execute', { tool_id: echo, args: { message: 7 } }));
    expect(error.error === 'ARGS_INVALID', 'wrong error', error);
    expect(hasSchema(error.details, 'message'), 'details carry no schema', error.details);
  });
  await check('query and path together are ARGS_INVALID', async () => {
    const error = errorOf(await client.call('tool_browse', { query: 'echo', path: '/' }));
    expect(error.error === 'ARGS_INVALID', 'wrong error', error);
  });
  await check('a path to nowhere is PATH_NOT_FOUND, a malformed one PATH_INVALID', async () => {
    expectEqual(errorOf(await client.call('tool_browse', { path: '/nowhere' })).error, 'PATH_NOT_FOUND', 'error');
    expectEqual(errorOf(await client.call('tool_browse', { path: '//files' })).error, 'PATH_INVALID', 'error');
  });
  await check("a tool's own error stays the tool's", async () => {
    const result = await client.call('tool_execute', { tool_id: read, args: { path: join(files.root, 'missing.txt') } });
    expect(result.isError === true && /ENOENT|no such file|not found/i.test(textOf(result)), 'wrong result', result);
    expect(envelopeOf(result).status === 'error', 'wrong envelope', result._meta);
  });
}

// primitivesFlow uses resources and prompts through the verbs, and as clients know them.
async function primitivesFlow(client, check, direct) {
  const first = (text) => text.split(' ')[0];
  const resource = direct.resources.find(({ mimeType }) => mimeType?.startsWith('text/'));
  await check('browses and reads a resource', async () => {
    const level = textOf(await client.call('resource_browse', { path: '/everything' }));
    expect(level.includes('resource::everything:') && !level.includes('prompt::'), 'no resources, or prompts among them', level);
    const id = first(textOf(await client.call('resource_browse', { query: resource.name, top_k: 1 })));
    const result = await client.call('resource_read', { resource_id: id });
    const envelope = envelopeOf(result);
    expect(envelope.provenance?.primitive === 'resource' && envelope.provenance.resource_id === id, 'wrong provenance', envelope.provenance);
    expect(!result.isError && textOf(result).length > 0, 'nothing was read', result);
    expectEqual(errorOf(await client.call('resource_read', { resource_id: 'resource::everything:none#00000000' })).error, 'RESOURCE_NOT_FOUND', 'error');
  });
  await check('the client lists and reads resources itself', async () => {
    const listed = (await client.get('listResources')).resources.map(({ uri }) => uri);
    expect(listed.includes(resource.uri), `${resource.uri} is not listed`, listed);
    const { contents } = await client.get('readResource', { uri: resource.uri });
    expectEqual(contents[0].text, direct.content.text, 'text');
  });
  await check('browses and renders a prompt', async () => {
    const id = first(textOf(await client.call('prompt_browse', { query: 'args prompt city state', top_k: 1 })));
    expect(id.startsWith('prompt::everything:'), 'no prompt', id);
    const error = errorOf(await client.call('prompt_get', { prompt_id: id, args: {} }));
    expect(error.error === 'ARGS_INVALID' && hasSchema(error.details, 'city'), 'wrong error', error);
    expect(textOf(await client.call('prompt_get', { prompt_id: id, args: { city: 'Gent' } })).includes('Gent'), 'the argument is not in it');
    expectEqual(errorOf(await client.call('prompt_get', { prompt_id: 'prompt::everything:none#00000000', args: {} })).error, 'PROMPT_NOT_FOUND', 'error');
  });
}

// backChannelFlow runs tools that ask their client: in the modern era in rounds.
async function backChannelFlow(client, check) {
  await check('a server that is executed asks for sampling', async () => {
    const id = await findTool(client, 'trigger sampling request', 'everything:trigger-sampling-request');
    const text = textOf(await client.call('tool_execute', { tool_id: id, args: { prompt: 'x' } }));
    expect(text.includes('an answer sampled by the client'), 'no sampled answer', text);
  });
  await check('a server that is executed asks a person', async () => {
    const id = await findTool(client, 'trigger elicitation request', 'everything:trigger-elicitation-request');
    const text = textOf(await client.call('tool_execute', { tool_id: id, args: {} }));
    expect(text.includes('Ada'), 'no elicited answer', text);
  });
  await check('progress of an execution arrives', async () => {
    const id = await findTool(client, 'long running operation', 'everything:trigger-long-running-operation');
    const { result, progress } = await client.ask('callTool', { name: 'tool_execute', arguments: { tool_id: id, args: { duration: 1, steps: 4 } } });
    expect(!result?.isError && progress?.length > 0, 'no progress', { result, progress });
  });
}
// server-everything has resources and prompts, so the verbs for them are listed; proxy mode lists the primitives themselves.
const primitiveVerbs = ['resource_browse', 'resource_read', 'prompt_browse', 'prompt_get'];

async function proxyFlow(client, check, direct) {
  const echo = await check('proxy: lists every tool, stripped', async () => {
    const { tools } = await client.get('listTools');
    const verbs = ['tool_hydrate', 'tool_execute'];
    const listed = tools.filter((tool) => !verbs.includes(tool.name));
    expectEqual(tools.map((tool) => tool.name).filter((name) => verbs.includes(name)).sort(), verbs.sort(), 'verbs');
    expect(listed.length === direct.everythingTools.length + direct.filesTools.length, `${listed.length} tools, want ${direct.everythingTools.length} + ${direct.filesTools.length}`, listed.map((tool) => tool.name));
    for (const tool of listed) expectEqual(tool.inputSchema, { type: 'object' }, `inputSchema of ${tool.name}`);
    const found = listed.find((tool) => tool.name === 'everything__echo');
    expect(found, 'everything__echo is not listed', listed.map((tool) => tool.name));
    return found.name;
  });
  await check('proxy: hydrates', async () => {
    const text = textOf(await client.call('tool_hydrate', { tool_id: echo }));
    expect(hasSchema(JSON.parse(text), 'message'), 'the schema is not in it', text);
  });
  await check('proxy: executes and returns the raw result', async () => {
    const result = await client.call('tool_execute', { tool_id: echo, args: { message: 'raw' } });
    expectEqual(result.content, [{ type: 'text', text: 'Echo: raw' }], 'content');
  });
  await check('proxy: bad arguments are ARGS_INVALID', async () => {
    expectEqual(errorOf(await client.call('tool_execute', { tool_id: echo, args: {} })).error, 'ARGS_INVALID', 'error');
  });
  await check('proxy: calls a listed tool by its name', async () => {
    const result = await client.call(echo, { message: 'direct' });
    expectEqual(result.content, [{ type: 'text', text: 'Echo: direct' }], 'content');
  });
}

// acceptedName is what every model provider accepts as the name of a tool.
const acceptedName = /^[A-Za-z0-9_-]{1,64}$/;

async function plainFlow(client, check, files, direct) {
  await check('plain: lists every tool with its schema, under a name that providers accept', async () => {
    const { tools } = await client.get('listTools');
    const listed = tools.filter((tool) => tool.name.includes('__'));
    expect(listed.length === direct.everythingTools.length + direct.filesTools.length, `${listed.length} tools, want ${direct.everythingTools.length} + ${direct.filesTools.length}`, names({ tools }));
    for (const { name } of tools) expect(acceptedName.test(name), 'a name that a provider would refuse', name);
    const echo = listed.find((tool) => tool.name === 'everything__echo');
    expect(echo?.inputSchema.properties?.message, 'everything__echo has no schema', echo);
    expect(tools.some((tool) => tool.name === 'tool_view'), 'there is no tool_view', names({ tools }));
  });
  await check('plain: calls a tool by its name', async () => {
    expectEqual((await client.call('everything__echo', { message: 'plain' })).content, [{ type: 'text', text: 'Echo: plain' }], 'content');
  });
  await check('plain: bad arguments are ARGS_INVALID', async () => {
    expectEqual(errorOf(await client.call('everything__echo', {})).error, 'ARGS_INVALID', 'error');
  });
  await check('plain: a long result is held back, and viewed', async () => {
    const result = await client.call('files__read_text_file', { path: files.long.file });
    const [handle] = /art_[a-z0-9]+/.exec(textOf(result)) ?? [];
    expect(handle, 'there is no handle', textOf(result));
    const view = textOf(await client.call('tool_view', { handle, selector: { type: 'head', chars: 40 } }));
    expect(view.includes(files.long.text.slice(0, 40)), 'another text', view);
  });
}

async function aResource(everything) {
  const { resources } = await everything.get('listResources');
  const { uri } = resources.find(({ mimeType }) => mimeType?.startsWith('text/'));
  const { contents } = await everything.get('readResource', { uri });
  return { resources, content: contents[0] };
}

// whatIsThere asks the servers directly what the gateway must show.
async function whatIsThere(files) {
  const everything = await Client.connect('ts1', { transport: 'stdio', ...everythingStdio() });
  const filesystem = await Client.connect('ts1', { transport: 'stdio', ...filesStdio(files.root) });
  try {
    return {
      everythingTools: names(await everything.get('listTools')),
      filesTools: names(await filesystem.get('listTools')),
      image: await everything.call('get-tiny-image'),
      ...await aResource(everything),
    };
  } finally {
    await everything.close();
    await filesystem.close();
  }
}

async function throughWeir(report, weir) {
  const files = fixtures();
  const direct = await whatIsThere(files);
  const config = {
    mcpServers: { everything: everythingStdio(), files: filesStdio(files.root), memory: memoryStdio(join(scratch, 'memory.json')) },
  };
  const gateway = await startWeir(weir, 'weir-clients', config);
  const stdio = { command: weir, args: ['serve', '--stdio', '--config', writeConfig('weir-clients-stdio', config)] };
  const targets = { http: { url: gateway.url }, sse: { url: `${gateway.base}/sse` }, stdio };
  for (const combination of combinations) {
    await session(report, combination, targets[combination.transport], async (client, check) => {
      await gatewayFlow(client, check, combination, files, direct);
      await primitivesFlow(client, check, direct);
      await backChannelFlow(client, check);
    });
  }
  await report.check('SIGTERM ends weir within 5 s', async () => {
    const { code, took, killed } = await gateway.stop();
    expect(!killed && code === 0 && took < 5000, `exit code ${code} after ${Math.round(took)} ms${killed ? ', killed' : ''}`);
  });

  const proxied = { mcpServers: { everything: config.mcpServers.everything, files: config.mcpServers.files } };
  const proxy = await startWeir(weir, 'weir-proxy', proxied, ['--mode', 'proxy']);
  const proxyStdio = { command: weir, args: ['serve', '--stdio', '--mode', 'proxy', '--config', writeConfig('weir-proxy-stdio', proxied)] };
  const proxyTargets = { http: { url: proxy.url }, sse: { url: `${proxy.base}/sse` }, stdio: proxyStdio };
  for (const combination of combinations) {
    await session(report, combination, proxyTargets[combination.transport], (client, check) => proxyFlow(client, check, direct));
  }
  await proxy.stop();

  const plain = await startWeir(weir, 'weir-clients-plain', proxied, ['--mode', 'plain']);
  const plainStdio = { command: weir, args: ['serve', '--stdio', '--mode', 'plain', '--config', writeConfig('weir-clients-plain-stdio', proxied)] };
  const plainTargets = { http: { url: plain.url }, sse: { url: `${plain.base}/sse` }, stdio: plainStdio };
  for (const combination of combinations) {
    await session(report, combination, plainTargets[combination.transport], (client, check) => plainFlow(client, check, files, direct));
  }
  await plain.stop();
}

// directly checks the harness: each client against server-everything over the transports that server has.
async function directly(report) {
  const targets = { http: { url: (await everythingServer('http')).url }, sse: { url: (await everythingServer('sse')).url }, stdio: everythingStdio() };
  for (const combination of combinations.filter(({ mode }) => !mode || mode === 'auto')) {
    await session(report, combination, targets[combination.transport], async (client, check) => {
      await check('lists and calls', async () => {
        expect(names(await client.get('listTools')).includes('echo'), 'echo is not listed');
        expectEqual(textOf(await client.call('echo', { message: 'hello' })), 'Echo: hello', 'text');
      });
      await check('answers sampling and elicitation', async () => {
        expect(textOf(await client.call('trigger-sampling-request', { prompt: 'x' })).includes('an answer sampled by the client'), 'no sampled answer');
        expect(textOf(await client.call('trigger-elicitation-request')).includes('Ada'), 'no elicited answer');
      });
      await check('errors arrive with their code', async () => {
        const { error } = await client.ask('readResource', { uri: 'nothing://here' });
        expect(error?.code === -32602 || error?.code === -32002, 'wrong error', error);
      });
    });
  }
}

export async function officialClients({ weir }) {
  const report = new Report(weir ? 'clients through weir' : 'clients, direct');
  await (weir ? throughWeir(report, weir) : directly(report));
  return report.close();
}

if (process.argv[1] === join(here, 'clients.mjs')) {
  await main(async (options) => { await setup(); return officialClients(options); });
}
