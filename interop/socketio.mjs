// Holds packages engineio and socketio against other implementations: the raw checks of socketio-protocol.mjs, then the
// conversation of examples/socketio-peer between our server and their clients, and our client and their servers, over polling,
// WebSocket, and polling with an upgrade. It does not involve the weir binary.
//
//   node interop/socketio.mjs
import { join } from 'node:path';
import { Report, Wrong, answering, freePort, here, main, run, scratch, start, tail, work } from './harness.mjs';
import { setup } from './setup.mjs';
import { protocol } from './socketio-protocol.mjs';
import { startGo, startSuite } from './socketio-server.mjs';

const python = join(work, 'pythonsocketio', 'bin', 'python');
const script = (name) => join(here, 'socketio', name);

const clients = {
  'socket.io-client': [process.execPath, script('client.mjs')],
  'python-socketio, threads': [python, script('client_sync.py')],
  'python-socketio, asyncio': [python, script('client_async.py')],
};
const servers = {
  'socket.io': [process.execPath, script('server.mjs')],
  'python-socketio': [python, script('server.py')],
};

// conversation runs a client that prints a line a step, and counts the lines.
async function conversation(report, name, command, args) {
  const { code, output } = await run(name.replace(/[^a-z]+/g, '-'), command, args, { mayFail: true, limit: 60_000 });
  let steps = 0;
  for (const line of output.split('\n')) {
    const [, verdict, step] = /^(ok|FAILED)\s+(.*)$/.exec(line) ?? [];
    if (!verdict) continue;
    steps++;
    await report.check(`${name}: ${step}`, () => { if (verdict !== 'ok') throw new Wrong(step); });
  }
  if (steps < 10 || code !== 0) await report.check(`${name}: to the end`, () => { throw new Error(`exit code ${code} after ${steps} steps\n${tail(output)}`); });
}

export async function socketIO() {
  const suite = await startSuite();
  const raw = await protocol(suite.base);
  const report = new Report('Socket.IO: other clients and our server, our client and other servers');
  const peer = await startGo('socketio-peer', './examples/socketio-peer', ['serve', '-addr', '127.0.0.1:0']);
  for (const [name, [command, file]] of Object.entries(clients)) {
    for (const transports of ['polling', 'websocket', 'polling,websocket']) {
      await conversation(report, `${name}, ${transports}`, command, [file, peer.base, transports]);
    }
  }
  for (const [name, [command, file]] of Object.entries(servers)) {
    const port = await freePort();
    const base = `http://127.0.0.1:${port}`;
    const server = start(`server-${name}`, command, [file, String(port)]);
    await answering(`${base}/socket.io/?EIO=4&transport=polling`, server);
    for (const transport of ['polling', 'websocket', 'both']) {
      await conversation(report, `our client and ${name}, ${transport}`, join(scratch, 'socketio-peer'), ['dial', '-transport', transport, base]);
    }
  }
  return report.close() || raw;
}

if (process.argv[1] === script('../socketio.mjs')) await main(async () => { await setup(); return socketIO(); });
