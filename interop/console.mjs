// The page /console in a real browser: it finds tools, shows calls as they come, shows hostile texts as texts, asks for a token
// where one is needed, fits a phone and can be used with a keyboard.
//
//   node interop/console.mjs --weir bin/weir
import { createHash } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { everythingStdio, expect, expectEqual, here, main, Report, startWeir, stop } from './harness.mjs';
import { setup } from './setup.mjs';

const token = 'console-interop-token-0123456789';
const single = 'console-interop-single-012345678';
const sha256 = (text) => createHash('sha256').update(text).digest('hex');

const hostile = '</pre></script><script>window.owned = 1</script><img src=x onerror="window.owned = 2"><b>bold</b> \u202egnirts';

// hostileServer is an MCP server whose every text tries to become part of a page.
async function hostileServer() {
  const tools = [
    {
      name: 'flood_warnings', title: `<i>title</i>${hostile}`, description: `Lists flood warnings. ${hostile}`,
      inputSchema: { type: 'object', properties: { 'a"><img src=x onerror="window.owned=3">': { type: 'string', description: hostile } } }, annotations: { readOnlyHint: true, title: hostile },
    },
    { name: 'long_text', description: 'Returns a long text.', inputSchema: { type: 'object' } },
    { name: 'break_off', description: `Fails. ${hostile}`, inputSchema: { type: 'object' } },
  ];
  const rows = Array.from({ length: 400 }, (_, i) => ({ id: i, area: `county ${i}`, note: i === 0 ? hostile : 'a note that is long enough to be kept', big: 0 }));
  const text = JSON.stringify(rows).replaceAll('"big":0', '"big":12345678901234567890');
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params } = JSON.parse(body);
    const answer = (value) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...value }));
    if (id === undefined) return response.writeHead(202).end();
    switch (method) {
      case 'initialize': return answer({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: `<script>window.owned=4</script>`, version: '1' } } });
      case 'tools/list': return answer({ result: { tools } });
      case 'tools/call':
        if (params.name === 'break_off') return answer({ error: { code: -32000, message: hostile } });
        return answer({ result: { content: [{ type: 'text', text: params.name === 'long_text' ? text : 'no warnings' }] } });
      default: return answer({ error: { code: -32601, message: 'no such method' } });
    }
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, close: () => { server.closeAllConnections(); server.close(); } };
}

// agent calls meta-tools over streamable HTTP.
async function agent(url, secret) {
  const post = async (body, session) => fetch(url, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json', Accept: 'application/json, text/event-stream', 'MCP-Protocol-Version': '2025-11-25', ...(session && { 'Mcp-Session-Id': session }), ...(secret && { Authorization: `Bearer ${secret}` }) },
    body: JSON.stringify({ jsonrpc: '2.0', ...body }),
  });
  const first = await post({ id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'interop', version: '1' } } });
  expectEqual(first.status, 200, 'status of initialize');
  await first.text();
  const session = first.headers.get('mcp-session-id');
  await (await post({ method: 'notifications/initialized' }, session)).text();
  let id = 1;
  return async (name, args) => {
    const response = await post({ id: ++id, method: 'tools/call', params: { name, arguments: args } }, session);
    expectEqual(response.status, 200, `status of ${name}`);
    return response.text();
  };
}

// until waits until a function in the page returns something true, and returns it.
async function until(page, what, fn, ...args) {
  for (const end = Date.now() + 15_000; ; await sleep(50)) {
    const got = await page.run(fn, ...args);
    if (got) return got;
    if (Date.now() > end) expect(false, `${what} did not come`, await page.run(() => document.body.innerText));
  }
}

// A page tells what its policy refused, and what a hostile text did.
const watchPolicy = () => {
  window.refused = [];
  document.addEventListener('securitypolicyviolation', (event) => window.refused.push(`${event.violatedDirective} ${event.blockedURI}`));
};

const nothingHappened = async (page, where) => {
  expectEqual(await page.run(() => [window.owned ?? null, document.querySelectorAll('main img, main script, main b, main i').length, window.refused]), [null, 0, []], `what hostile texts did ${where}`);
};

