// MCPBrowserClient.js in a real browser: a page behind weir lists, calls, streams progress, polls tasks, cancels, loses and
// regains a session, and reads errors.
//
//   node interop/browser.mjs --weir bin/weir
//   node interop/browser.mjs                    the client alone, against a server of this file that misbehaves
import { createServer } from 'node:http';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { everythingStdio, expect, expectEqual, freePort, here, main, Report, scratch, start, startWeir, stop, tail, writeConfig, Wrong } from './harness.mjs';
import { setup } from './setup.mjs';

const source = join(here, '..', 'internal', 'passthrough', 'web', 'MCPBrowserClient.js');

// --- a server that loses sessions and breaks off answers ---

// flaky counts its tools' runs. Its tools: count; cut, whose connection breaks before the answer; torn, whose answer breaks
// off; resume, whose stream breaks
// behind an event id and goes on from there; forget, after which no session is known.
async function flaky() {
  const state = { runs: {}, greeted: 0, sessions: new Set(), resumed: 0 };
  const server = createServer(async (request, response) => {
    const url = new URL(request.url, 'http://localhost');
    if (url.pathname === '/MCPBrowserClient.js') return response.writeHead(200, { 'Content-Type': 'text/javascript' }).end(readFileSync(source));
    if (url.pathname !== '/mcp') return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>page</title>');
    const session = request.headers['mcp-session-id'];
    const json = (status, body, headers = {}) => response.writeHead(status, { 'Content-Type': 'application/json', ...headers }).end(JSON.stringify(body));
    const event = (id, message) => response.write(`id: ${id}\nretry: 20\ndata: ${JSON.stringify(message)}\n\n`);
    if (session && !state.sessions.has(session)) return json(404, { jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } });
    if (request.method === 'GET') {
      const last = request.headers['last-event-id'];
      if (!last) return response.writeHead(405).end();
      state.resumed++;
      response.writeHead(200, { 'Content-Type': 'text/event-stream' });
      event(`${last}x`, { jsonrpc: '2.0', id: Number(last.split('-')[0]), result: { content: [{ type: 'text', text: 'resumed' }] } });
      return response.end();
    }
    if (request.method === 'DELETE') { state.sessions.delete(session); return response.writeHead(204).end(); }
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params } = JSON.parse(body);
    if (method === 'initialize') {
      const fresh = `s${++state.greeted}`;
      state.sessions.add(fresh);
      return json(200, { jsonrpc: '2.0', id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'flaky', version: '1' } } }, { 'Mcp-Session-Id': fresh });
    }
    if (id === undefined) return response.writeHead(202).end();
    const tool = params?.name ?? method;
    state.runs[tool] = (state.runs[tool] ?? 0) + 1;
    switch (tool) {
      case 'cut': return response.destroy();
      case 'torn':
        response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': '1000' }).write('{');
        return setTimeout(() => response.destroy(), 50);
      case 'forget': state.sessions.clear(); break;
      case 'resume':
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        event(`${id}-1`, { jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: params._meta?.progressToken, progress: 1 } });
        return setTimeout(() => response.destroy(), 50);
      case 'split': { // events in pieces, with every kind of line end
        response.writeHead(200, { 'Content-Type': 'text/event-stream' });
        const text = `: comment\r\nevent: message\r\ndata: {"jsonrpc":"2.0","id":${id},\r\ndata: "result":{"content":[{"type":"text","text":"grüße 🌊"}]}}\r\n\r\n`;
        const bytes = Buffer.from(text);
        for (let at = 0; at < bytes.length; at += 3) { response.write(bytes.subarray(at, at + 3)); await sleep(1); }
        return response.end();
      }
      case 'tools/list': return json(200, { jsonrpc: '2.0', id, result: params?.cursor ? { tools: [{ name: 'second' }] } : { tools: [{ name: 'first' }], nextCursor: '1' } });
    }
    return json(200, { jsonrpc: '2.0', id, result: { content: [{ type: 'text', text: String(state.runs[tool]) }] } });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { state, url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

// client puts a client into the page as window.client.
async function client(page, at, baseUrl, options = {}) {
  return page.run(async (at, baseUrl, options) => {
    const { MCPBrowserClient, MCPError, createAgentClient } = await import(`${at}/MCPBrowserClient.js`);
    const outcome = async (promise) => {
      try { return { value: await promise }; } catch (error) {
        return { error: { name: error.name, mcp: error instanceof MCPError, code: error.code, message: error.message, data: error.data, status: error.status } };
      }
    };
    Object.assign(window, { MCPBrowserClient, createAgentClient, outcome, client: new MCPBrowserClient({ baseUrl, pollInterval: 100, ...options }) });
  }, at, baseUrl, options);
}

const text = (outcome) => outcome.value?.content?.map((part) => part.text).join('\n');

// checkFaults drives the client against the flaky server, directly or through weir.
async function checkFaults(report, page, where, { state }, through) {
  const fresh = () => { state.runs = {}; };
  await report.check(`${where}: all pages of a list`, async () => {
    expectEqual(await page.run(() => client.listTools()), [{ name: 'first' }, { name: 'second' }], 'tools');
  });
  await report.check(`${where}: events in pieces`, async () => {
    expectEqual(text(await page.run(() => outcome(client.callTool('split')))), 'grüße 🌊', 'text');
  });
  await report.check(`${where}: a lost session is made again, and the call runs once`, async () => {
    fresh();
    const before = state.greeted;
    await page.run(() => client.callTool('forget'));
    expectEqual(text(await page.run(() => outcome(client.callTool('count')))), '1', 'runs');
    expect(state.greeted > before, 'there is no new session', state.greeted);
  });
  await report.check(`${where}: a call whose answer is lost is not sent again`, async () => {
    fresh();
    // Browsers themselves send a request again of whose answer not a byte came on a connection that was used before. weir does
    // not, and always answers.
    for (const tool of through ? ['cut', 'torn'] : ['torn']) {
      const { error } = await page.run((tool) => outcome(client.callTool(tool)), tool);
      expect(error?.mcp && error.code === -32603, 'wrong error', error);
      expect(through || error.data?.mayHaveRun === true, 'the error does not say that it may have run', error);
      expectEqual(state.runs[tool], 1, 'runs');
    }
    expectEqual(text(await page.run(() => outcome(client.callTool('count')))), '1', 'runs of the next');
  });
  await report.check(`${where}: a stream that breaks is resumed, and the call runs once`, async () => {
    fresh();
    const [got, progress] = await page.run(async () => {
      const seen = [];
      return [await outcome(client.callTool('resume', {}, { onProgress: (p) => seen.push(p.progress) })), seen];
    });
    expectEqual(text(got), 'resumed', 'text');
    expectEqual(progress, [1], 'progress');
    expectEqual(state.runs.resume, 1, 'runs');
  });
}

// --- an agent server behind weir ---

const agentConfig = (file) => ({
  name: 'shop', queue: { max: 1 },
  tools: [
    { name: 'say', description: 'Returns what it was given.', command: '/bin/cat', inputSchema: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] } },
    { name: 'count', command: '/bin/sh', args: ['-c', `echo x >> "${file}"; wc -l < "${file}"`] },
    { name: 'bad', command: '/bin/sh', args: ['-c', 'echo broken >&2; exit 3'] },
    { name: 'slow', command: '/bin/sh', args: ['-c', 'sleep 1.5'] },
    { name: 'later', async: true, command: '/bin/sh', args: ['-c', 'echo one >&2; sleep 0.4; echo two >&2; echo ready'] },
    { name: 'later-bad', async: true, command: '/bin/sh', args: ['-c', 'sleep 0.2; echo broken >&2; exit 3'] },
    { name: 'never', async: true, command: '/bin/sh', args: ['-c', `sleep 60; echo x >> "${file}"`] },
  ],
  resources: [{ name: 'hours', uri: 'shop://hours', mimeType: 'text/plain', command: '/bin/echo', args: ['always open'] }],
  prompts: [{ name: 'greet', arguments: [{ name: 'who', required: true }], messages: [{ role: 'user', content: 'Greet ${who}.' }] }],
});

