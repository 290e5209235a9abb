// The catalog of the console with ten thousand tools: only rows in sight are elements, a keyboard reaches all of them, and what a
// person enters into a form stays.
import { createServer } from 'node:http';
import { expect, expectEqual, startWeir } from './harness.mjs';

const many = 10_000;

// manyTools is an MCP server with many tools.
async function manyTools() {
  const tools = Array.from({ length: many }, (_, i) => ({ name: `gauge_${String(i).padStart(5, '0')}`, description: `Reads gauge ${i}.`, inputSchema: { type: 'object', properties: { river: { type: 'string' } } }, annotations: { readOnlyHint: true } }));
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method } = JSON.parse(body);
    if (id === undefined) return response.writeHead(202).end();
    const result = { initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'gauges', version: '1' } }, 'tools/list': { tools }, 'tools/call': { content: [{ type: 'text', text: 'low' }] } }[method];
    return response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...(result ? { result } : { error: { code: -32601, message: 'no such method' } }) }));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, close: () => { server.closeAllConnections(); server.close(); } };
}

// withManyTools looks through a catalog of many tools.
export async function withManyTools(report, browser, weir, { until, visit, violations, press, smooth }) {
  const server = await manyTools();
  const gateway = await startWeir(weir, 'weir-console-many', { mcpServers: { gauges: { url: server.url } } });
  const page = await browser.open(`${gateway.base}/console`);
  await page.browser.send('Emulation.setDeviceMetricsOverride', { width: 1280, height: 800, deviceScaleFactor: 1, mobile: false }, page.session); // wide enough for the list and the entry
  await until(page, 'the tools of the server', () => document.querySelector('.tiles')?.textContent.includes('10,000'));
  const item = () => { const one = document.activeElement; return [one.getAttribute('aria-posinset'), one.getAttribute('aria-setsize'), one.firstChild?.textContent]; };
  await report.check('catalog: ten thousand tools scroll, and only rows in sight are elements', async () => {
    await visit(page, '#/catalog', 'the tree', () => document.querySelector('.tree [data-path]'));
    await page.run(() => document.querySelector('.tree [data-path]').click());
    await until(page, 'its parts', () => document.querySelectorAll('.tree [aria-level="2"]').length >= 10);
    await page.run(() => document.querySelector('.tree [data-path]').focus());
    await press(page, '*');
    await until(page, 'the rows of all tools', (many) => { const tree = document.querySelector('.tree'); return !tree.ariaBusy && tree.scrollHeight >= many * tree.querySelector('[role=treeitem]').offsetHeight; }, many);
    const scroll = () => page.run(async () => {
      const tree = document.querySelector('.tree'), frames = [], step = (tree.scrollHeight - tree.clientHeight) / 40;
      tree.scrollTop = 0;
      let most = 0, last = await new Promise(requestAnimationFrame);
      for (let i = 1; i <= 40; i++) {
        tree.scrollTop = i * step;
        const now = await new Promise(requestAnimationFrame);
        frames.push(now - last);
        last = now;
        most = Math.max(most, tree.querySelectorAll('[role=treeitem]').length);
      }
      tree.scrollTop = tree.scrollHeight;
      return { most, frames: frames.sort((a, b) => a - b) };
    });
    const { most, frames } = await scroll();
    if (process.env.FIGURES) console.log(`  rows ${most}, frames: median ${frames[20].toFixed(1)} ms, longest ${frames.at(-1).toFixed(1)} ms, ${frames.filter((one) => one > 50).length} of 40 over 50 ms`);
    expect(most > 10 && most < 100, `${most} rows are elements`);
    await smooth(browser, 'ten thousand tools', async () => (await scroll()).frames);
    await until(page, 'the last tool', (last) => [...document.querySelectorAll('.tree a')].some((one) => one.textContent.startsWith(last)), `gauge_0${many - 1}`);
  });
  await report.check('catalog: arrow keys, Home and End reach all of ten thousand tools', async () => {
    await page.run(() => document.querySelector('.tree [tabindex="0"]').focus());
    await press(page, 'Home');
    for (let i = 0; i < 5 && !await page.run(() => document.activeElement.href); i++) await press(page, 'ArrowDown');
    expectEqual((await page.run(item))[2], 'gauge_00000', 'the first tool');
    await press(page, 'End');
    const last = await page.run(item);
    expect(last[0] === last[1] && last[2] === `gauge_0${many - 1}`, 'another row', last);
    await press(page, 'PageUp');
    for (let i = 0; i < 3; i++) await press(page, 'ArrowUp');
    const near = await page.run(item);
    expect(near[2].startsWith('gauge_099'), 'another row', near);
    expectEqual(await page.run(() => document.querySelectorAll('.tree [tabindex="0"]').length), 1, 'rows that Tab reaches');
    expectEqual(await violations(page), [], 'the tree');
    await press(page, 'Enter');
    await until(page, 'the entry', (name) => document.querySelector('#entry h2')?.textContent === name && document.querySelector('.tree .chosen')?.textContent.startsWith(name), near[2]);
    expectEqual(await page.run(item), near, 'what has the focus after an entry was opened');
  });
  await report.check('try: what a person enters stays when the page is drawn again', async () => {
    const kept = await page.run(async () => {
      const field = document.querySelector('.form input');
      field.focus();
      field.value = 'Aire';
      field.dispatchEvent(new Event('change', { bubbles: true }));
      field.setSelectionRange(1, 3);
      document.getElementById('call').click();
      for (let i = 0; i < 200 && !document.querySelector('#outcome'); i++) await new Promise((done) => { setTimeout(done, 10); });
      return [document.querySelector('.form input') === field, field.value, document.activeElement === field, field.selectionStart, Boolean(document.querySelector('#outcome'))];
    });
    expectEqual(kept, [true, 'Aire', true, 1, true], 'the field');
  });
  await gateway.stop();
  server.close();
}
