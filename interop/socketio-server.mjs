// Builds and starts the Go programs that the Socket.IO drivers talk to.
import { createInterface } from 'node:readline';
import { join } from 'node:path';
import { Wrong, here, run, scratch, start } from './harness.mjs';

// startGo builds a program of the module and waits until it says where it listens.
export async function startGo(name, folder, args = []) {
  const binary = join(scratch, name);
  await run(`${name}-build`, 'go', ['build', '-o', binary, folder], { cwd: join(here, '..') });
  const child = start(name, binary, args, { stdout: 'pipe' });
  const base = await new Promise((done, fail) => {
    createInterface({ input: child.stdout }).on('line', (line) => {
      const found = /http:\/\/[\d.:]+/.exec(line);
      if (found) done(found[0]);
    });
    child.ended.then(() => fail(new Wrong(`${name} ended before it listened; see ${child.log}`)));
  });
  return { child, base };
}

// startSuite starts the server with the configuration of protocol suites.
export const startSuite = () => startGo('socketio-suite', './examples/socketio-suite', ['-addr', '127.0.0.1:0']);
