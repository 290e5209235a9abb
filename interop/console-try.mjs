// Try in the console: what a server says and asks during a call, tasks, completion, and the tries that a tab remembers. Then what
// those calls leave behind: the session in order, and the log of a server as it is written.
import { createServer } from 'node:http';
import { everythingStdio, expect, expectEqual, startWeir } from './harness.mjs';

const hostile = '</pre></script><script>window.owned = 1</script><img src=x onerror="window.owned = 2"><b>bold</b> \u202egnirts';
const digits = '12345678901234567890';

// asking is an MCP server that tells and asks during its calls, with hostile texts.
async function asking() {
  const seen = { answers: [], cancelled: 0, money: 0 };
  const open = new Map(); // the streams of calls by the id of what was asked
  const question = { message: hostile, requestedSchema: { type: 'object', required: ['n'], properties: { n: { type: 'integer', description: hostile }, 'x"><img src=x onerror="window.owned=3">': { type: 'string', title: hostile } } } };
  const tools = [
    { name: 'ask', description: 'Asks for a number.', inputSchema: { type: 'object', properties: { password: { type: 'string' }, note: { type: 'string' } } } },
    { name: 'pay_money', description: 'Pays.', inputSchema: { type: 'object' } },
    { name: 'rows', description: 'Returns rows.', inputSchema: { type: 'object' } },
    { name: 'wide', description: 'Returns rows of many columns.', inputSchema: { type: 'object' } },
    { name: 'hang', description: 'Never answers.', inputSchema: { type: 'object' } },
  ];
  let next = 0;
  const server = createServer(async (request, response) => {
    if (request.method !== 'POST') return response.writeHead(405).end();
    let body = '';
    for await (const chunk of request) body += chunk;
    const { id, method, params, result } = JSON.parse(body);
    const write = (to, message) => to.write(`data: ${JSON.stringify({ jsonrpc: '2.0', ...message })}\n\n`);
    if (method === undefined && open.has(id)) {
      const { to, call } = open.get(id);
      open.delete(id);
      seen.answers.push(body);
      write(to, { id: call, result: { content: [{ type: 'text', text: `you said ${result?.action}` }] } });
      to.end();
    }
    if (method === 'notifications/cancelled') seen.cancelled++;
    if (id === undefined || method === undefined) return response.writeHead(202).end();
    const answer = (value) => response.writeHead(200, { 'Content-Type': 'application/json' }).end(JSON.stringify({ jsonrpc: '2.0', id, ...value }));
    if (method === 'initialize') return answer({ result: { protocolVersion: '2025-11-25', capabilities: { tools: {}, logging: {} }, serverInfo: { name: 'asking', version: '1' } } });
    if (method === 'tools/list') return answer({ result: { tools } });
    if (method === 'logging/setLevel') return answer({ result: {} });
    if (method !== 'tools/call') return answer({ error: { code: -32601, message: 'no such method' } });
    if (params.name === 'pay_money') { seen.money++; return answer({ result: { content: [{ type: 'text', text: 'paid' }] } }); }
    if (params.name === 'rows') return answer({ result: { content: [{ type: 'text', text: `[{"name":${JSON.stringify(hostile)},"n":${digits}},{"name":"b","n":2}]` }] } });
    if (params.name === 'wide') return answer({ result: { content: [{ type: 'text', text: JSON.stringify(Array.from({ length: 40 }, (_, i) => Object.fromEntries(Array.from({ length: 150 }, (_, k) => [`column_${k}`, `${i}.${k} of the table`])))) }] } });
    response.writeHead(200, { 'Content-Type': 'text/event-stream' });
    const token = params._meta?.progressToken;
    if (token !== undefined) write(response, { method: 'notifications/progress', params: { progressToken: token, progress: 1, total: 2, message: hostile } });
    write(response, { method: 'notifications/message', params: { level: 'warning', logger: hostile, data: hostile } });
    if (params.name === 'hang') return undefined;
    const asked = `q${++next}`;
    open.set(asked, { to: response, call: id });
    return write(response, { id: asked, method: 'elicitation/create', params: question });
  });
  await new Promise((done) => server.listen(0, '127.0.0.1', done));
  return { seen, url: `http://127.0.0.1:${server.address().port}/mcp`, close: () => { server.closeAllConnections(); server.close(); } };
}

