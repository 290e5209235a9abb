// Takes the pictures of the documentation: the console with the quickstart's servers, after some calls, light and dark.
//
//   node interop/shots.mjs --weir bin/weir [--out docs/images]
import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Browser } from './chromium.mjs';
import { here, main, run, startWeir, stop } from './harness.mjs';
import { setup } from './setup.mjs';

const out = resolve(process.argv.includes('--out') ? process.argv[process.argv.indexOf('--out') + 1] : join(here, '..', 'docs', 'images'));
const width = 1280;
const height = 800;

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
  for (const end = Date.now() + 15_000; !(await page.run(fn)); await sleep(50)) {
    if (Date.now() > end) throw new Error(`the page did not get ready: ${await page.run(() => document.body.innerText)}`);
  }
}

async function shoot(page, name, scheme) {
  const send = (method, params) => page.browser.send(method, params, page.session);
  await send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: false });
  await send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value: scheme }] });
  await sleep(300); // colours change with a transition
  const { data } = await send('Page.captureScreenshot', { format: 'png' });
  const file = join(out, `${name}-${scheme}.png`);
  writeFileSync(file, Buffer.from(data, 'base64'));
  console.log(file);
}

await main(async ({ weir }) => {
  await setup();
  mkdirSync(out, { recursive: true });
  const gateway = await startWeir(weir, 'weir-shots', resolve(here, '..', 'examples', 'quickstart', 'weir.yaml'));
  try {
    for (const args of used) await run('shots-call', weir, [...args, '--url', gateway.url], { mayFail: true });
    const browser = await Browser.start();
    for (const scheme of ['light', 'dark']) {
      const page = await browser.open(`${gateway.base}/console`);
      await ready(page, () => document.querySelectorAll('#overview tbody tr').length >= 4);
      await shoot(page, 'console', scheme);
    }
  } finally {
    await gateway.stop();
  }
  return 0;
});
