// peer_async.py with socket.io-client.
import { createInterface } from 'node:readline';
import { io } from 'socket.io-client';

const [url, transports] = process.argv.slice(2);
const heard = [];
const answers = new Map();
const socket = io(`${url}/smcp`, { transports: transports.split(','), reconnection: false });
socket.onAny((event, ...args) => {
  const ack = typeof args.at(-1) === 'function' ? args.pop() : undefined;
  heard.push([event, ...args]);
  const value = answers.get(event);
  if (ack && value) ack({ ...value, req_id: args[0].req_id });
});
const say = (value) => console.log(JSON.stringify(value ?? null));
socket.on('connect_error', (error) => { console.error(error); process.exit(1); });
await new Promise((done) => socket.on('connect', done));
say('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const [op, event, data] = JSON.parse(line);
  switch (op) {
    case 'call':
      say(await new Promise((done) => {
        const timer = setTimeout(() => done('no ack'), 8000);
        socket.emit(event, data, (...args) => { clearTimeout(timer); done(args.length === 1 ? args[0] : args); });
      }));
      break;
    case 'emit': socket.emit(event, data); say(null); break;
    case 'answer': answers.set(event, data); say(null); break;
    case 'heard': say(heard.splice(0)); break;
  }
}
socket.disconnect();
