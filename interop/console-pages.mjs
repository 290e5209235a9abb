// The console in a real browser, as one looks at it: types of its scripts, its first paint, a table of a million rows, narrow
// screens, the keyboard alone on each page, forced colours, and paper.
//
//   node interop/console-pages.mjs --weir bin/weir [--rows N] [paint | narrow | keyboard | tables]
import { createServer } from 'node:http';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { agent, hostile, idOf, nothingHappened, press, smooth, title, until, violations, visit, watchPolicy } from './console.mjs';
import { expect, expectEqual, here, main, module, Report, run, startWeir, stop } from './harness.mjs';
import { npmPackages } from './setup.mjs';

const million = 1_000_000;
const at = (sorted, part) => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))];
const median = (all) => at([...all].sort((a, b) => a - b), 0.5);

// row is a row of the large table, as JSON text. A number has more digits than JavaScript keeps.
const row = (i) => `{"sku":"P-${i}","region":"r${i % 7}","qty":${(i * 7919) % 1000},"price":${i % 100}.25,"big":${9007199254740993n + BigInt(i)}}`;

const strange = ['<b>bold</b>', '</td><script>window.owned = 5</script>', '<img src=x onerror="window.owned = 6">', '\u202egnirts', 'x'.repeat(3000)];

// tablesServer is an MCP server with tools that return tables.
async function tablesServer(rows) {
  const answers = {
    list_stock: () => { const all = new Array(rows); for (let i = 0; i < rows; i++) all[i] = row(i); return `[${all.join()}]`; },
    list_oddities: () => JSON.stringify(Array.from({ length: 120 }, (_, i) => ({ n: i, [`<i onclick="window.owned=7">${hostile}`]: strange[i % strange.length], note: hostile, ...(i % 2 && { only_odd: i }) }))),
  };
  const tools = [
    { name: 'list_stock', description: 'Lists all stock of all regions.', inputSchema: { type: 'object' } },
    { name: 'list_oddities', description: 'Returns peculiar hostile curiosities.', inputSchema: { type: 'object' } },
  ];
  const server = createServer(async (request, response) => {
    if (request.url === '/bare') return response.writeHead(200, { 'Content-Type': 'text/html' }).end('<!doctype html><title>bare</title><p>A page of one line.</p>');
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params } = JSON.parse(body);
    const answer = (result) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(`{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${result}}`);
    if (id === undefined) return response.writeHead(202).end();
    if (method === 'initialize') return answer(JSON.stringify({ protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'stock', version: '1' } }));
    if (method === 'tools/list') return answer(JSON.stringify({ tools }));
    if (method !== 'tools/call') return response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, error: { code: -32601, message: 'no such method' } }));
    return answer(JSON.stringify({ content: [{ type: 'text', text: answers[params.name]() }] }));
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { url: `http://127.0.0.1:${server.address().port}/mcp`, bare: `http://127.0.0.1:${server.address().port}/bare`, close: () => { server.closeAllConnections(); server.close(); } };
}

// patiently is until for what weir sorts: a million rows take long on a busy machine.
const patiently = async (...args) => {
  for (let i = 0; ; i++) {
    try { return await until(...args); } catch (error) { if (i === 3) throw error; }
  }
};

const handleOf = (said) => /art_[A-Za-z0-9_-]+/.exec(said)?.[0];

// choose changes a field of the page as a person does.
const choose = (page, selector, value) => page.run((selector, value) => {
  const field = document.querySelector(selector);
  field.value = value;
  field.dispatchEvent(new Event('change', { bubbles: true }));
}, selector, value);

const click = (page, selector, text) => page.run((selector, text) => [...document.querySelectorAll(selector)].find((one) => one.textContent.trim().startsWith(text)).click(), selector, text);
const matched = () => document.getElementById('matched')?.textContent ?? '';
const firstCells = () => [...document.querySelectorAll('.grid tbody tr')].filter((row) => !row.classList.contains('hole')).map((row) => [...row.cells].map((cell) => cell.textContent));
const size = (page, width, height = 900, features = []) => Promise.all([
  page.browser.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 500 }, page.session),
  page.browser.send('Emulation.setEmulatedMedia', { features }, page.session),
]);

