// The page Nodes of the console in a real browser, over three gateways with `store: nats://…`: who sees what, a drain with the
// keyboard alone, a node that ends, nodes with hostile names, phones, dark and forced colours. A gateway alone has no such page.
//
//   node interop/console-nodes.mjs --weir bin/weir
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { agent, hostile, idOf, nothingHappened, operate, press, title, until, violations, visit, watchPolicy } from './console.mjs';
import { expect, expectEqual, freePort, here, main, Report, startNATS, startWeir, stop } from './harness.mjs';
import { npmPackages } from './setup.mjs';

// slowServer is an MCP server with a tool that waits until it is released.
async function slowServer() {
  const waiting = [];
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const answer = () => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: 'no such method' } }) }));
    const result = {
      initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'slow', version: '1' } },
      'tools/list': { tools: [{ name: 'await_release', description: 'Waits patiently.', inputSchema: { type: 'object' } }] }, 'tools/call': { content: [{ type: 'text', text: 'released' }] },
    }[method];
    if (method === 'tools/call') waiting.push(answer); else answer();
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return {
    url: `http://127.0.0.1:${server.address().port}/mcp`, waiting, release: () => waiting.splice(0).forEach((answer) => answer()), close: () => { server.closeAllConnections(); server.close(); },
  };
}

// startNodes starts three gateways that act as one.
export async function startNodes(weir, mcpServers) {
  const nats = await startNATS();
  const ports = new Set(); // a free port may be told twice
  while (ports.size < 3) ports.add(await freePort());
  return Promise.all([...ports].map((link, i) => startWeir(weir, `weir-node-${i}`, {
    store: { at: nats, max_bytes: '64MB' },
    cluster: { node: `weir-${i}`, key: 'AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=', listen: `127.0.0.1:${link}` }, mode: 'gateway', mcpServers,
  })));
}

const texts = (selector) => [...document.querySelectorAll(selector)].map((one) => one.textContent.trim());
const shows = (page, text) => until(page, text, (text) => document.getElementById('page').innerText.includes(text), text);
const size = (page, width, features = []) => Promise.all([
  page.browser.send('Emulation.setDeviceMetricsOverride', { width, height: 800, deviceScaleFactor: 1, mobile: width < 500 }, page.session),
  page.browser.send('Emulation.setEmulatedMedia', { features }, page.session),
]);

// tabTo presses Tab until a control with this name has the focus.
async function tabTo(page, name) {
  for (let i = 0; i < 60; i++) {
    await press(page, 'Tab');
    if (await page.run((name) => (document.activeElement.getAttribute('aria-label') || document.activeElement.textContent.trim()) === name && document.activeElement.matches(':focus-visible'), name)) return;
  }
  expect(false, `Tab does not reach ${name}`);
}

// pretend makes the page believe in other nodes: /api/v1/cluster answers this, and a drain is refused with a hostile text.
const pretend = (nodes, warnings, message, servers) => {
  const real = window.real ??= window.fetch;
  const answer = (status, body) => Promise.resolve(new Response(JSON.stringify(body), { status, headers: { 'Content-Type': 'application/json' } }));
  window.fetch = (path, options) => {
    if (path === 'api/v1/cluster') return answer(200, { nodes, warnings, servers });
    return String(path).startsWith('api/v1/cluster/') ? answer(502, { error: { message } }) : real(path, options);
  };
};

const node = (i, more) => ({ name: `node-${i}`, inc: `inc${i}`, self: i === 0, state: 'up', version: '1.0.0', proto: [1, 1], config: 'aaaaaaaa', calls: i, sessions: 10 * i, cpu: i / 10, started: Math.floor(Date.now() / 1000) - 3600 * i, skew_ms: 0, skewed: false, ...more });

