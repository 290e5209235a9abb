// A browser without a screen: it keeps cookies, follows redirects and sends forms, as a person who signs in and agrees.
//
//   node browse.mjs ADDRESS      prints the URL at which the browser comes back to the client
const person = { login: 'ada', name: 'ada', password: 'any' };

// browse goes from an address of an issuer to the client's redirect URI, and returns where that is, with its query.
export async function browse(address) {
  const back = new URL(address).searchParams.get('redirect_uri');
  const cookies = new Map();
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
    const button = /<button[^>]*name="([^"]*)" value="([^"]*)"/.exec(page); // the first one agrees
    if (button) form.set(button[1], button[2]);
    at = new URL(action.replaceAll('&amp;', '&'), at).href;
  }
  throw new Error(`the issuer does not come back to ${back}: the browser is at ${at}`);
}

if (process.argv[1].endsWith('browse.mjs')) console.log(await browse(process.argv[2]));
