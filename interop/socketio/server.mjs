// The JavaScript server, with the events of examples/socketio-peer: node server.mjs PORT.
import { createServer } from 'node:http';
import { Server } from 'socket.io';

const server = createServer();
const io = new Server(server);
io.use((socket, next) => {
  if (socket.handshake.auth.token === 'secret') return next();
  const error = new Error('bad token');
  error.data = { code: 401 };
  return next(error);
});
io.on('connection', (socket) => {
  socket.emit('hello', { sid: socket.id });
  socket.on('echo', (...args) => args.pop()(...args));
  socket.on('ask-me', (about, ack) => socket.timeout(5000).emit('question', about, (error, ...reply) => { if (!error) ack(...reply); }));
  socket.on('join', (room, ack) => { socket.join(room); ack(true); });
  socket.on('say', (room, text, ack) => { socket.to(room).emit('said', text); ack(true); });
  socket.on('shout', (room, text, ack) => { io.to(room).emit('said', text); ack(true); });
  socket.on('burst', (n) => { for (let i = 0; i < n; i++) socket.emit('tick', i); });
  socket.on('kick', () => socket.disconnect());
  socket.on('cut', () => socket.disconnect(true));
});
server.listen(Number(process.argv[2]), '127.0.0.1');
