// The reference server of JavaScript, with the same handlers as serve.go and its own defaults.
import { createServer } from 'node:http';
import { createRequire } from 'node:module';

const { Server } = createRequire(new URL('../../interop/package.json', import.meta.url))('socket.io');

const server = createServer();
const io = new Server(server, { serveClient: false });
io.on('connection', (socket) => {
  socket.on('echo', (...args) => { const ack = args.pop(); ack(...args); });
  socket.on('join', (_, ack) => { socket.join('room'); ack(true); });
  socket.on('broadcast', (...args) => io.to('room').emit('news', ...args));
});
server.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${server.address().port}`));
process.on('SIGUSR2', () => globalThis.gc());
process.on('SIGTERM', () => process.exit(0));