// withTries tries tools, prompts and templates that tell, ask and suggest.
export async function withTries(report, browser, weir, { until, visit, watchPolicy, nothingHappened, violations, press, operate, title }) {
  const server = await asking();
  const gateway = await startWeir(weir, 'weir-console-try', { policy: { rules: [{ action: 'require_approval', tool: 'asking:pay_money*', reason: 'money leaves the house' }] }, tasks: { wait: '1s' }, mcpServers: { asking: { url: server.url }, everything: everythingStdio() } });
  const page = await browser.open(`${gateway.base}/console`);
  await page.run(watchPolicy);
  await until(page, 'both servers', () => document.querySelectorAll('.tiles .state.ready').length === 2);
  const idOf = (kind, path, part) => page.run(async (kind, path, part) => {
    const { get } = await import('/console/static/api.js');
    return (await get('catalog', { kind, path, limit: 100 })).cards.find((one) => one.id.includes(part))?.id;
  }, kind, path, part);
  const open = async (kind, path, part) => {
    const id = await idOf(kind, path, part);
    await visit(page, `#/catalog/${encodeURIComponent(id)}`, part, (id) => document.getElementById('tool-id')?.textContent === id && document.getElementById('call') !== null, id);
    return id;
  };
  const click = (id) => until(page, id, (id) => { const one = document.getElementById(id); if (!one || one.disabled) return false; one.click(); return true; }, id);
  const says = (text) => until(page, text, (text) => document.getElementById('outcome')?.innerText.includes(text), text);

  await report.check('try: a server that asks gets a form, its texts are texts, and its answer has all digits', async () => {
    await open('tool', '/asking', 'asking:ask');
    await page.run(() => { const [secret, note] = document.querySelectorAll('.form input'); secret.value = 'hunter2'; note.value = 'ghp_0123456789abcdefghijABCDEFGHIJ456789'; });
    expectEqual(await page.run(() => document.querySelector('.form input').type), 'password', 'the field of a password');
    await click('call');
    await until(page, 'the question', () => document.querySelectorAll('#questions input').length === 2);
    expectEqual(await page.run(() => document.activeElement === document.querySelector('#questions input')), true, 'the first field has the focus');
    await nothingHappened(page, 'in a question');
    await until(page, 'what the server said', () => document.getElementById('heard')?.innerText.includes('warning'));
    expectEqual(await violations(page), [], 'a question');
    await click('accept');
    await until(page, 'what is wrong', () => document.querySelector('#questions [role=alert]')?.textContent.includes('whole number'));
    await page.run((digits) => { document.querySelector('#questions input').value = digits; document.getElementById('accept').focus(); }, digits);
    await press(page, 'Enter');
    await says('you said accept');
    expect(server.seen.answers.at(-1).includes(`"n":${digits}`), 'other digits', server.seen.answers.at(-1));
    await click('call');
    await until(page, 'the question', () => document.getElementById('decline'));
    await open('tool', '/asking', 'asking:wide');
    await visit(page, '#/catalog', 'no entry', () => document.querySelector('#entry .empty'));
    await open('tool', '/asking', 'asking:ask');
    await click('decline'); // the question has not been lost
    await says('you said decline');
    await nothingHappened(page, 'in an answer');
  });
  await report.check('try: the tab remembers the last tries, without secrets, and enters one again', async () => {
    const kept = await page.run(() => sessionStorage.getItem('weir-tries'));
    expect(kept.includes('asking:ask') && !kept.includes('hunter2') && !kept.includes('ghp_'), 'what is kept', kept);
    await page.run(() => { document.querySelectorAll('.form input')[1].value = 'low water'; });
    await click('call');
    await click('cancel');
    await says('you said cancel');
    await page.run(() => { document.querySelectorAll('.form input')[1].value = ''; });
    await until(page, 'the try', () => { const one = [...document.querySelectorAll('[data-key=tries] button')].find((each) => each.textContent.includes('low water')); one?.click(); return Boolean(one); });
    expectEqual(await page.run(() => document.querySelectorAll('.form input')[1].value), 'low water', 'what was entered again');
    await visit(page, '#/catalog', 'the tries', () => document.querySelector('#entry')?.innerText.includes('Your last tries'));
    expectEqual(await violations(page), [], 'the tries');
  });
  await report.check('try: a result that is rows shows as a table, to the last digit', async () => {
    await open('tool', '/asking', 'asking:rows');
    await click('call');
    await until(page, 'the result', () => { const one = [...document.querySelectorAll('#outcome button')].find((each) => each.textContent === 'Table'); one?.click(); return Boolean(one); });
    expectEqual(await page.run(() => [...document.querySelectorAll('#outcome tbody td')].map((one) => one.textContent)[1]), digits, 'the number');
    await nothingHappened(page, 'in a table of a result');
    expectEqual(await violations(page), [], 'a table of a result');
  });
  await report.check('try: a call that runs is cancelled, at its server as well', async () => {
    await open('tool', '/asking', 'asking:hang');
    await click('call');
    await until(page, 'its progress', () => document.querySelector('progress')?.value === 1);
    await click('stop');
    await until(page, 'the end', () => document.querySelector('#entry [role=alert].notice')?.textContent.includes('cancelled'));
    for (const end = Date.now() + 20_000; server.seen.cancelled === 0;) { expect(Date.now() < end, 'the server was not told'); await new Promise((done) => { setTimeout(done, 50); }); }
  });
  await report.check('try: a server that asks for a completion gets what a person writes', async () => {
    await open('tool', '/everything', 'sampling');
    await page.run(() => { document.querySelector('.form :is(input, textarea)').value = 'Which river?'; });
    await click('call');
    await until(page, 'the question', () => document.querySelector('#questions textarea') && document.getElementById('questions').innerText.includes('Which river?'));
    expectEqual(await violations(page), [], 'a question for a completion');
    await page.run(() => { document.querySelector('#questions textarea').value = 'The Aire.'; });
    await click('accept');
    await says('The Aire.');
    await click('call');
    await click('decline');
    await says('rejected');
  });
  await report.check('try: a tool that needs a yes asks the person, says that the gateway asks, and runs after it alone', async () => {
    await open('tool', '/asking', 'asking:pay_money');
    await click('call');
    const text = await until(page, 'the question', () => document.getElementById('questions')?.innerText);
    for (const part of ['The policy asks for your yes', 'Allow tool_execute of asking:pay_money', 'Reason: money leaves the house', 'Nothing has run yet']) expect(text.includes(part), `no ${part}`, text);
    expect(!text.includes('goes to this server') && !text.includes('As JSON'), 'the server seems to ask', text);
    expectEqual(await page.run(() => document.activeElement.id), 'decline', 'what has the focus');
    expectEqual(await violations(page), [], 'an approval');
    expectEqual(server.seen.money, 0, 'calls before the yes');
    await press(page, 'Enter');
    await says('a person was asked and did not approve it');
    expectEqual(server.seen.money, 0, 'calls after a no');
    await click('call');
    await click('accept');
    await says('paid');
    expectEqual(server.seen.money, 1, 'calls after a yes');
    await page.run(() => [...document.querySelectorAll('.form button')].find((one) => one.textContent === 'As JSON')?.click());
    await page.run(() => { document.querySelector('.form textarea').value = JSON.stringify({ note: 'x'.repeat(5000) }); });
    await click('call');
    await until(page, 'the question for what is not shown', () => document.querySelector('#questions select')?.selectedOptions[0].textContent === 'false' && document.getElementById('questions').innerText.includes('The policy asks'));
    await click('accept');
    await says('a person was asked and did not approve it');
    expectEqual(server.seen.money, 1, 'calls after a yes to what was not shown');
  });
  await report.check('try: a task goes on after its call, and ends in its result', async () => {
    await open('tool', '/everything', 'research');
    await page.run(() => { document.querySelector('.form :is(input, textarea)').value = 'dams'; });
    await click('call');
    await until(page, 'what it does', () => document.getElementById('heard')?.innerText.includes('progress') || document.getElementById('task-head'));
    for (let i = 0; i < 12 && await until(page, 'an answer', () => document.getElementById('outcome') !== null) && await page.run(() => document.getElementById('task-head') !== null); i++) {
      await click('task-head');
      await until(page, 'the call', () => document.getElementById('stop') !== null || document.getElementById('outcome') !== null);
      await until(page, 'an answer', () => document.getElementById('stop') === null);
    }
    await says('Report');
  });
  await report.check('try: arguments of prompts are completed', async () => {
    await open('prompt', '/everything', 'completable');
    await page.run(() => { const field = document.querySelector('.form input'); field.focus(); field.value = 'E'; field.dispatchEvent(new Event('input')); });
    await until(page, 'suggestions', () => [...document.querySelector('.form input').list.options].some((one) => one.value === 'Engineering'));
    expectEqual(await violations(page), [], 'a prompt');
  });
  await report.check('calls: a session in its order, each call with its steps, live', async () => {
    const session = await page.run(async () => (await (await import('/console/static/api.js')).get('calls')).calls[0].session);
    await visit(page, `#/calls?session=${session}`, 'the session', () => document.querySelectorAll('.timeline li').length >= 6);
    const rows = await page.run(() => [...document.querySelectorAll('.timeline li')].map((one) => [one.dataset.key, one.querySelector('svg').getAttribute('aria-label'), one.innerText]));
    const numbers = rows.map(([id]) => Number(id.split('.')[1]));
    expectEqual(numbers, [...numbers].sort((a, b) => a - b), 'the order');
    expect(rows.some(([, steps]) => /The server [\d.]+ (ms|s)/.test(steps)), 'no step has a time', rows.map(([, steps]) => steps));
    expectEqual(await violations(page), [], 'a session');
    await page.run(async () => { const { get, tool } = await import('/console/static/api.js'); const { cards } = await get('catalog', { query: 'returns rows' }); await tool('tool_execute', JSON.stringify({ tool_id: cards[0].id, args: {} })); });
    await until(page, 'the new call', (n) => document.querySelectorAll('.timeline li').length > n, rows.length);
    await page.run(() => document.querySelector('.timeline a').click());
    await until(page, 'the call', () => document.querySelectorAll('#steps meter').length === 6 && document.querySelector('.timeline .chosen') !== null);
    expectEqual(await violations(page), [], 'a call of a session');
    await visit(page, '#/calls?server=asking', 'the calls of a server', () => document.querySelectorAll('#page tbody tr').length > 3);
    expectEqual(await page.run(() => [...document.querySelectorAll('#page tbody tr')].filter((one) => !one.innerText.includes('asking')).length), 0, 'calls of other servers');
    await visit(page, '#/calls?principal=eve', 'no call', () => document.getElementById('page').innerText.includes('No call fits'));
  });
  await report.check('catalog: a deep link unfolds the folders above its entry', async () => {
    for (const [kind, path, part] of [['tool', '/everything', 'sampling'], ['prompt', '/everything', 'completable']]) {
      const id = await idOf(kind, path, part);
      const fresh = await browser.open(`${gateway.base}/console#/catalog/${encodeURIComponent(id)}`);
      await fresh.browser.send('Emulation.setDeviceMetricsOverride', { width: 1280, height: 800, deviceScaleFactor: 1, mobile: false }, fresh.session);
      await until(fresh, `the row of ${id}`, () => document.querySelector('.tree .chosen')?.offsetHeight > 0);
      expectEqual(await fresh.run(() => document.getElementById('kind').value), kind, 'the kind of the tree');
      await fresh.close();
    }
  });
  await report.check('servers: the log comes as it is written, until the page is left', async () => {
    await operate(page, weir, gateway);
    await visit(page, '#/servers/everything', 'the log', () => document.querySelectorAll('#log div').length > 0 && document.getElementById('page').innerText.includes('● live'));
    const last = await page.run(() => Number(document.querySelector('#log div:last-child').dataset.key));
    await page.run(async () => { const { post } = await import('/console/static/api.js'); await post('servers/everything/restart'); });
    await until(page, 'newer lines', (last) => Number(document.querySelector('#log div:last-child')?.dataset.key) > last, last);
    expectEqual(await violations(page), [], 'a server with its log');
    await visit(page, '#/servers', 'the servers', title, 'Servers');
    await until(page, 'its figures', () => [...document.querySelectorAll('#page tbody tr')].some((one) => / ms \/ /.test(one.innerText)));
    expectEqual(await violations(page), [], 'the servers');
  });
  await report.check('tables: a column beyond those that are listed is shown by its name', async () => {
    await open('tool', '/asking', 'asking:wide');
    await click('call');
    const link = await until(page, 'the handle', () => document.querySelector('#outcome a[href^="#/tables/"]')?.getAttribute('href'));
    await visit(page, link, 'the table', () => document.querySelectorAll('.grid tbody tr').length > 10);
    await page.run(() => [...document.querySelectorAll('.tools button')].find((one) => one.textContent.startsWith('Columns')).click());
    const ask = (name) => page.run((name) => { const field = document.querySelector('#panel input[name=column]'); field.value = name; field.form.requestSubmit(); }, name);
    await until(page, 'the field', () => document.querySelector('#panel input[name=column]'));
    await ask('no such column');
    await until(page, 'the refusal', () => !document.getElementById('problem').hidden);
    await ask('column_149');
    await until(page, 'the column', () => [...document.querySelectorAll('.grid th')].some((one) => one.textContent.startsWith('column_149')));
    await until(page, 'its cells', () => [...document.querySelectorAll('.grid td')].some((one) => one.textContent === '0.149 of the table'));
  });
  await page.close();
  await gateway.stop();
  server.close();
}
