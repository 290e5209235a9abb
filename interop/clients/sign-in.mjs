// Signs weir in at a server as a person would, without a browser: `weir login --no-browser` prints an address, and this opens it.
import { createInterface } from 'node:readline';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { start, stop, tail, Wrong } from '../harness.mjs';

// open follows the redirects of an issuer that asks nothing, until the browser is back at weir.
export async function open(address) {
  const response = await fetch(address);
  return { status: response.status, text: await response.text() };
}

// signIn runs weir login and has a browser open what it prints. It returns what the browser shows last.
export async function signIn(weir, name, server, args, env, browser = open) {
  const child = start(`login-${name}`, weir, ['login', server, '--no-browser', ...args], { env, stdout: 'pipe' });
  child.stdout.resume();
  const printed = () => readFileSync(child.log, 'utf8');
  const address = async () => {
    for (const end = Date.now() + 15_000; Date.now() < end; await sleep(20)) {
      const found = /^ {2}(https?:\/\/\S+)$/m.exec(printed());
      if (found || child.hasEnded()) return found?.[1];
    }
  };
  const at = await address();
  const shown = at && await browser(at);
  const { code, killed } = await Promise.race([child.ended, sleep(15_000, { killed: true })]);
  if (killed) await stop(child);
  if (code !== 0) throw new Wrong(`weir login ${server} ended with ${killed ? 'the wait for the browser' : code}:\n${tail(printed())}\n${shown?.text ?? ''}`);
  return shown;
}

// aloneIn is the environment of a weir with a home of its own, and without the keyring of this machine.
export function aloneIn(home) {
  return { HOME: home, XDG_STATE_HOME: join(home, 'state'), XDG_CONFIG_HOME: join(home, 'config'), XDG_RUNTIME_DIR: home, DBUS_SESSION_BUS_ADDRESS: '' };
}
