// The JavaScript client, using every event of examples/socketio-peer: node client.mjs URL TRANSPORTS. Prints a line a step.
import { io } from 'socket.io-client';
import { isDeepStrictEqual } from 'node:util';

const [url, transports] = process.argv.slice(2);
const options = (token) => ({ auth: { token }, transports: transports.split(','), forceNew: true, reconnectionDelay: 50, timeout: 5000 });
const sockets = [];

function limited(promise) {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Error('nothing came')), 5000); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}
const once = (emitter, event) => limited(new Promise((done) => emitter.once(event, (...args) => done(args))));
const ask = (socket, event, ...args) => limited(new Promise((done) => socket.emit(event, ...args, (...reply) => done(reply))));
const equal = (got, want) => { if (!isDeepStrictEqual(got, want)) throw new Error(`got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`); };

async function step(name, run) {
  try {
    await run();
    console.log(`ok      ${name}`);
  } catch (error) {
    process.exitCode = 1;
    console.log(`FAILED  ${name}: ${error.message}`);
  }
}

function guest(token = 'secret') {
  const socket = io(url, options(token));
  sockets.push(socket);
  socket.received = { hello: once(socket, 'hello').catch(() => undefined), said: [], ticks: [] };
  socket.on('said', (text) => socket.received.said.push(text));
  socket.on('tick', (n) => socket.received.ticks.push(n));
  socket.on('question', (about, ack) => ack('answer', about));
  return socket;
}

async function until(done) {
  for (const end = Date.now() + 5000; !done(); ) {
    if (Date.now() > end) throw new Error('nothing came');
    await new Promise((go) => setTimeout(go, 10));
  }
}

await step('connect: refused without the token', async () => {
  const socket = guest('wrong');
  const [error] = await once(socket, 'connect_error');
  equal([error.message, error.data], ['bad token', { code: 401 }]);
  socket.close();
});
const [one, two] = [guest(), guest()];
await step('connect', () => Promise.all([once(one, 'connect'), once(two, 'connect')]));
await step('event from the server', async () => equal(await one.received.hello, [{ sid: one.id }]));
await step('ack from the server', async () => equal(await ask(one, 'echo', 1, 'two €', { 3: [true, null] }), [1, 'two €', { 3: [true, null] }]));
await step('ack to the server', async () => equal(await ask(one, 'ask-me', 'why'), ['answer', 'why']));
await step('binary', async () => {
  const [data, large] = [Buffer.from([0, 1, 2, 255]), Buffer.alloc(5000, 7)];
  equal(await ask(one, 'echo', { file: data }, large), [{ file: data }, large]);
});
await step('room without the sender', async () => {
  for (const socket of [one, two]) equal(await ask(socket, 'join', 'den'), [true]);
  await ask(one, 'say', 'den', 'to the others');
  await ask(one, 'shout', 'den', 'to all');
  await until(() => two.received.said.length === 2 && one.received.said.length === 1);
  equal([one.received.said, two.received.said], [['to all'], ['to the others', 'to all']]);
});
await step('burst of 40', async () => {
  one.emit('burst', 40);
  await until(() => one.received.ticks.length === 40);
  equal(one.received.ticks, Array.from({ length: 40 }, (_, i) => i));
});
await step('40 events at once', async () => {
  const replies = await Promise.all(Array.from({ length: 40 }, (_, i) => ask(one, 'echo', i)));
  equal(replies.flat(), Array.from({ length: 40 }, (_, i) => i));
});
await step('transport', async () => {
  const want = transports.endsWith('websocket') ? 'websocket' : 'polling';
  await until(() => one.io.engine.transport.name === want);
});
await step('disconnected by the server', async () => {
  one.emit('kick', null);
  equal((await once(one, 'disconnect'))[0], 'io server disconnect');
  one.connect();
  await once(one, 'connect');
  equal(await ask(one, 'echo', 'again'), ['again']);
});
await step('cut by the server, and back', async () => {
  two.emit('cut', null);
  equal((await once(two, 'disconnect'))[0], 'transport close');
  await once(two, 'connect');
  equal(await ask(two, 'echo', 'again'), ['again']);
});
for (const socket of sockets) socket.close();
setTimeout(() => process.exit(), 2000).unref();