async function alone(report, browser, weir) {
  const gateway = await startWeir(weir, 'weir-alone', { mcpServers: {} });
  const page = await browser.open(`${gateway.base}/console`);
  await report.check('a gateway alone has no page Nodes, no key for it, and says so at its address', async () => {
    await until(page, 'home', title, 'Home');
    expect(!(await page.run(texts, 'nav a')).includes('Nodes'), 'the menu has Nodes');
    expect(await page.run(() => document.getElementById('node').hidden), 'there is a choice of node');
    await press(page, '?');
    await until(page, 'the keys', () => document.getElementById('keys').open);
    expect(!(await page.run(texts, '#keys-list dd')).includes('Nodes'), 'the keys have Nodes');
    await press(page, 'Escape');
    await visit(page, '#/nodes', 'the page', title, 'Nodes');
    await shows(page, 'this gateway is no node of a cluster');
    expectEqual(await violations(page), [], 'a gateway alone');
  });
  await page.close();
  await gateway.stop();
}

async function together(report, browser, weir) {
  const slow = await slowServer();
  const nodes = await startNodes(weir, { slow: { url: slow.url, required: true } });
  const page = await browser.open(`${nodes[0].base}/console`);
  await page.run(watchPolicy);
  await size(page, 1280);
  await report.check('g n shows the nodes, and a viewer sees no addresses of peer links', async () => {
    await until(page, 'home', title, 'Home');
    await press(page, 'g');
    await press(page, 'n');
    await until(page, 'three nodes', () => document.querySelectorAll('#page tbody .state.up').length === 3);
    expectEqual(await page.run(texts, 'nav a[aria-current]'), ['Nodes'], 'the page of the menu');
    expectEqual(await page.run(texts, '#page tbody strong'), ['weir-0', 'weir-1', 'weir-2'], 'the nodes');
    expectEqual(await page.run(texts, '#page tbody tr:first-child .tag'), ['answers'], 'the node that answers');
    expectEqual(await page.run(texts, '#page .notice.bad'), [], 'what nodes do not agree about');
    expect(!(await page.run(() => document.getElementById('page').innerText)).includes('127.0.0.1'), 'the page has addresses');
    expect(!JSON.stringify(await (await fetch(`${nodes[0].base}/api/v1/cluster`)).json()).includes('127.0.0.1'), 'the answer has addresses');
    expectEqual(await violations(page), [], 'the nodes');
  });
  await report.check('the pages of one node can be seen at another one: the choice is in the address, and links keep it', async () => {
    const ask = await agent(nodes[1].url);
    for (let i = 0; i < 3; i++) await ask('tool_browse', { query: 'waits' });
    await visit(page, '#/', 'home', () => document.getElementById('page').innerText.includes('weir-0, weir-1, weir-2, each since its start'));
    const choose = async (name) => {
      await page.run((name) => { const select = document.getElementById('node'); select.value = name; select.dispatchEvent(new Event('change')); }, name).catch(() => {}); // the page is left
      await until(page, `the pages of ${name}`, (search) => location.search === search && document.querySelector('#page h1')?.textContent === 'Home', name && `?node=${name}`);
      await page.run(watchPolicy);
    };
    const calls = async () => /: ([\d,]+) calls? in /.exec(await page.run(() => document.getElementById('page').innerText))[1];
    await choose('weir-1');
    expectEqual([await page.run(() => document.getElementById('node').value), await calls()], ['weir-1', '3'], 'the chosen node, and its calls');
    expectEqual(await violations(page), [], 'the pages of one node');
    await visit(page, '#/servers', 'the servers', () => document.querySelectorAll('#page tbody tr').length === 1);
    expectEqual(await page.run(() => location.search), '?node=weir-1', 'the address');
    await visit(page, '#/calls', 'the calls of weir-1', () => document.querySelectorAll('#page tbody tr').length >= 3);
    await visit(page, '#/', 'home', title, 'Home');
    await choose('weir-2');
    expectEqual(await calls(), '0', 'calls of weir-2');
    await choose('');
    await shows(page, 'weir-0, weir-1, weir-2, each since its start: 3 calls');
    await visit(page, '#/nodes', 'the nodes', () => document.querySelectorAll('#page tbody .state.up').length === 3);
  });
  await report.check('Drain is for operators, who see the addresses, too', async () => {
    await page.run(() => document.querySelector('[aria-label="Drain weir-2"]').click());
    await until(page, 'the question for a code', () => document.getElementById('operator').open);
    await page.run(() => document.getElementById('operator').close());
    await operate(page, weir, nodes[0]);
    await until(page, 'the addresses', () => document.querySelectorAll('#page tbody tr').length === 3 && [...document.querySelectorAll('#page tbody tr')].every((row) => row.innerText.includes('127.0.0.1')));
  });
  await report.check('the keyboard alone drains a node: it is asked for, told as it goes, and done', async () => {
    const ask = await agent(nodes[2].url);
    const call = ask('tool_execute', { tool_id: await idOf(ask, 'waits patiently'), args: {} });
    await until(page, 'the call', () => document.querySelectorAll('#page tbody tr')[2].cells[3].textContent >= '1');
    await page.run(() => { document.activeElement.blur(); document.querySelector('#page h1').focus(); });
    await tabTo(page, 'Drain weir-2');
    await press(page, 'Enter');
    await until(page, 'the question', () => document.getElementById('drain-title')?.textContent === 'Drain weir-2?');
    expectEqual(await page.run(() => document.activeElement.textContent), 'Cancel', 'what has the focus');
    expectEqual(await violations(page), [], 'the question');
    await press(page, 'Escape');
    await until(page, 'the end of the question', () => !document.getElementById('drain-title') && document.activeElement.getAttribute('aria-label') === 'Drain weir-2');
    expectEqual(await page.run(texts, '#page [role=status]'), [], 'what is told after Cancel');
    await press(page, 'Enter');
    await until(page, 'the question', () => document.getElementById('drain-title'));
    await tabTo(page, 'Drain');
    await press(page, 'Enter');
    await shows(page, 'weir-2 drains: 1 call to end.');
    await until(page, 'the focus on what is told', () => document.activeElement.matches('[role=status]'));
    expectEqual(await violations(page), [], 'a node that drains');
    slow.release();
    expect((await call).includes('released'), 'the call was not ended');
    await shows(page, 'weir-2 is drained: stop it, or start it again.');
    expectEqual(await page.run(() => document.querySelectorAll('#page tbody .state.draining').length), 1, 'draining nodes');
    expect(!await page.run(() => document.querySelector('[aria-label="Drain weir-2"]')), 'it can be drained twice');
  });
  await report.check('a node that has ended is shown as gone', async () => {
    await nodes[2].stop();
    await shows(page, 'weir-2 has ended.');
    await until(page, 'the state', () => document.querySelectorAll('#page tbody tr')[2].querySelector('.state.gone') && document.querySelectorAll('#page tbody tr')[2].innerText.includes('seen until'));
    await page.run(() => document.querySelector('#page [role=status] button').click());
    await until(page, 'the end of what was told', () => !document.querySelector('#page [role=status]'));
    expectEqual(await violations(page), [], 'a node that is gone');
  });
  await report.check('clocks, configurations and versions that differ are marked with words', async () => {
    await page.run(pretend, [node(0), node(1), node(2, { config: 'bbbbbbbb', version: '1.1.0' }), node(3, { skew_ms: -125_000, skewed: true })], ['the clock of node-3 is 2m5s behind'], '');
    await shows(page, 'the clock of node-3 is 2m5s behind');
    expectEqual(await page.run(texts, '#page tbody .tag.danger'), ['▲ configuration', '▲ clock'], 'the marks');
    expectEqual(await page.run(() => [...document.querySelectorAll('#page tbody tr')[3].cells].slice(3, 9).map((one) => one.textContent)), ['3', '30', '30 %', '3 h', '1.0.0', '2 min behind'], 'the cells');
    await shows(page, 'The nodes have different versions.');
    expectEqual(await violations(page), [], 'nodes that differ');
  });
  await report.check('hostile names, versions, states and refusals are texts', async () => {
    const all = ['<b>node</b>', hostile, '"><img src=x onerror="window.owned = 3">', 'x'.repeat(3000), '\u202egnirts'].map((text, i) => node(i, { name: text, inc: i ? `${i}${text}` : 'inc0', state: i === 2 ? hostile : 'up', version: text, config: text, url: `https://${text}` }));
    await page.run(pretend, all, [hostile], hostile);
    await until(page, 'the nodes', () => document.querySelector('#page tbody strong')?.textContent === '<b>node</b>');
    await page.run(() => document.querySelectorAll('#page tbody tr')[1].querySelector('button').click());
    await until(page, 'the question', () => document.getElementById('drain-title')?.textContent.includes('<script>'));
    expectEqual(await violations(page), [], 'a hostile question');
    await page.run(() => document.getElementById('drain').click());
    await shows(page, 'does not drain: ');
    expectEqual(await violations(page), [], 'hostile nodes');
    expect((await page.run(() => document.getElementById('page').innerText)).includes('\\u202egnirts'), 'a direction is not shown');
    await nothingHappened(page, 'in nodes');
    expectEqual(await page.run(() => document.querySelectorAll('dialog :is(b, img, script)').length), 0, 'elements in the question');
  });
  await report.check('servers that run once are shown with their holders, also hostile ones', async () => {
    await page.run(pretend, [node(0), node(1)], [], '', [{ name: 'ledger', node: 'node-1', inc: 'inc1' }, { name: hostile, node: hostile, inc: 'inc0' }, { name: 'printer' }]);
    await until(page, 'the servers', () => document.querySelectorAll('[aria-label="Servers that run once"] tbody tr').length === 3);
    expectEqual(await page.run(() => [...document.querySelectorAll('[aria-label="Servers that run once"] tbody tr')].map((row) => row.cells[1].textContent)).then((all) => [all[0], all[2]]), ['node-1 inc1', '▲ none'], 'the holders');
    expectEqual(await violations(page), [], 'servers that run once');
    await nothingHappened(page, 'in servers that run once');
  });
  await report.check('phones, dark and forced colours', async () => {
    for (const [width, features] of [[360, []], [320, [{ name: 'prefers-color-scheme', value: 'dark' }]], [768, [{ name: 'prefers-color-scheme', value: 'dark' }]], [1280, [{ name: 'forced-colors', value: 'active' }]]]) {
      await size(page, width, features);
      await sleep(200); // colours change with a transition
      const wide = await page.run(() => document.documentElement.scrollWidth - innerWidth);
      expect(wide <= 0, `${wide} px too wide at ${width}`, await page.run(() => [...document.querySelectorAll('#page *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.wide, pre')).slice(0, 3).map((one) => one.outerHTML.slice(0, 120))));
      expectEqual(await violations(page), [], `${width} px, ${JSON.stringify(features)}`);
    }
    await page.run(pretend, [node(0), node(1)], [], '');
    await size(page, 360);
    await until(page, 'two nodes', () => [...document.querySelectorAll('#page tbody .state.up')].length === 2 && document.querySelector('[aria-label="Drain node-1"]'));
    expect(await page.run(() => document.querySelector('[aria-label="Drain node-1"]').getBoundingClientRect().right <= innerWidth), 'the button is out of sight on a phone');
  });
  await report.check('a node alone, no node, and a gateway that does not answer', async () => {
    await size(page, 1280);
    await page.run(pretend, [node(0)], [], '');
    await shows(page, 'This node is alone');
    await page.run(() => document.querySelector('[aria-label="Drain node-0"]').click());
    await until(page, 'the warning', () => document.querySelector('dialog .notice.bad')?.textContent.includes('No other node is up'));
    await press(page, 'Escape');
    await page.run(pretend, [], [], '');
    await shows(page, 'No node yet');
    expectEqual(await violations(page), [], 'no node');
    await page.run(() => { window.fetch = () => Promise.reject(new TypeError('gone')); });
    await until(page, 'the problem', () => document.getElementById('problem').textContent === 'weir does not answer.' && !document.getElementById('problem').hidden);
    expectEqual(await violations(page), [], 'a gateway that does not answer');
    await nothingHappened(page, 'at last');
  });
  await page.close();
  await Promise.all(nodes.slice(0, 2).map((one) => one.stop()));
  slow.close();
}

export async function consoleNodes({ weir }) {
  const report = new Report('the nodes of a cluster in the console');
  if (!weir) return 0; // it is weir's own page: there is nothing to look at without
  const browser = await report.check('a browser starts', () => Browser.start());
  if (!browser) return report.close();
  await alone(report, browser, weir);
  await together(report, browser, weir);
  await stop(browser.child, 2000);
  return report.close();
}

if (process.argv[1] === join(here, 'console-nodes.mjs')) await main(async (options) => { await npmPackages(); return consoleNodes(options); });