async function largeTable(report, browser, gateway, handle, rows) {
  const page = await browser.open(`${gateway.base}/console`);
  await page.run(watchPolicy);
  await page.run(() => { window.showSaveFilePicker = undefined; });
  await size(page, 1280);
  const number = rows.toLocaleString('en');
  await report.check(`tables: ${number} rows, of which those in sight are elements`, async () => {
    await visit(page, `#/tables/${handle}`, 'the rows', () => document.querySelectorAll('.grid tbody tr:not(.hole)').length > 10);
    expectEqual(await page.run(matched).then((text) => text.split('.')[0]), `${number} rows`, 'what is told');
    expect(await page.run(() => document.querySelectorAll('.grid tbody tr').length < 60), 'too many elements');
    expect(await page.run(() => { const grid = document.querySelector('.grid'); return grid.scrollWidth <= grid.clientWidth && [...grid.querySelectorAll('tbody tr:first-child td')].every((one) => one.getBoundingClientRect().right <= grid.getBoundingClientRect().right); }), 'cells of six narrow columns out of sight');
    expectEqual(await page.run(() => document.querySelector('.grid').getAttribute('aria-rowcount')), String(rows + 1), 'rows for a screen reader');
    expectEqual((await page.run(firstCells))[2], ['2', 'P-2', 'r2', '838', '2.25', '9007199254740995'], 'a row');
  });
  await report.check('tables: they scroll smoothly, row by row and by the scroll bar', async () => {
    const cost = async () => Object.fromEntries((await page.browser.send('Performance.getMetrics', {}, page.session)).metrics.map((one) => [one.name, one.value]));
    await page.browser.send('Performance.enable', {}, page.session);
    for (const [name, step] of [['a row a frame', 33], ['a wheel turned fast', 240], ['the scroll bar dragged', 6000]]) {
      await smooth(browser, name, async () => {
        const before = await cost();
        const frames = await page.run(async (step) => {
          const grid = document.querySelector('.grid'), all = [];
          if (grid.scrollTop + 150 * step > grid.scrollHeight) grid.scrollTop = 0;
          let before = performance.now();
          for (let i = 0; i < 150; i++) {
            grid.scrollTop += step;
            const now = await new Promise(requestAnimationFrame);
            all.push(now - before);
            before = now;
          }
          return all;
        }, step);
        const after = await cost();
        const sorted = frames.slice(5).sort((a, b) => a - b), busy = 1000 * (after.TaskDuration - before.TaskDuration) / frames.length;
        console.log(`        ${name}: a frame of ${at(sorted, 0.5).toFixed(1)} ms (median), ${at(sorted, 0.95).toFixed(1)} ms (95 of 100), ${busy.toFixed(2)} ms of work a frame`);
        return sorted;
      });
    }
    const found = await until(page, 'the rows where the scroll bar was left', () => { const first = document.querySelector('.grid tbody tr:not(.hole) td:nth-child(2)'); return first && document.querySelectorAll('.grid .hole').length === 0 && first.textContent; });
    expect(/^P-\d+$/.test(found), 'no row', found);
    const memory = await page.run(() => performance.memory.usedJSHeapSize / 1e6);
    console.log(`        JavaScript holds ${memory.toFixed(0)} MB`);
    expect(memory < 64, `the page holds ${memory} MB`);
  });
  await report.check('tables: the keys go to the last row and to the first', async () => {
    await page.run(() => document.querySelector('.grid').focus());
    await press(page, 'End');
    await until(page, 'the last row', (last) => [...document.querySelectorAll('.grid tbody tr')].at(-1).cells[0].textContent === last && document.querySelector('.grid .chosen')?.cells[0].textContent === last, String(rows - 1));
    await press(page, 'ArrowUp');
    await until(page, 'the row before', (last) => document.querySelector('.grid .chosen')?.cells[0].textContent === last && document.querySelector('.grid').getAttribute('aria-activedescendant') === document.querySelector('.grid .chosen').id, String(rows - 2));
    await press(page, 'Home');
    await until(page, 'the first row', () => document.querySelector('.grid .chosen')?.cells[1].textContent === 'P-0');
    await press(page, 'ArrowDown');
    await press(page, 'Enter');
    const text = await until(page, 'all of the row', () => document.querySelector('dialog.record[open]')?.textContent);
    for (const part of ['Row 2', 'P-1', '9007199254740994']) expect(text.includes(part), `no ${part}`, text);
    expectEqual(await violations(page), [], 'a row');
    await press(page, 'Escape');
    await until(page, 'the end of the row', () => !document.querySelector('dialog.record') && document.activeElement.classList.contains('grid'));
  });
  await report.check('tables: filtered and sorted, to the last digit', async () => {
    await choose(page, '.controls [name=column]', 'big');
    await choose(page, '.controls [name=op]', 'eq');
    await choose(page, '.controls [name=value]', '9007199254740999');
    await click(page, '.controls button', 'Filter');
    await patiently(page, 'one row', () => document.getElementById('matched').textContent.startsWith('1 row of'));
    expectEqual((await page.run(firstCells)).map((cells) => cells[1]), ['P-6'], 'the row');
    await click(page, '.controls .tag', 'big is');
    await patiently(page, 'all rows', (number) => document.getElementById('matched').textContent.startsWith(`${number} row`), number);
    await choose(page, '.controls [name=column]', 'region');
    await choose(page, '.controls [name=op]', 'eq');
    await choose(page, '.controls [name=value]', 'r3');
    await click(page, '.controls button', 'Filter');
    await click(page, '.grid th button', 'qty');
    await patiently(page, 'the order', () => document.querySelector('.grid th[aria-sort=ascending]')?.textContent.startsWith('qty'));
    await click(page, '.grid th button', 'qty');
    await patiently(page, 'the other order', () => document.querySelector('.grid th[aria-sort=descending]') && document.querySelector('.grid tbody td:nth-child(4)')?.textContent === '999');
    expect((await page.run(firstCells)).every((cells) => cells[2] === 'r3'), 'rows of other regions');
    expect((await page.run(matched)).startsWith(`${Math.ceil((rows - 3) / 7).toLocaleString('en')} rows of ${number}`), 'what is told', await page.run(matched));
  });
  // saved returns what the page saves in a form.
  const saved = async (form) => {
    await page.run(() => { window.saved = undefined; URL.createObjectURL = (blob) => { window.saved = blob; return '#'; }; });
    await choose(page, '.heading [name=as]', form);
    await click(page, '.heading button', 'Save');
    return patiently(page, `the file in ${form}`, async (form) => window.saved && [window.saved.size, form === 'arrow' ? '' : (await window.saved.slice(0, 200).text())], form);
  };
  await report.check('tables: chosen columns, saved as CSV, JSON and Arrow, with the filter and the order on', async () => {
    await click(page, '.tools button', 'Columns');
    await page.run(() => { for (const name of ['price', 'big']) [...document.querySelectorAll('.checks label')].find((one) => one.textContent.trim() === name).firstChild.click(); });
    await until(page, 'fewer columns', () => [...document.querySelectorAll('.grid th')].map((one) => one.textContent).join() === '_row_id,sku,region,qty ↓');
    expectEqual(await violations(page), [], 'chosen columns');
    const [csvSize, csv] = await saved('csv');
    expect(csv.startsWith('sku,region,qty\nP-') && csv.split('\n')[1].endsWith(',r3,999'), 'the CSV', csv);
    const [, json] = await saved('json');
    expect(/^\[\{"sku":"P-\d+","region":"r3","qty":999\},/.test(json), 'the JSON', json);
    expect((await saved('arrow'))[0] > csvSize / 2, 'the Arrow stream is short');
    await click(page, '.tools button', 'Columns');
  });
  await report.check('tables: groups and sums, and the figures of a column', async () => {
    await page.run(() => document.querySelectorAll('.controls .tag').forEach((one) => one.click()));
    await patiently(page, 'all rows', (number) => document.getElementById('matched').textContent.startsWith(`${number} row`), number);
    await click(page, '.tools button', 'Groups');
    await choose(page, '#panel [name=group]', 'region');
    await choose(page, '#panel [name=sum]', 'sum');
    await choose(page, '#panel [name=of]', 'qty');
    await click(page, '#panel button', 'Add');
    await patiently(page, 'the groups', () => document.getElementById('matched').textContent.startsWith('7 groups') && document.querySelectorAll('.bars .hbar').length === 7);
    const want = Array.from({ length: 7 }, () => 0);
    for (let i = 0; i < rows; i++) want[i % 7] += (i * 7919) % 1000;
    expectEqual((await page.run(firstCells)).slice(0, 7), want.map((sum, i) => [`r${i}`, String(sum)]), 'the sums');
    expectEqual(await violations(page), [], 'groups');
    const [, csv] = await saved('csv');
    expect(csv.startsWith(`region,sum_qty\nr0,${want[0]}\n`), 'the CSV of groups', csv);
    await click(page, '#panel button', 'Back');
    await patiently(page, 'all rows', (number) => document.getElementById('matched').textContent.startsWith(`${number} row`), number);
    await click(page, '.tools button', 'Figures');
    await choose(page, '#panel [name=column]', 'region');
    await patiently(page, 'the figures', () => document.querySelectorAll('#panel .hbar').length === 7);
    expect((await page.run(() => document.querySelector('#panel .facts').textContent)).includes('Distinct7'), 'the distinct values');
    expectEqual(await violations(page), [], 'figures of a column');
  });
  await nothingHappened(page, 'in a large table');
}

async function oddTable(report, browser, gateway, handle) {
  const page = await browser.open(`${gateway.base}/console`);
  await page.run(watchPolicy);
  await report.check('tables: hostile texts in names and cells are texts', async () => {
    await visit(page, `#/tables/${handle}`, 'the rows', () => document.querySelectorAll('.grid tbody tr:not(.hole)').length > 10);
    const text = await page.run(() => document.querySelector('.grid').textContent);
    for (const part of ['<b>bold</b>', 'window.owned = 5', '\\u202egnirts', '<i onclick', 'only_odd']) expect(text.includes(part), `no ${part}`, text);
    await click(page, '.tools button', 'Columns');
    await click(page, '.tools button', 'Figures');
    await page.run(() => { const select = document.querySelector('#panel [name=column]'); select.value = 'note'; select.dispatchEvent(new Event('change', { bubbles: true })); });
    await patiently(page, 'the figures', () => document.querySelectorAll('#panel .facts .fact').length > 1);
    await page.run(() => document.querySelector('.grid tbody tr').click());
    await until(page, 'the row', () => document.querySelector('dialog.record[open]'));
    expectEqual(await violations(page), [], 'a table of hostile texts');
    await nothingHappened(page, 'in a table');
  });
}

const pages = ['home', 'servers', 'servers/stock', 'catalog', 'calls', 'tables', 'review', 'offices', 'clients', 'setup'];

// paint opens an address in a page of its own and returns when it first painted, in milliseconds.
async function paint(browser, url) {
  const page = await browser.open(url);
  const ms = await until(page, 'the first paint', () => performance.getEntriesByName('first-contentful-paint')[0]?.startTime);
  await page.close();
  return ms;
}

async function firstPaint(report, browser, gateway, server) {
  await report.check('the first paint comes soon after that of a page of one line', async () => {
    const painted = [], bare = [];
    for (let i = 0; i < 11; i++) {
      bare.push(await paint(browser, server.bare));
      painted.push(await paint(browser, `${gateway.base}/console`));
    }
    console.log(`        the first paint after ${median(painted).toFixed(0)} ms, of a page of one line after ${median(bare).toFixed(0)} ms (medians of ${painted.length})`);
    // A busy machine is slow with any page, and the page of one line says how slow. The best times are those with the least
    // of what else the machine does.
    expect(Math.min(...painted) <= 150 + 4 * Math.min(...bare), `the first paint comes after ${Math.min(...painted)} ms, of a page of one line after ${Math.min(...bare)} ms`, painted);
  });
}

async function narrow(report, browser, gateway) {
  const page = await browser.open(`${gateway.base}/console`);
  for (const width of [360, 768]) {
    await size(page, width, 740);
    await report.check(`catalog: an entry that takes the place of the list has the focus, and gives it back, at ${width} px`, async () => {
      await visit(page, '#/catalog', 'the tree', () => document.querySelectorAll('#found [aria-expanded]').length > 0);
      await page.run(() => { const folder = document.querySelector('#found [aria-expanded=false]'); if (folder) folder.click(); });
      await until(page, 'the tools', () => document.querySelectorAll('#found [aria-level="2"]').length === 2);
      await page.run(() => { const row = document.querySelector('#found [aria-level="2"]'); row.focus(); row.click(); });
      await until(page, 'the heading', () => document.activeElement.matches('#entry h2'));
      await press(page, 'Escape');
      await until(page, 'the row', () => document.activeElement.getAttribute('role') === 'treeitem' && document.activeElement.getAttribute('aria-level') === '2');
    });
    await report.check(`no page is wider than ${width} px, and nothing is broken inside a word`, async () => {
      for (const hash of pages) {
        await visit(page, `#/${hash === 'home' ? '' : hash}`, hash, () => document.querySelector('#page h1'));
        await sleep(50);
        const wide = await page.run(() => document.documentElement.scrollWidth - innerWidth);
        expect(wide <= 0, `${hash} is ${wide} px too wide`, await page.run(() => [...document.querySelectorAll('#page *')].filter((one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.closest('.wide, pre, .chart')).slice(0, 3).map((one) => one.outerHTML.slice(0, 120))));
        const broken = await page.run(() => [...document.querySelectorAll('#page :is(button, th, .tag, .state, h1, h2, summary, dt)')].filter((one) => {
          const text = [...one.childNodes].find((node) => node.nodeType === 3 && node.nodeValue.trim());
          if (!text || one.closest('dd, .wide')) return false;
          for (const { 0: word, index } of text.nodeValue.matchAll(/[\p{L}\d]+/gu)) {
            const range = document.createRange();
            range.setStart(text, index);
            range.setEnd(text, index + word.length);
            if (new Set([...range.getClientRects()].map((rect) => Math.round(rect.top))).size > 1) return true;
          }
          return false;
        }).map((one) => one.textContent));
        expectEqual(broken, [], `words that are broken at ${hash}`);
      }
    });
  }
  await page.close();
}

// keyboard goes through each page with Tab alone: every control has the focus once, can be seen and has a name.
async function keyboard(report, browser, gateway, handle) {
  const page = await browser.open(`${gateway.base}/console`);
  await size(page, 1280);
  await report.check('each page can be used with the keyboard alone', async () => {
    for (const hash of [...pages, `tables/${handle}`]) {
      await visit(page, `#/${hash === 'home' ? '' : hash}`, hash, () => document.querySelector('#page h1'));
      await sleep(50);
      await page.run(() => { document.activeElement.blur(); document.querySelector('.skip').focus(); });
      const seen = [], want = await page.run(() => [...document.querySelectorAll('#page :is(a[href], button:not(:disabled), input, select, textarea, summary, [tabindex="0"])')].filter((one) => one.tabIndex >= 0 && one.checkVisibility() && !one.closest('[role=tree]')).length);
      for (let i = 0; i < 120; i++) {
        await press(page, 'Tab');
        const now = await page.run(() => {
          const one = document.activeElement;
          if (!one || one === document.body) return undefined;
          const { width, height } = one.getBoundingClientRect();
          const name = one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.[0]?.textContent || one.querySelector('img')?.alt || one.title || one.placeholder;
          const ring = getComputedStyle(one);
          return { name: (name ?? '').slice(0, 40), tag: one.tagName, seen: width > 0 && height > 0, ring: ring.outlineStyle !== 'none', inPage: Boolean(one.closest('#page')), tree: Boolean(one.closest('[role=tree]')) };
        });
        if (!now) break;
        expect(now.seen && now.name && now.ring, `${hash}: a control without a name, a size or a mark of the focus`, now);
        if (now.inPage && !now.tree) seen.push(now.name);
        if (seen.length >= want) break;
      }
      expect(seen.length >= Math.min(want, 60), `${hash}: Tab reaches ${seen.length} of ${want} controls`, seen);
    }
  });
  await report.check('forced colours, reduced motion and paper', async () => {
    await size(page, 1280, 900, [{ name: 'forced-colors', value: 'active' }, { name: 'prefers-reduced-motion', value: 'reduce' }]);
    await visit(page, '#/', 'home', title, 'Home');
    expect(await page.run(() => matchMedia('(forced-colors: active)').matches), 'the browser has no forced colours');
    expectEqual(await page.run(() => [...document.querySelectorAll('button, a, .tiles a')].filter((one) => parseFloat(getComputedStyle(one).transitionDuration) > 0).length), 0, 'what moves');
    expectEqual(await violations(page), [], 'forced colours');
    await page.browser.send('Emulation.setEmulatedMedia', { media: 'print', features: [] }, page.session);
    expectEqual(await page.run(() => ['header .actions', 'nav', '.heading .actions'].map((one) => document.querySelector(one)).filter((one) => one?.checkVisibility()).length), 0, 'what paper has no use for');
    expectEqual(await page.run(() => getComputedStyle(document.body).backgroundColor), 'rgb(255, 255, 255)', 'the colour of paper');
    await page.browser.send('Emulation.setEmulatedMedia', { media: '', features: [] }, page.session);
  });
  await page.close();
}

export async function consolePages({ weir }, rest = []) {
  const report = new Report('the console, page by page');
  if (!weir) return 0; // it is weir's own page: there is nothing to look at without
  await report.check('the scripts are right by their types', () => run('types', process.execPath, [module('typescript', 'bin', 'tsc'), '-p', join(here, 'console.tsconfig.json')]));
  const browser = await report.check('a browser starts', () => Browser.start());
  if (!browser) return report.close();
  const rows = Number(rest[rest.indexOf('--rows') + 1]) || million;
  const server = await tablesServer(rows);
  const gateway = await startWeir(weir, 'weir-console-pages', { limits: { memory: '1GB' }, artifacts: { max_bytes: '512MB' }, mcpServers: { stock: { url: server.url, max_response: '512MB' } } });
  const ask = await agent(gateway.url);
  const wanted = (name) => !['paint', 'narrow', 'keyboard', 'tables'].some((one) => rest.includes(one)) || rest.includes(name);
  if (wanted('paint')) await firstPaint(report, browser, gateway, server);
  const odd = handleOf(await ask('tool_execute', { tool_id: await idOf(ask, 'peculiar hostile curiosities'), args: {} }));
  if (wanted('narrow')) await narrow(report, browser, gateway);
  if (wanted('keyboard')) await keyboard(report, browser, gateway, odd);
  if (wanted('tables')) await oddTable(report, browser, gateway, odd);
  const large = wanted('tables') && await report.check('a tool returns a large table', async () => {
    const said = await ask('tool_execute', { tool_id: await idOf(ask, 'all stock of all regions'), args: {} });
    expect(handleOf(said), 'no handle', said);
    return handleOf(said);
  });
  if (large) await largeTable(report, browser, gateway, large, rows);
  await gateway.stop();
  server.close();
  await stop(browser.child, 2000);
  return report.close();
}

if (process.argv[1] === join(here, 'console-pages.mjs')) await main(async (options, rest) => { await npmPackages(); return consolePages(options, rest); });
