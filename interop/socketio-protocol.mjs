// Checks a server of Engine.IO v4 and Socket.IO v5 with raw requests and raw WebSocket frames: what the protocols ask of a
// server, without any library that would smooth things over. The server is examples/socketio-suite, or any other with its
// configuration (pingInterval 300, pingTimeout 200, maxPayload 1e6, connectTimeout 1000, "/" and "/custom", an echo at
// /engine.io/):
//
//   node interop/socketio-protocol.mjs                     starts the example
//   node interop/socketio-protocol.mjs http://host:port    checks a server that runs
import { once } from 'node:events';
import http from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import WebSocket from 'ws';
import { Report, Wrong, expect, expectEqual, main } from './harness.mjs';
import { startSuite } from './socketio-server.mjs';

const within = 2000;

// A Wire is a WebSocket whose frames wait until somebody asks for them: text as strings, binary as arrays of bytes.
class Wire {
  constructor(url) {
    this.frames = [];
    this.asking = [];
    this.socket = new WebSocket(url);
    this.closed = new Promise((done) => { this.socket.once('close', done); });
    this.socket.on('error', () => {});
    this.socket.on('message', (data, binary) => {
      const frame = binary ? [...data] : data.toString();
      const asking = this.asking.shift();
      if (asking) asking(frame); else this.frames.push(frame);
    });
  }

  static async open(url) {
    const wire = new Wire(url);
    await limited(once(wire.socket, 'open'), 'the WebSocket did not open');
    return wire;
  }

  send(...frames) { for (const frame of frames) this.socket.send(Array.isArray(frame) ? Uint8Array.from(frame) : frame); }

  // next returns the next frame, whatever it is.
  next() {
    if (this.frames.length > 0) return Promise.resolve(this.frames.shift());
    return limited(new Promise((done) => this.asking.push(done)), 'no frame came');
  }

  // message returns the next frame that is no ping.
  async message() {
    for (;;) {
      const frame = await this.next();
      if (frame !== '2') return frame;
    }
  }

  async isClosed() { return limited(this.closed, 'the WebSocket was not closed'); }
}