const tab = (page, name) => page.run((name) => document.getElementById(`tab-${name}`).click(), name);

const idOf = async (ask, query) => {
  const found = await ask('tool_browse', { query });
  const [id] = /[a-z0-9_-]+:[a-z0-9_.-]+@?[^\s"\\]*/i.exec(found.slice(found.indexOf('"text"') + 8)) ?? [];
  expect(id, `no tool for ${query}`, found);
  return id;
};

async function withoutTokens(report, browser, weir, server) {
  const gateway = await startWeir(weir, 'weir-console', { mcpServers: { everything: everythingStdio(), hostile: { url: server.url } }, hub: {} });
  const ask = await agent(gateway.url);
  const [warnings, long, broken] = [await idOf(ask, 'flood warnings'), await idOf(ask, 'returns a long text'), await idOf(ask, 'fails')];

  const start = await browser.open(`${gateway.base}/`);
  await report.check('the start page leads to the console, and back', async () => {
    expectEqual(await start.run(() => [...document.links].filter((link) => link.pathname === '/console').length), 1, 'links to the console');
    await start.run(() => [...document.links].find((link) => link.pathname === '/console').click());
    await until(start, 'the console', () => location.pathname === '/console' && document.getElementById('overview')?.querySelector('table'));
    expectEqual(await start.run(() => document.querySelector('header a').href), `${gateway.base}/`, 'the link back');
  });

  const page = await browser.open(`${gateway.base}/console`);
  await page.run(watchPolicy);
  await report.check('overview: servers, state, version and what was saved', async () => {
    const text = await until(page, 'two servers', () => document.querySelectorAll('#overview tbody tr').length === 2 && document.getElementById('overview').innerText);
    for (const part of ['everything', 'hostile', 'ready', 'stdio', 'Tokens read', 'Saved', '<script>window.owned=4</script>']) expect(text.includes(part), `no ${part}`, text);
    expect(await page.run(() => document.getElementById('login').hidden), 'it asks for a token');
    await nothingHappened(page, 'in the overview');
  });
  await report.check('catalog: the tree opens, level by level', async () => {
    await tab(page, 'catalog');
    await until(page, 'the tree', () => document.querySelectorAll('#found summary').length === 2);
    await page.run(() => [...document.querySelectorAll('#found summary')].find((one) => one.textContent.startsWith('hostile')).click());
    await until(page, 'the tools', () => document.querySelectorAll('#found details[open] li').length === 3);
  });
  await report.check('catalog: a search finds what tool_browse finds, in its order', async () => {
    await page.run(() => { const query = document.getElementById('query'); query.value = 'flood warnings'; query.dispatchEvent(new Event('input', { bubbles: true })); });
    await until(page, 'the hit', (id) => document.querySelector('.hits button')?.dataset.id === id, warnings);
    const shown = await page.run(() => [...document.querySelectorAll('.hits button')].map((one) => one.dataset.id));
    const said = await ask('tool_browse', { query: 'flood warnings', top_k: shown.length });
    const at = shown.map((id) => said.indexOf(id));
    expect(at.every((place, i) => place > 0 && (i === 0 || place > at[i - 1])), 'another order', { shown, at });
  });
  await report.check('catalog: a hostile definition is text, with its id to copy', async () => {
    await page.run(() => document.querySelector('.hits button').click());
    await until(page, 'the entry', (id) => document.getElementById('tool-id')?.textContent === id, warnings);
    const text = await page.run(() => document.getElementById('entry').textContent);
    for (const part of ['<script>window.owned = 1</script>', '<img src=x onerror="window.owned = 2">', '\\u202egnirts', 'Input schema', 'readOnlyHint']) expect(text.includes(part), `no ${part}`, text);
    await nothingHappened(page, 'in the catalog');
  });
  await report.check('live calls: they arrive, with tokens and duration, and can be filtered', async () => {
    await tab(page, 'calls');
    await until(page, 'the stream', () => document.getElementById('calls').innerText.includes('live'));
    await ask('tool_execute', { tool_id: warnings, args: {} });
    await ask('tool_execute', { tool_id: long, args: {} });
    await ask('tool_execute', { tool_id: broken, args: {} });
    const rows = await until(page, 'three calls', (ids) => {
      const rows = [...document.querySelectorAll('#calls tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent));
      return ids.every((id) => rows.some((row) => row[2] === id)) && rows;
    }, [warnings, long, broken]);
    const row = rows.find((one) => one[2] === warnings);
    expect(row[1] === 'tool_execute' && row[3] === 'hostile' && / ms$/.test(row[4]) && row[5] === '1' && row[6] === '2' && row[9] === 'ok', 'wrong row', row);
    const counted = await until(page, 'tokens of the long text', (id) => [...document.querySelectorAll('#calls tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent)).find((row) => row[2] === id && row[7]), long);
    expect(Number(counted[7].replaceAll(',', '')) > 10 * Number(counted[6].replaceAll(',', '')), 'nothing was saved', counted);
    await page.run(() => document.querySelector('#calls input[type=checkbox]').click());
    await until(page, 'errors alone', (id) => { const rows = [...document.querySelectorAll('#calls tbody tr')]; return rows.length > 0 && rows.every((row) => row.classList.contains('failure')) && rows.some((row) => row.cells[2].textContent === id); }, broken);
    await page.run(() => { document.querySelector('#calls input[type=checkbox]').click(); const filter = document.querySelector('#calls input[type=search]'); filter.value = 'long_text'; filter.dispatchEvent(new Event('input')); });
    await until(page, 'the filtered call', (id) => { const rows = [...document.querySelectorAll('#calls tbody tr')]; return rows.length === 1 && rows[0].cells[2].textContent === id; }, long);
    await nothingHappened(page, 'in the calls');
  });
  await report.check('tables: what is kept, and its first rows, to the last digit', async () => {
    await tab(page, 'artifacts');
    await until(page, 'the artifact', () => document.querySelectorAll('#artifacts tbody tr').length === 1);
    await page.run(() => document.querySelector('#artifacts tbody button').click());
    const cells = await until(page, 'rows', () => document.querySelectorAll('#preview tbody tr').length === 20 && [...document.querySelectorAll('#preview tbody tr:first-child td')].map((cell) => cell.textContent));
    expect(cells.includes('12345678901234567890'), 'a number was rounded', cells);
    expect(cells.some((cell) => cell.includes('<script>window.owned = 1</script>')), 'no hostile cell', cells);
    await nothingHappened(page, 'in the tables');
  });
  await report.check('offices: the hub and its members', async () => {
    await tab(page, 'offices');
    await until(page, 'the agent of the gateway', () => [...document.querySelectorAll('#offices tbody tr')].some((row) => row.cells[2].textContent === 'agent'));
  });
  await report.check('a keyboard is enough for the tabs', async () => {
    const got = await page.run(() => {
      const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
      document.getElementById('tab-offices').focus();
      press('Home');
      press('ArrowRight');
      const visible = [...document.querySelectorAll('[role=tabpanel]')].filter((panel) => !panel.hidden).map((panel) => panel.id);
      return [document.activeElement.id, document.activeElement.getAttribute('aria-selected'), document.querySelectorAll('[role=tab][tabindex="0"]').length, visible];
    });
    expectEqual(got, ['tab-catalog', 'true', 1, ['catalog']], 'the tabs');
  });
  await report.check('it fits a phone, light and dark', async () => {
    await page.browser.send('Emulation.setDeviceMetricsOverride', { width: 360, height: 740, deviceScaleFactor: 2, mobile: true }, page.session);
    for (const scheme of ['light', 'dark']) {
      await page.browser.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] }, page.session);
      for (const name of ['overview', 'catalog', 'calls', 'offices', 'artifacts']) {
        await tab(page, name);
        await sleep(200);
        const [wide, colour] = await page.run(() => [document.documentElement.scrollWidth - innerWidth, getComputedStyle(document.body).backgroundColor]);
        expect(wide <= 0, `${name} is ${wide} pixels too wide`);
        expectEqual(colour === 'rgb(18, 24, 29)', scheme === 'dark', `dark in ${scheme}`);
      }
    }
    await nothingHappened(page, 'on a phone');
  });
  await report.check('a weir that ends is told', async () => {
    await tab(page, 'overview');
    await gateway.stop();
    await until(page, 'the problem', () => !document.getElementById('problem').hidden && document.getElementById('problem').textContent.includes('does not answer'));
  });
}

async function withTokens(report, browser, weir, server) {
  const gateway = await startWeir(weir, 'weir-console-tokens', {
    mcpServers: { hostile: { url: server.url } },
    auth: { tokens: [{ name: 'ann', sha256: sha256(token) }, { name: 'bob', sha256: sha256(single), agents: ['hostile'] }] },
  });
  const page = await browser.open(`${gateway.base}/console`);
  await page.run(watchPolicy);
  const enter = (text) => page.run((text) => {
    document.getElementById('token').value = text;
    document.querySelector('#login button').click();
  }, text);
  await report.check('it asks for a token, and shows nothing before', async () => {
    await until(page, 'the login', () => !document.getElementById('login').hidden);
    expectEqual(await page.run(() => [document.getElementById('main').hidden, document.body.textContent.includes('hostile')]), [true, false], 'what is shown');
  });
  await report.check('a wrong token and one for single servers are refused', async () => {
    await enter('wrong');
    await until(page, 'the refusal', () => document.getElementById('problem').textContent.includes('not known'));
    await enter(single);
    await until(page, 'the other refusal', () => document.getElementById('problem').textContent.includes('single agents'));
    expect(await page.run(() => document.getElementById('main').hidden && !document.getElementById('login').hidden), 'the console is shown');
  });
  await report.check('the right token opens it, in a header and in this tab alone', async () => {
    await enter(token);
    await until(page, 'the overview', () => document.querySelectorAll('#overview tbody tr').length === 1);
    expectEqual(await page.run(() => [sessionStorage.getItem('weir-token'), localStorage.length, document.cookie, document.getElementById('token').value]), [token, 0, '', ''], 'where the token is');
    expect(await page.run((token) => performance.getEntriesByType('resource').every((one) => !one.name.includes(token)) && !document.documentElement.outerHTML.includes(token), token), 'the token is in a URL or in the page');
  });
  await report.check('live calls arrive with the token, too', async () => {
    await tab(page, 'calls');
    await until(page, 'the stream', () => document.getElementById('calls').innerText.includes('live'));
    const ask = await agent(gateway.url, token);
    const id = await idOf(ask, 'flood warnings');
    await ask('tool_execute', { tool_id: id, args: {} });
    await until(page, 'the call', (id) => [...document.querySelectorAll('#calls tbody tr')].some((row) => row.cells[2].textContent === id && row.cells[8].textContent.includes('ann')), id);
    await nothingHappened(page, 'with a token');
  });
  await report.check('the token can be forgotten', async () => {
    await page.run(() => document.getElementById('forget').click());
    await until(page, 'the login', () => document.getElementById('login')?.hidden === false && document.querySelectorAll('#calls tbody tr').length === 0);
    expectEqual(await page.run(() => sessionStorage.length), 0, 'what is kept');
  });
  await gateway.stop();
}

export async function consolePage({ weir }) {
  const report = new Report('the console in a browser');
  if (!weir) return 0; // it is weir's own page: there is nothing to look at without
  const browser = await report.check('a browser starts', () => Browser.start());
  if (!browser) return report.close();
  const server = await hostileServer();
  await withoutTokens(report, browser, weir, server);
  await withTokens(report, browser, weir, server);
  server.close();
  await stop(browser.child, 2000);
  return report.close();
}

if (process.argv[1] === join(here, 'console.mjs')) {
  await main(async (options) => { await setup(); return consolePage(options); });
}
