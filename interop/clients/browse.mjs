// A browser without a screen: it keeps cookies, follows redirects and sends forms, as a person who signs in and agrees.
//
//   node browse.mjs ADDRESS         prints the URL at which the browser comes back to the client
//   node browse.mjs ADDRESS open    opens it, as soon as the client listens there
import { setTimeout as sleep } from 'node:timers/promises';

const person = { login: 'ada', name: 'ada', password: 'any' };

// browse goes from an address of an issuer to the client's redirect URI, and returns where that is, with its query. cookies are
// those of a browser that has been there before.
export async function browse(address, { cookies = new Map(), back = new URL(address).searchParams.get('redirect_uri') } = {}) {
  let [at, form] = [address, undefined];
  for (let steps = 0; steps < 20; steps++) {
    const response = await fetch(at, {
      method: form ? 'POST' : 'GET', body: form, redirect: 'manual',
      headers: { Cookie: [...cookies].map(([name, value]) => `${name}=${value}`).join('; ') },
    });
    for (const line of response.headers.getSetCookie()) {
      const [, name, value] = /^([^=]+)=([^;]*)/.exec(line);
      cookies.set(name, value);
    }
    const page = await response.text();
    const location = response.headers.get('Location');
    if (location) {
      [at, form] = [new URL(location, at).href, undefined];
      if (at.startsWith(back)) return at;
      continue;
    }
    const action = /<form[^>]* action="([^"]*)"/.exec(page)?.[1];
    if (!action) throw new Error(`${at} answers ${response.status} without a form:\n${page.replace(/<style>.*?<\/style>/s, '').slice(0, 2000)}`);
    form = new URLSearchParams();
    for (const [input] of page.matchAll(/<input[^>]*>/g)) {
      const name = /name="([^"]*)"/.exec(input)?.[1];
      form.set(name, person[name] ?? /value="([^"]*)"/.exec(input)?.[1] ?? '');
    }
    const button = /<button[^>]* name="[^>]*>/.exec(page)?.[0]; // the first one agrees
    if (button) form.set(/ name="([^"]*)"/.exec(button)[1], / value="([^"]*)"/.exec(button)[1]);
    at = new URL(action.replaceAll('&amp;', '&'), at).href;
  }
  throw new Error(`the issuer does not come back to ${back}: the browser is at ${at}`);
}

async function open(address) {
  for (const end = Date.now() + 10_000; ; await sleep(50)) {
    try { return await (await fetch(address)).text(); } catch (error) { if (Date.now() > end) throw error; }
  }
}

if (process.argv[1].endsWith('browse.mjs')) {
  const back = await browse(process.argv[2]);
  console.log(process.argv[3] === 'open' ? await open(back) : back);
}