async function startAgent(weir, base, port, config) {
  const child = start('weir-agent', weir, ['agent', '--config', config, '--port', String(port), `--router=${base}`], { stdout: 'pipe' });
  await new Promise((done, fail) => {
    const lines = createInterface({ input: child.stdout });
    lines.on('line', (line) => { if (line.includes('/mcp')) done(); });
    child.ended.then(() => fail(new Wrong(`the agent ended:\n${tail(readFileSync(child.log, 'utf8'))}`)));
  });
  return child;
}

async function throughWeir(report, browser, weir) {
  const server = await flaky();
  const file = join(scratch, 'browser-count');
  rmSync(file, { force: true });
  const gateway = await startWeir(weir, 'weir-browser', { mcpServers: { everything: everythingStdio(), flaky: { url: `${server.url}/mcp` } } });
  const port = await freePort();
  const config = writeConfig('mcp-config-browser', agentConfig(file));
  let agent = await startAgent(weir, gateway.base, port, config);
  // A page of weir's own origin, and one of another port of this machine.
  const page = await browser.open(`${gateway.base}/healthz`);
  await client(page, gateway.base, '/mcps/shop');
  const shop = 'weir, an agent';

  await report.check(`${shop}: its tools, resources and prompts`, async () => {
    const [tools, resources, hours, prompts, prompt] = await page.run(async () => [
      await client.listTools(), await client.listResources(), await client.readResource('shop://hours'), await client.listPrompts(), await client.getPrompt('greet', { who: 'Ada' }),
    ]);
    expectEqual(tools.map((tool) => tool.name).sort(), ['bad', 'count', 'later', 'later-bad', 'never', 'say', 'slow'], 'tools');
    expectEqual(resources.map((resource) => resource.uri), ['shop://hours'], 'resources');
    expectEqual(hours.trim(), 'always open', 'the resource');
    expectEqual(prompts.map((prompt) => prompt.name), ['greet'], 'prompts');
    expectEqual(prompt.messages[0].content.text, 'Greet Ada.', 'the prompt');
  });
  await report.check(`${shop}: a call`, async () => {
    const got = await page.run(() => outcome(client.callTool('say', { text: 'grüße 🌊 \u2028' })));
    expectEqual(got.value?.structuredContent?.input, { text: 'grüße 🌊 \u2028' }, 'input');
  });
  await report.check(`${shop}: a tool that failed is a result, wrong arguments an error with code and data`, async () => {
    const [bad, wrong, missing] = await page.run(async () => [await outcome(client.callTool('bad')), await outcome(client.callTool('say', { text: 1 })), await outcome(client.callTool('nothing'))]);
    expect(bad.value?.isError && bad.value._meta.exit === 3 && bad.value._meta.code === -32000, 'the failed tool', bad);
    expect(wrong.error?.mcp && wrong.error.code === -32602 && wrong.error.data?.kind === 'invalid_params', 'wrong arguments', wrong);
    expect(missing.error?.mcp && missing.error.data?.kind === 'not_found', 'an unknown tool', missing);
  });
  await report.check(`${shop}: a full queue is an error with its code, kind and status`, async () => {
    const all = await page.run(() => Promise.all([1, 2, 3].map(() => outcome(client.callTool('slow')))));
    const full = all.filter((one) => one.error);
    expect(full.length === 1 && full[0].error.code === -32002 && full[0].error.data?.kind === 'queue_full', 'three calls on a queue of one', all);
  });
  await report.check(`${shop}: a task is polled until it is done`, async () => {
    const [got, seen] = await page.run(async () => {
      const seen = [];
      return [await outcome(client.callTool('later', {}, { onTaskUpdate: (task) => seen.push({ status: task.status, log: task.logTail }) })), seen];
    });
    expectEqual(text(got)?.trim(), 'ready', 'text');
    expectEqual(seen.at(-1)?.status, 'completed', 'the last update');
    expect(seen.some((update) => update.status === 'running' && update.log.includes('one')), 'its log was not told', seen);
  });
  await report.check(`${shop}: a task that fails, and one that is not waited for`, async () => {
    const [bad, made, task] = await page.run(async () => {
      const bad = await outcome(client.callTool('later-bad'));
      const made = await client.callTool('later', {}, { wait: false });
      return [bad, made, await client.getTask(made.taskId)];
    });
    expect(bad.value?.isError || bad.error?.code === -32000, 'the failed task', bad);
    expect(made.taskId && task.id === made.taskId && ['pending', 'running'].includes(task.status), 'the task', task);
    await sleep(800);
  });
  await report.check(`${shop}: a cancelled call cancels its task`, async () => {
    const [got, id] = await page.run(async () => {
      const stop = new AbortController();
      let id;
      const call = outcome(client.callTool('never', {}, { signal: stop.signal, onTaskUpdate: (task) => { id = task.id; if (task.status === 'running') stop.abort(); } }));
      return [await call, id];
    });
    expectEqual(got.error?.name, 'AbortError', 'the error');
    for (const end = Date.now() + 5000; ; await sleep(50)) {
      const task = await page.run((id) => client.getTask(id), id);
      if (task.status === 'cancelled') break;
      expect(Date.now() < end, 'the task goes on', task);
    }
  });
  await report.check(`${shop}: an agent that starts again has lost the session, and the next call runs once`, async () => {
    expectEqual(text(await page.run(() => outcome(client.callTool('count'))))?.trim(), '1', 'count');
    await stop(agent);
    const { error } = await page.run(() => outcome(client.callTool('count')));
    expect(error?.mcp && [-32601, -32603].includes(error.code), 'without the agent', error);
    agent = await startAgent(weir, gateway.base, port, config);
    let got;
    for (const end = Date.now() + 10_000; Date.now() < end; await sleep(100)) {
      got = await page.run(() => outcome(client.callTool('count')));
      if (got.value) break;
    }
    expectEqual(text(got)?.trim(), '2', 'count');
    expectEqual(readFileSync(file, 'utf8'), 'x\nx\n', 'runs');
  });
  await report.check(`${shop}: the client of pages written before`, async () => {
    const got = await page.run(async () => {
      const agent = createAgentClient('/mcps/shop/mcp', { pollInterval: 100 });
      await agent.connect();
      const all = [(await agent.listTools()).length, await agent.readResource('shop://hours'), await agent.callTool('say', { text: 'x' }, { trace: 1 }), agent.getServerInfo().name];
      await agent.close();
      return all;
    });
    expectEqual(got[0], 7, 'tools');
    expectEqual(got[1].contents[0].text.trim(), 'always open', 'the resource');
    expectEqual(got[2].structuredContent.metadata.meta?.trace, 1, 'what came as _meta');
    expectEqual(got[3], 'shop', 'the name');
  });
  await report.check('weir: an unknown agent', async () => {
    const { error } = await page.run(() => outcome(new MCPBrowserClient({ baseUrl: '/mcps/nobody' }).listTools()));
    expect(error?.code === -32601 && error.status === 404 && error.data.agents.includes('shop'), 'wrong error', error);
  });
  await report.check('weir: a closed client takes no calls, and its session is gone', async () => {
    const { error } = await page.run(async () => {
      const other = new MCPBrowserClient({ baseUrl: '/mcps/shop/mcp' });
      await other.connect();
      await other.close();
      return outcome(other.listTools());
    });
    expect(error?.mcp && error.code === -32800, 'wrong error', error);
  });

  await report.check('weir, server-everything: progress while a call runs', async () => {
    await client(page, gateway.base, '/mcps/everything');
    const [got, steps] = await page.run(async () => {
      const steps = [];
      return [await outcome(client.callTool('trigger-long-running-operation', { duration: 0.6, steps: 3 }, { onProgress: (p) => steps.push([p.progress, Math.round(performance.now())]) })), steps];
    });
    expect(got.value, 'the call failed', got);
    expectEqual(steps.map(([step]) => step), [1, 2, 3], 'progress');
    expect(steps[2][1] - steps[0][1] > 200, 'the progress came all at once', steps);
  });
  await report.check('weir, server-everything: a cancelled call', async () => {
    const { error } = await page.run(async () => {
      const stop = new AbortController();
      return outcome(client.callTool('trigger-long-running-operation', { duration: 20, steps: 40 }, { signal: stop.signal, onProgress: () => stop.abort() }));
    });
    expectEqual(error?.name, 'AbortError', 'the error');
  });
  await report.check('weir, server-everything: a call that takes too long', async () => {
    const { error } = await page.run(() => outcome(client.callTool('trigger-long-running-operation', { duration: 20, steps: 1 }, { timeout: 300 })));
    expect(error?.mcp && error.code === -32003 && error.data.kind === 'timeout', 'wrong error', error);
  });
  await report.check('weir, server-everything: a question during a call', async () => {
    const got = await page.run(async () => {
      const asked = [];
      const asking = new MCPBrowserClient({
        baseUrl: '/mcps/everything', capabilities: { sampling: {} },
        onRequest: (method, params) => { asked.push(method); return { role: 'assistant', model: 'none', content: { type: 'text', text: 'a weir' } }; },
      });
      const result = await outcome(asking.callTool('trigger-sampling-request', { prompt: 'name a dam' }));
      await asking.close();
      return [asked, result];
    });
    expectEqual(got[0], ['sampling/createMessage'], 'what was asked');
    expect(text(got[1])?.includes('a weir'), 'the answer did not arrive', got[1]);
  });

  await client(page, gateway.base, '/mcps/flaky');
  await checkFaults(report, page, 'weir, a flaky server', server, true);

  await report.check('another origin of this machine may call, with headers and streams', async () => {
    const other = await browser.open(`${server.url}/page`);
    await client(other, gateway.base, `${gateway.base}/mcps/everything/`, { headers: { 'X-Page': 'other' }, credentials: 'omit' });
    const [tools, steps] = await other.run(async () => {
      const steps = [];
      const tools = await client.listTools();
      await client.callTool('trigger-long-running-operation', { duration: 0.2, steps: 2 }, { onProgress: (p) => steps.push(p.progress) });
      return [tools.length, steps];
    });
    expect(tools > 5, 'too few tools', tools);
    expectEqual(steps, [1, 2], 'progress');
  });
  await report.check('the page of a foreign site may not', async () => {
    const foreign = await browser.open(`${server.url.replace('127.0.0.1', 'evil.test')}/page`);
    const got = await foreign.run(async (base) => {
      const { MCPBrowserClient } = await import('/MCPBrowserClient.js');
      try { return await new MCPBrowserClient({ baseUrl: `${base}/mcps/shop` }).listTools(); } catch (error) { return error.data; }
    }, gateway.base);
    expectEqual(got, { kind: 'connection', mayHaveRun: false }, 'the error');
  });
  await report.check('/status shows each agent with its queue', async () => {
    const status = await browser.open(`${gateway.base}/status`);
    let rows;
    for (const end = Date.now() + 10_000; Date.now() < end; await sleep(100)) {
      rows = await status.run(() => [...document.querySelectorAll('tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)));
      if (rows.length === 3) break;
    }
    const row = rows.find(([name]) => name.startsWith('shop'));
    expect(row?.[1] === 'ok' && row[3] === '0 of 1' && row.at(-1) === 'registered', 'wrong rows', rows);
  });

  await stop(agent);
  await gateway.stop();
  server.close();
}

export async function inBrowser({ weir }) {
  const report = new Report(weir ? 'MCPBrowserClient.js in a browser, through weir' : 'MCPBrowserClient.js in a browser');
  const browser = await report.check('a browser starts', () => Browser.start());
  if (!browser) return report.close();
  const server = await flaky();
  const page = await browser.open(`${server.url}/page`);
  await client(page, '', '/mcp');
  await checkFaults(report, page, 'alone', server, false);
  server.close();
  if (weir) {
    expect(existsSync(weir), `there is no ${weir}`);
    await throughWeir(report, browser, weir);
  }
  await stop(browser.child, 2000);
  return report.close();
}

if (process.argv[1] === join(here, 'browser.mjs')) {
  await main(async (options) => { await setup(); return inBrowser(options); });
}
