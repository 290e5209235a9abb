// What operators change in the console: they add servers, edit, switch, remove and take back, by hand and from the MCP Registry.
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { everythingStdio, expect, expectEqual, node22, scratch, startWeir } from './harness.mjs';

const hostile = '</pre></script><script>window.owned = 1</script><img src=x onerror="window.owned = 2"><b>bold</b> \u202egnirts';

// fakeRegistry is an MCP Registry with one server, whose every text tries to become part of a page.
async function fakeRegistry() {
  const entry = { server: { name: 'io.github.me/time', title: `Time ${hostile}`.slice(0, 90), description: `Says the time. ${hostile}`.slice(0, 100), version: '1.0.0',
    remotes: [{ type: 'streamable-http', url: 'http://127.0.0.1:9/mcp', headers: [{ name: 'X-Api-Key', description: `A key. ${hostile}`, isRequired: true, isSecret: true }] }] }, _meta: {} };
  const server = createServer((request, response) => {
    response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify(request.url.startsWith('/v0.1/servers?') ? { servers: [entry], metadata: { count: 1 } } : entry));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}`, close: () => { server.closeAllConnections(); server.close(); } };
}

// talkative asks for two pages by the proxy of its sandbox, and answers as an MCP server without tools.
const talkative = `
  for (const page of process.argv.slice(1)) require('http').get(page, (answer) => answer.resume()).on('error', () => {});
  require('readline').createInterface({ input: process.stdin }).on('line', (line) => {
    const { id, method, params } = JSON.parse(line);
    if (id !== undefined) console.log(JSON.stringify({ jsonrpc: '2.0', id, result: method === 'initialize' ? { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 'talkative', version: '1' } } : { tools: [] } }));
  });`;

// withOperations operates a gateway that begins without servers.
export async function withOperations(report, browser, weir, { until, visit, watchPolicy, nothingHappened, violations, operate, title, press }) {
  const folder = join(scratch, 'console-operate');
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  const config = join(folder, 'weir.json');
  const registry = await fakeRegistry();
  writeFileSync(config, JSON.stringify({ registry: { url: registry.url }, console: { capture: true }, mcpServers: {} }, null, 2));
  const read = () => JSON.parse(readFileSync(config, 'utf8'));
  const before = readFileSync(config, 'utf8');
  const home = join(folder, 'home'), file = join(home, '.cursor', 'mcp.json');
  mkdirSync(join(home, '.cursor'), { recursive: true });
  const theirs = JSON.stringify({ mcpServers: { 'one-of-cursor': { ...everythingStdio(), type: undefined } } }, null, 4);
  writeFileSync(file, theirs);
  const gateway = await startWeir(weir, 'weir-console-operate', config, [], { HOME: home, XDG_CONFIG_HOME: '', XDG_STATE_HOME: process.env.XDG_STATE_HOME || join(homedir(), '.local', 'state') });
  const page = await browser.open(`${gateway.base}/console`);
  await page.run(watchPolicy);
  await until(page, 'home', title, 'Home');
  const click = (text) => until(page, `the button ${text}`, (text) => {
    const one = [...document.querySelectorAll('#page button, #page a')].find((each) => each.textContent.trim() === text && !each.disabled);
    one?.click();
    return Boolean(one);
  }, text);
  const shows = (text) => until(page, text, (text) => document.getElementById('page').innerText.includes(text), text);
  const put = (id, value) => until(page, id, (id, value) => { const field = document.getElementById(id); if (field) field.value = value; return Boolean(field); }, id, value);

  await report.check('operate: a gateway without servers offers to add the first, to operators alone', async () => {
    await shows('For operators');
    await operate(page, weir, gateway);
    await until(page, 'the form', () => document.getElementById('paste'));
    expectEqual(await violations(page), [], 'the empty home');
  });
  await report.check('operate: a pasted text becomes a plan, and the plan a server', async () => {
    await put('paste', hostile);
    await click('Show the plan');
    await until(page, 'the refusal', () => !document.getElementById('problem').hidden);
    await nothingHappened(page, 'as a pasted text');
    const { command, args } = everythingStdio();
    await put('paste', JSON.stringify({ mcpServers: { everything: { command, args, env: { API_TOKEN: 'ghp_0123456789abcdefghijABCDEFGHIJ456789', NOTE: hostile } } } }));
    await click('Show the plan');
    await shows('Secrets that go into the store');
    expectEqual(await page.run(() => document.activeElement.id), 'confirm', 'what has the focus');
    expectEqual(readFileSync(config, 'utf8'), before, 'the file after a plan');
    expectEqual(await violations(page), [], 'a plan');
    await press(page, 'Enter');
    await shows('Added everything.');
    expect(!readFileSync(config, 'utf8').includes('ghp_'), 'the secret is in the file');
    await nothingHappened(page, 'in a plan');
  });
  await report.check('operate: a call has its steps, its arguments and its result, without secrets', async () => {
    await visit(page, '#/calls', 'the notice', () => document.getElementById('page').innerText.includes('console.capture'));
    await page.run(async () => {
      const { get, tool } = await import('/console/static/api.js');
      const { cards } = await get('catalog', { query: 'echo' });
      await tool('tool_execute', JSON.stringify({ tool_id: cards[0].id, args: { message: `</pre><img src=x onerror="window.owned = 1"> ghp_0123456789abcdefghijABCDEFGHIJ456789`, password: 'hunter2' } }));
    });
    const id = await until(page, 'the call', () => [...document.querySelectorAll('#page tbody tr')].find((row) => row.innerText.includes('echo'))?.dataset.key);
    await visit(page, `#/calls/${id}`, 'the steps', () => document.querySelectorAll('#steps meter').length === 6);
    await shows('Without the secrets that weir knows.');
    const text = await page.run(() => document.getElementById('page').innerText);
    expect(text.includes('window.owned = 1') && !text.includes('ghp_0123') && !text.includes('hunter2'), 'another text', text);
    expectEqual(await violations(page), [], 'a call');
    await nothingHappened(page, 'in a call');
  });
  await report.check('operate: the configuration in effect says where each value comes from, and tells no secret', async () => {
    await visit(page, '#/setup', 'the configuration', () => document.getElementById('setting'));
    await shows('weir.json:');
    const text = await page.run(() => document.getElementById('page').innerText);
    expect(text.includes('mcpServers.everything.env.API_TOKEN') && text.includes('***') && !text.includes('ghp_'), 'another text', text);
    await page.run(() => document.getElementById('defaults').click());
    await page.run(() => { const field = document.getElementById('setting'); field.value = 'listen'; field.dispatchEvent(new Event('input')); });
    await until(page, 'the one key', () => [...document.querySelectorAll('#page tbody tr')].length === 1 && document.querySelector('#page tbody').innerText.includes('listen'));
    expectEqual(await violations(page), [], 'the configuration');
    await nothingHappened(page, 'in the configuration');
  });
  await report.check('operate: an entry is edited as a form and as JSON, and a conflict shows both versions', async () => {
    await visit(page, '#/servers/everything/edit', 'the form', () => document.getElementById('entry-env'));
    const env = await page.run(() => document.getElementById('entry-env').value);
    expect(env.includes('API_TOKEN=${secret:') && env.includes('<script>') && !env.includes('ghp_'), 'another form', env);
    expectEqual(await violations(page), [], 'the form of an entry');
    await put('entry-namespace', 'all');
    await click('As JSON');
    expect((await page.run(() => document.getElementById('entry-json').value)).includes('"namespace": "all"'), 'the form is lost in the JSON');
    const other = read();
    other.mcpServers.everything.timeout = '42s';
    writeFileSync(config, JSON.stringify(other, null, 2));
    await click('Save');
    await shows('The file has changed since you opened it');
    const text = await page.run(() => document.getElementById('page').innerText);
    expect(text.includes('42s') && text.includes('"all"'), 'not both versions', text);
    expectEqual(await violations(page), [], 'a conflict');
    await click('Make my change to the newer entry');
    await shows('everything is changed.');
    expectEqual([read().mcpServers.everything.namespace, read().mcpServers.everything.timeout], ['all', '42s'], 'the entry');
    await nothingHappened(page, 'in an entry');
  });
  await report.check('operate: a server is disabled, enabled, removed, and the removal taken back', async () => {
    await click('Disable');
    await shows('everything is disabled.');
    await click('Enable');
    await shows('everything is enabled.');
    await click('Remove');
    await shows('everything is removed.');
    expectEqual(Object.keys(read().mcpServers), [], 'the servers');
    await click('Undo');
    await shows('Taken back: everything is removed.');
    expectEqual(Object.keys(read().mcpServers), ['everything'], 'the servers');
  });
  await report.check('operate: a server says what confines it, and which hosts it asked for', async () => {
    const web = createServer((_, response) => response.end('ok'));
    await new Promise((done) => web.listen(0, '127.0.0.1', done));
    const host = `127.0.0.1:${web.address().port}`;
    const other = read();
    other.mcpServers.talkative = { command: node22(), args: ['-e', talkative, `http://${host}/`, 'http://refused.example/'], env: { NAMES: hostile }, sandbox: { net: [host], read: [`/srv/${hostile}`], memory: '8GB' } };
    writeFileSync(config, JSON.stringify(other, null, 2));
    await until(page, 'the hosts', async () => {
      const { get } = await import('/console/static/api.js');
      const { way, hosts } = await get('servers/talkative/sandbox').catch(() => ({ hosts: [] }));
      return way === 'none' || hosts.length === 2;
    });
    await visit(page, '#/servers/talkative', 'the sandbox', () => [...document.querySelectorAll('#page .card')].find((one) => one.innerText.includes('It runs ')));
    const text = await page.run(() => [...document.querySelectorAll('#page .card')].find((one) => one.innerText.includes('It runs ')).innerText);
    if (text.includes('in a sandbox')) {
      for (const part of [host, '● let through', '▲ refused', '8.0 GB', 'NAMES', '<script>window.owned = 1', 'sandbox/talkative', 'no: it starts']) expect(text.includes(part), `no ${part}`, text);
    } else console.log(`this machine confines no programs: ${text}`);
    expectEqual(await violations(page), [], 'a sandbox');
    await nothingHappened(page, 'in a sandbox');
    web.closeAllConnections();
    web.close();
  });
  await report.check('operate: a server that fails says who can mend it, and the doctor looks at all', async () => {
    await visit(page, '#/servers/+add', 'the form', () => document.getElementById('paste'));
    const variables = join(folder, 'broken.env');
    writeFileSync(variables, 'COLOUR=blue\n', { mode: 0o644 });
    await put('paste', JSON.stringify({ mcpServers: { broken: { env_file: variables, command: 'sh', args: ['-c', `printf '%s\\n' '${hostile}' >&2; exit 7`] } } }));
    await click('Show the plan');
    await click('Add 1 server');
    await until(page, 'the finding', () => document.querySelector('.notice.bad .finding pre')?.textContent.includes('window.owned = 1'));
    expectEqual(await violations(page), [], 'a finding');
    await nothingHappened(page, 'in a finding');
    await visit(page, '#/setup', 'the check', () => document.getElementById('check'));
    await click('Look around');
    await until(page, 'the findings', () => document.querySelectorAll('.finding').length > 5 && document.querySelector('.finding .bad'));
    expect(await page.run(() => document.querySelector('.finding').innerText.includes('broken')), 'the broken server is not first');
    expectEqual(await violations(page), [], 'the findings');
    await nothingHappened(page, 'in the findings');
    await page.run(() => [...document.querySelectorAll('.finding')].find((one) => one.textContent.includes('broken.env')).parentElement.querySelector('.mend').click());
    await shows(`weir will: chmod 600 ${variables}`);
    expectEqual((statSync(variables).mode & 0o777).toString(8), '644', 'the mode after a plan');
    expectEqual(await violations(page), [], 'a plan of the doctor');
    await page.run(() => document.getElementById('mend').click());
    await shows(`Done: chmod 600 ${variables}.`);
    await until(page, 'the end of the second look', () => document.getElementById('check')?.disabled === false && ![...document.querySelectorAll('.finding')].some((one) => one.textContent.includes('broken.env')));
    expectEqual((statSync(variables).mode & 0o777).toString(8), '600', 'the mode');
  });
  await report.check('operate: a server of the registry says what it needs, and its texts are texts', async () => {
    await visit(page, '#/servers/+add?from=registry', 'the search', () => document.querySelector('#page form')?.words);
    await page.run(() => { const form = document.querySelector('#page form'); form.words.value = 'time'; form.requestSubmit(); });
    await until(page, 'the hit', () => document.querySelector('#page .rows button'));
    expectEqual(await violations(page), [], 'the registry');
    await nothingHappened(page, 'in the registry');
    await page.run(() => document.querySelector('#page .rows button').click());
    await put('question-0', 'key-0123456789abcdef');
    expectEqual(await page.run(() => document.getElementById('question-0').type), 'password', 'the type of a secret');
    await nothingHappened(page, 'in the questions');
    await click('Show the plan');
    await click('Add 1 server');
    await shows('Added time.');
    expect(!readFileSync(config, 'utf8').includes('key-0123456789abcdef'), 'the secret is in the file');
  });
  await report.check('operate: a client of the machine is connected after its plan, and the change taken back', async () => {
    await visit(page, '#/clients', 'the client', () => [...document.querySelectorAll('#page tbody tr')].some((row) => row.innerText.includes('not connected')));
    expectEqual(await violations(page), [], 'the clients');
    await page.run(() => document.querySelector('#page [aria-label="Connect Cursor"]').click());
    await until(page, 'the plan', () => document.activeElement.id === 'wire' && document.getElementById('page').innerText.includes('one-of-cursor'));
    expectEqual(readFileSync(file, 'utf8'), theirs, 'the file of the client after a plan');
    expectEqual(await violations(page), [], 'the plan for a client');
    await press(page, 'Enter');
    await shows('Cursor is connected.');
    const now = JSON.parse(readFileSync(file, 'utf8')).mcpServers;
    expectEqual([Object.keys(now), 'one-of-cursor' in read().mcpServers], [['weir'], true], 'the servers of the client, and of weir');
    await click('Undo');
    await shows('Taken back: Cursor is connected.');
    expectEqual([readFileSync(file, 'utf8'), 'one-of-cursor' in read().mcpServers], [theirs, false], 'the file of the client, and the servers of weir');
  });
  await report.check('operate: no page of an operator breaks a rule of accessibility or is too wide, light, dark and on a phone', async () => {
    for (const [scheme, width] of [['light', 1280], ['dark', 360]]) {
      await page.browser.send('Emulation.setDeviceMetricsOverride', { width, height: 800, deviceScaleFactor: 1, mobile: width < 500 }, page.session);
      await page.browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }, { name: 'prefers-reduced-motion', value: 'reduce' }] }, page.session);
      for (const [hash, name] of [['#/servers', 'Servers'], ['#/servers/everything', 'everything'], ['#/servers/talkative', 'talkative'], ['#/servers/+add', 'Add a server'], ['#/servers/everything/edit', 'Edit everything'], ['#/clients', 'Clients'], ['#/setup', 'Setup']]) {
        await visit(page, hash, name, title, name);
        expectEqual(await violations(page), [], `${name}, ${scheme}`);
        const wide = await page.run(() => document.documentElement.scrollWidth - innerWidth);
        expect(wide <= 0, `${name} is ${wide} pixels too wide`);
      }
    }
  });
  await gateway.stop();
  registry.close();
}
