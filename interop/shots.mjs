// Takes the pictures of the documentation: the console with the quickstart's servers, after some calls, light and dark.
//
//   node interop/shots.mjs --weir bin/weir [--out docs/images] [--every]
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { here, main, run, startWeir, stop } from './harness.mjs';
import { npmPackages } from './setup.mjs';

const out = resolve(process.argv.includes('--out') ? process.argv[process.argv.indexOf('--out') + 1] : join(here, '..', 'docs', 'images'));
// With --every it takes each page at three widths, for the eyes of a reviewer.
const every = process.argv.includes('--every');
const widths = every ? [1280, 768, 360] : [1280];

// used are the calls that the pictures show, made with the program's own commands.
const used = [
  ['call', 'notes:create_note', '--arg', 'title=Weir', '--arg', 'text=A low dam.'],
  ['call', 'inventory:check_stock', '--arg', 'sku=BIK-001'],
  ['call', 'inventory:list_products'],
  ['call', 'inventory:list_orders'],
  ['call', 'weather:get_alerts', '--arg', 'area=CO'],
  ['call', 'weather:get_forecast', '--arg', 'station=DEN'],
];

// ready waits until a function in the page returns something true.
async function ready(page, fn) {
  for (const end = Date.now() + 15_000; !(await page.look(fn)); await sleep(50)) {
    if (Date.now() > end) throw new Error(`the page did not get ready: ${await page.run(() => document.body.innerText)}`);
  }
}

async function shoot(page, name, scheme, width) {
  const send = (method, params) => page.browser.send(method, params, page.session);
  const sized = (height) => send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 500 });
  await send('Emulation.setScrollbarsHidden', { hidden: true });
  await sized(every ? 1000 : 800);
  if (!every) await sized(await page.run(() => Math.min(1200, Math.max(800, document.documentElement.scrollHeight)))); // all of the page
  await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  await sleep(300); // colours change with a transition
  const { data } = await send('Page.captureScreenshot', { format: 'png' });
  const file = join(out, every ? `${name}-${width}-${scheme}.png` : `${name}-${scheme}.png`);
  writeFileSync(file, Buffer.from(data, 'base64'));
  console.log(file);
}

const drawn = () => document.querySelector('#page h1') !== null;

// visit goes to a page of the console and waits until it is drawn.
async function visit(page, hash) {
  await page.run((hash) => { document.getElementById('page').replaceChildren(); location.hash = hash; }, hash);
  await sleep(100);
  await ready(page, drawn);
}

// call tries a tool of the catalog: it enters an argument and calls.
async function call(page, id, argument) {
  await visit(page, `#/catalog/${encodeURIComponent(id)}`);
  await ready(page, () => document.getElementById('call') !== null);
  await page.run((argument) => {
    const input = document.querySelector('.form input, .form textarea');
    if (input) input.value = argument;
    document.getElementById('call').click();
  }, argument);
  await ready(page, () => document.getElementById('outcome') !== null);
}

async function idOf(gateway, name) {
  const { tools } = await (await fetch(`${gateway.base}/catalog/tools?name=${encodeURIComponent(name)}`)).json();
  return tools[0].id;
}

await main(async ({ weir }) => {
  await npmPackages();
  mkdirSync(out, { recursive: true });
  const gateway = await startWeir(weir, 'weir-shots', resolve(here, '..', 'examples', 'quickstart', 'weir.yaml'));
  try {
    for (const args of used) await run('shots-call', weir, [...args, '--url', gateway.url], { mayFail: true });
    const browser = await Browser.start();
    const stock = await idOf(gateway, 'inventory:check_stock'), products = await idOf(gateway, 'inventory:list_products');
    for (const scheme of ['light', 'dark']) {
      for (const width of widths) {
        const page = await browser.open(`${gateway.base}/console`);
        await ready(page, drawn);
        await ready(page, () => document.querySelectorAll('.tiles li').length >= 3);
        await shoot(page, 'console', scheme, width);
        await call(page, stock, 'BIK-001');
        await shoot(page, 'console-try', scheme, width);
        if (!every) continue;
        await call(page, products, '');
        const handle = await page.run(() => document.querySelector('#outcome a')?.textContent.split(' ').at(-1));
        for (const [name, hash] of [['servers', '#/servers'], ['server', '#/servers/inventory'], ['catalog', '#/catalog'], ['calls', '#/calls'], ['tables', '#/tables'], ...(handle ? [['table', `#/tables/${handle}`]] : []),
          ['review', '#/review'], ['offices', '#/offices'], ['clients', '#/clients'], ['setup', '#/setup']]) {
          await visit(page, hash);
          await sleep(300);
          await shoot(page, name, scheme, width);
        }
      }
    }
  } finally {
    await gateway.stop();
  }
  return 0;
});