function limited(promise, what) {
  let timer;
  const late = new Promise((_, fail) => { timer = setTimeout(() => fail(new Wrong(`${what} in ${within / 1000} s`)), within); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

// endpoint gives the two ways to talk to one path of the server.
function endpoint(base, path) {
  const query = (parameters) => `${base}${path}?${new URLSearchParams(parameters)}`;
  return {
    http: async (parameters, options) => {
      const response = await fetch(query(parameters), options);
      return { status: response.status, headers: response.headers, text: await response.text() };
    },
    url: query,
    wire: (parameters = {}) => Wire.open(query({ EIO: 4, transport: 'websocket', ...parameters }).replace('http', 'ws')),
    closedWire: (parameters) => new Wire(query(parameters).replace('http', 'ws')).isClosed(),
    async session() {
      const { text } = await this.http({ EIO: 4, transport: 'polling' });
      const sid = JSON.parse(text.slice(1)).sid;
      const parameters = { EIO: 4, transport: 'polling', sid };
      return {
        sid,
        poll: (options) => this.http(parameters, options),
        post: (body) => this.http(parameters, { method: 'POST', body }),
        url: query(parameters),
        upgrade: () => this.wire({ sid }),
      };
    },
  };
}

const opened = (text, upgrades) => {
  expect(text[0] === '0', 'no open packet', text);
  const value = JSON.parse(text.slice(1));
  expectEqual(Object.keys(value).sort(), ['maxPayload', 'pingInterval', 'pingTimeout', 'sid', 'upgrades'], 'keys');
  expectEqual({ ...value, sid: typeof value.sid }, { sid: 'string', upgrades, pingInterval: 300, pingTimeout: 200, maxPayload: 1000000 }, 'handshake');
};
const refused = ({ status, text }, code, message) => {
  expectEqual(status, code === 4 ? 403 : 400, 'status');
  expectEqual(JSON.parse(text), { code, message }, 'body');
};
const gone = async (session) => expectEqual((await session.poll()).status, 400, 'status of a later poll');

// checker names an endpoint's checks, and tries one that fails twice more: the suites' pingTimeout of 200 ms is shorter than a
// busy machine may take to run a process. What is wrong is wrong three times.
const checker = (report, at) => (name, run) => report.check(`${at.name} ${name}`, async () => {
  for (let attempt = 1; ; attempt++) {
    try {
      return await run();
    } catch (error) {
      if (attempt === 3) throw error;
    }
  }
});

async function engineChecks(report, at) {
  const check = checker(report, at);

  await check('handshake: polling', async () => {
    const { status, headers, text } = await at.http({ EIO: 4, transport: 'polling' });
    expectEqual(status, 200, 'status');
    expectEqual(headers.get('content-type'), 'text/plain; charset=UTF-8', 'content-type');
    expectEqual(headers.get('cache-control'), 'no-store', 'cache-control');
    opened(text, ['websocket']);
  });
  await check('handshake: WebSocket', async () => {
    const wire = await at.wire();
    opened(await wire.next(), []);
    wire.socket.close();
  });
  await check('handshake: versions that are not 4', async () => {
    for (const EIO of [[], ['EIO', 'abc'], ['EIO', '3']]) {
      const version = EIO.length ? { [EIO[0]]: EIO[1] } : {};
      refused(await at.http({ ...version, transport: 'polling' }), 5, 'Unsupported protocol version');
      await at.closedWire({ ...version, transport: 'websocket' });
    }
  });
  await check('handshake: transports that there are not', async () => {
    for (const transport of [{}, { transport: 'abc' }]) {
      refused(await at.http({ EIO: 4, ...transport }), 0, 'Transport unknown');
      await at.closedWire({ EIO: 4, ...transport });
    }
  });
  await check('handshake: methods other than GET', async () => {
    for (const method of ['POST', 'PUT', 'DELETE']) {
      refused(await at.http({ EIO: 4, transport: 'polling' }, { method }), 2, 'Bad handshake method');
    }
  });
  await check('handshake: WebSocket without an upgrade', async () => {
    refused(await at.http({ EIO: 4, transport: 'websocket' }), 3, 'Bad request');
  });
  await check('a session that there is not', async () => {
    refused(await at.http({ EIO: 4, transport: 'polling', sid: 'nobody' }), 1, 'Session ID unknown');
    await at.closedWire({ EIO: 4, transport: 'websocket', sid: 'nobody' });
  });
  await check('CORS', async () => {
    const { headers } = await at.http({ EIO: 4, transport: 'polling' }, { headers: { Origin: 'https://page.example' } });
    expectEqual(headers.get('access-control-allow-origin'), '*', 'allow-origin');
    const preflight = await at.http({ EIO: 4, transport: 'polling' }, { method: 'OPTIONS', headers: { Origin: 'https://page.example', 'Access-Control-Request-Method': 'POST' } });
    expectEqual(preflight.status, 204, 'status of the preflight');
  });

  await check('heartbeat: polling', async () => {
    const session = await at.session();
    for (let i = 0; i < 3; i++) {
      expectEqual(await session.poll().then(({ status, text }) => [status, text]), [200, '2'], 'poll');
      expectEqual(await session.post('3').then(({ status, text }) => [status, text]), [200, 'ok'], 'post');
    }
  });
  await check('heartbeat: polling without a pong', async () => {
    const session = await at.session();
    await sleep(500);
    await gone(session);
  });
  await check('heartbeat: WebSocket', async () => {
    const wire = await at.wire();
    await wire.next();
    for (let i = 0; i < 3; i++) {
      expectEqual(await wire.next(), '2', 'ping');
      wire.send('3');
    }
    wire.socket.close();
  });
  await check('heartbeat: WebSocket without a pong', async () => {
    const wire = await at.wire();
    const began = performance.now();
    await wire.isClosed();
    const took = performance.now() - began;
    expect(took > 400 && took < 900, 'closed at the wrong time', took);
  });
  await check('a pong that nobody asked for', async () => {
    const wire = await at.wire();
    await wire.next();
    wire.send('3');
    expectEqual(await wire.next(), '2', 'ping');
    wire.socket.close();
  });

  await check('close: polling', async () => {
    for (let i = 0; i < 20; i++) {
      const session = await at.session();
      const [poll, post] = await Promise.all([session.poll(), session.post('1')]);
      expectEqual([poll.status, poll.text], [200, '6'], 'poll');
      expectEqual([post.status, post.text], [200, 'ok'], 'post');
      await gone(session);
    }
  });
  await check('close: WebSocket', async () => {
    const wire = await at.wire();
    await wire.next();
    wire.send('1');
    await wire.isClosed();
  });
  await check('a second GET', async () => {
    const session = await at.session();
    const first = session.poll();
    await sleep(20);
    const second = await session.poll();
    expect(second.status === 400, 'status of the second', second.status);
    expectEqual(await first.then(({ status, text }) => [status, text]), [200, '1'], 'the first');
    await gone(session);
  });
  await check('a GET that is given up', async () => {
    const session = await at.session();
    const controller = new AbortController();
    const poll = session.poll({ signal: controller.signal }).catch(() => {});
    await sleep(20);
    controller.abort();
    await poll;
    await gone(session);
  });
  await check('packets that are none', async () => {
    const session = await at.session();
    expectEqual((await session.post('abc')).status, 400, 'status');
    await gone(session);
    const wire = await at.wire();
    await wire.next();
    wire.send('abc');
    await wire.isClosed();
  });
  await check('payloads that are too large', async () => {
    const session = await at.session();
    expectEqual((await session.post('4'.padEnd(1000001, 'x'))).status, 413, 'status with a length');
    expectEqual(await chunkedPost(session.url, 1000001), 413, 'status without a length');
    const wire = await at.wire();
    await wire.next();
    wire.send('4'.padEnd(1000001, 'x'));
    await wire.isClosed();
  });

  await check('upgrade', async () => {
    const session = await at.session();
    const wire = await session.upgrade();
    wire.send('2probe');
    expectEqual(await wire.next(), '3probe', 'answer to the probe');
    const began = performance.now();
    expectEqual((await session.poll()).text, '6', 'poll');
    const took = performance.now() - began;
    expect(took > 60 && took < 250, 'the GET was held for the wrong time (ms)', took);
    wire.send('5');
    expectEqual(await wire.next(), '2', 'a ping, on the WebSocket');
    wire.socket.close();
  });
  await check('upgrade: a held GET', async () => {
    const session = await at.session();
    const poll = session.poll();
    await sleep(120);
    const wire = await session.upgrade();
    wire.send('2probe');
    expectEqual((await poll).text, '6', 'poll');
    wire.socket.close();
  });
  await check('upgrade: polling after it', async () => {
    for (const wait of [true, false]) {
      const session = await at.session();
      const wire = await session.upgrade();
      wire.send('2probe');
      if (wait) await wire.next();
      wire.send('5');
      await gone(session);
      expectEqual((await session.post('4late')).status, 400, 'status of a POST');
      wire.socket.close();
    }
  });
  await check('upgrade: a second one', async () => {
    const session = await at.session();
    const wire = await session.upgrade();
    wire.send('2probe');
    await wire.next();
    wire.send('5');
    await (await session.upgrade()).isClosed();
    expectEqual(await wire.next(), '2', 'the first lives');
    wire.socket.close();
  });
  await check('upgrade: a wrong probe', async () => {
    const session = await at.session();
    const wire = await session.upgrade();
    wire.send('2other');
    await wire.isClosed();
    expectEqual((await session.poll()).text, '2', 'polling goes on');
  });
}

// chunkedPost sends a body whose length is not announced.
function chunkedPost(url, size) {
  return limited(new Promise((done) => {
    const request = http.request(url, { method: 'POST' }, (response) => { done(response.statusCode); response.resume(); request.destroy(); });
    request.on('error', () => {});
    request.write('4'.padEnd(size - 10, 'x'));
    request.end('xxxxxxxxxx');
  }), 'no answer to a chunked POST');
}

async function echoChecks(report, at) {
  const check = checker(report, at);
  const payloads = {
    'one text packet': '4hello',
    'several text packets': '4test1\x1e4test2\x1e4test3',
    'text and binary packets': '4hello\x1ebAQIDBA==',
    'an empty message': '4',
    'text beyond ASCII': '4€ 😀',
  };
  for (const [name, payload] of Object.entries(payloads)) {
    await check(`polling: ${name}`, async () => {
      const session = await at.session();
      expectEqual((await session.post(payload)).text, 'ok', 'post');
      expectEqual((await session.poll()).text, payload, 'poll');
    });
  }
  await check('polling: no more than 16 packets in a poll', async () => {
    const session = await at.session();
    const sent = Array.from({ length: 40 }, (_, i) => `4m${i}`);
    await session.post(sent.join('\x1e'));
    const got = [];
    while (got.length < 40) {
      const packets = (await session.poll()).text.split('\x1e');
      expect(packets.length <= 16, 'packets in one poll', packets.length);
      got.push(...packets.filter((p) => p !== '2'));
    }
    expectEqual(got, sent, 'packets');
  });
  await check('WebSocket: text and binary', async () => {
    const wire = await at.wire();
    await wire.next();
    wire.send('4hello', [1, 2, 3, 4], '4');
    expectEqual([await wire.message(), await wire.message(), await wire.message()], ['4hello', [1, 2, 3, 4], '4'], 'echo');
    wire.socket.close();
  });
  await check('upgrade: messages before and after', async () => {
    const session = await at.session();
    const wire = await session.upgrade();
    wire.send('2probe');
    expectEqual(await wire.next(), '3probe', 'answer to the probe');
    await session.post('4early');
    expectEqual((await session.poll()).text, '4early', 'a message before 5 comes by polling');
    await session.post('4waiting');
    wire.send('5', '4late');
    expectEqual([await wire.message(), await wire.message()], ['4waiting', '4late'], 'after 5');
    wire.socket.close();
  });
}

async function socketChecks(report, at) {
  const check = checker(report, at);
  // joined is a WebSocket that is in "/" and has got its first event.
  const joined = async () => {
    const wire = await at.wire();
    await wire.next();
    wire.send('40');
    await wire.message();
    await wire.message();
    return wire;
  };
  const connected = async (packet, prefix, auth) => {
    const wire = await at.wire();
    const engine = JSON.parse((await wire.next()).slice(1));
    wire.send(packet);
    const answer = await wire.message();
    expect(answer.startsWith(`40${prefix}{`), 'no CONNECT', answer);
    const value = JSON.parse(answer.slice(2 + prefix.length));
    expectEqual(Object.keys(value), ['sid'], 'keys');
    expect(value.sid !== engine.sid, 'the sid is the secret one of the connection');
    expectEqual(await wire.message(), `42${prefix}["auth",${auth}]`, 'first event');
    wire.socket.close();
  };
  await check('connect: the main namespace', () => connected('40', '', '{}'));
  await check('connect: the main namespace, with a payload', () => connected('40{"token":"123"}', '', '{"token":"123"}'));
  await check('connect: another namespace', () => connected('40/custom,', '/custom,', '{}'));
  await check('connect: another namespace, without the comma', () => connected('40/custom', '/custom,', '{}'));
  await check('connect: another namespace, with a payload', () => connected('40/custom,{"token":"abc"}', '/custom,', '{"token":"abc"}'));
  await check('connect: a namespace that there is not', async () => {
    const wire = await at.wire();
    await wire.next();
    wire.send('40/random');
    expectEqual(await wire.message(), '44/random,{"message":"Invalid namespace"}', 'answer');
    wire.socket.close();
  });
  await check('connect: what is no CONNECT', async () => {
    for (const packet of ['4abc', '42["message"]', '40[]']) {
      const wire = await at.wire();
      await wire.next();
      wire.send(packet);
      await wire.isClosed();
    }
  });
  await check('connect: nothing in time', async () => {
    const wire = await at.wire();
    const began = performance.now();
    wire.socket.on('message', (data) => { if (data.toString() === '2') wire.send('3'); });
    await wire.isClosed();
    const took = performance.now() - began;
    expect(took > 800 && took < 1500, 'closed at the wrong time', took);
  });
  await check('connect and talk by polling', async () => {
    const session = await at.session();
    await session.post('40');
    expect((await session.poll()).text.startsWith('40{"sid":'), 'no CONNECT');
    await session.post('42["message","by post"]');
    const got = [];
    while (got.length < 2) got.push(...(await session.poll()).text.split('\x1e').filter((p) => p !== '2'));
    expectEqual(got, ['42["auth",{}]', '42["message-back","by post"]'], 'events');
  });

  await check('disconnect: the main namespace', async () => {
    const wire = await joined();
    wire.send('41');
    expectEqual(await wire.next(), '2', 'the connection stays');
    wire.socket.close();
  });
  await check('disconnect: another namespace', async () => {
    const wire = await joined();
    wire.send('40/custom');
    await wire.message();
    await wire.message();
    wire.send('41/custom', '42["message","message to main namespace"]');
    expectEqual(await wire.message(), '42["message-back","message to main namespace"]', 'echo');
    wire.socket.close();
  });

  const echoes = {
    'a text event': [['42["message",1,"2",{"3":[true]}]'], ['42["message-back",1,"2",{"3":[true]}]']],
    'numbers and spaces as they came': [['42["message",12345678901234567890,1.50,{"a" : 1}]'], ['42["message-back",12345678901234567890,1.50,{"a" : 1}]']],
    'a binary event': [
      ['452-["message",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]', [1, 2, 3], [4, 5, 6]],
      ['452-["message-back",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]', [1, 2, 3], [4, 5, 6]]],
    'a text event with an ack': [['42456["message-with-ack",1,"2",{"3":[false]}]'], ['43456[1,"2",{"3":[false]}]']],
    'an ack of nothing': [['427["message-with-ack"]'], ['437[]']],
    'a binary event with an ack': [
      ['452-789["message-with-ack",{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]', [1, 2, 3], [4, 5, 6]],
      ['462-789[{"_placeholder":true,"num":0},{"_placeholder":true,"num":1}]', [1, 2, 3], [4, 5, 6]]],
  };
  for (const [name, [send, want]] of Object.entries(echoes)) {
    await check(`message: ${name}`, async () => {
      const wire = await joined();
      wire.send(...send);
      const got = [];
      while (got.length < want.length) got.push(await wire.message());
      expectEqual(got, want, 'frames');
      wire.socket.close();
    });
  }
  const broken = {
    'an unknown type': ['4abc'], 'a payload that is no array': ['42{}'], 'an ack id that is no number': ['42abc["message-with-ack",1]'],
    'JSON that is none': ['42["message",]'], 'no name': ['42[]'], 'a reserved name': ['42["disconnect"]'],
    'text instead of an attachment': ['451-["message",{"_placeholder":true,"num":0}]', '42["message"]'], 'an attachment of nothing': [[1, 2, 3]],
  };
  for (const [name, frames] of Object.entries(broken)) {
    await check(`message: ${name} closes the connection`, async () => {
      const wire = await joined();
      wire.send(...frames);
      await wire.isClosed();
    });
  }
}

// protocol runs all checks against the server at base.
export async function protocol(base) {
  const report = new Report('Engine.IO v4 and Socket.IO v5, raw');
  const engine = { ...endpoint(base, '/engine.io/'), name: 'engine.io' };
  const sockets = { ...endpoint(base, '/socket.io/'), name: 'socket.io' };
  await engineChecks(report, engine);
  await echoChecks(report, engine);
  await engineChecks(report, sockets);
  await socketChecks(report, sockets);
  return report.close();
}

if (process.argv[1] === new URL(import.meta.url).pathname) {
  await main(async (_, [base]) => protocol(base ?? (await startSuite()).base));
}
