// Bytes of others in a process that is limited to 512 MB: requests that do not end, from strangers and from one who may; then six
// results of 250 MB at once, while an agent's calls go on. Nothing is killed, and weir holds no more than it may.
//
//   node interop/memory.mjs --weir bin/weir
import { createHash } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs';
import { connect } from 'node:net';
import { dirname, join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, here, main, Report, scratch, start, startWeir, stop, textOf, Wrong } from './harness.mjs';
import { Agent } from './work.mjs';

const MB = 1 << 20;
const limit = 512 * MB;
const token = 'of-the-one-who-may-0123456789abcdef';
const unfinished = 60; // requests at a time

// A Group is a control group with a limit, below this process's own. make returns null where none can be made: another system, no
// permission, or a version 2 group that has not handed its memory controller down.
class Group {
  static make() {
    try {
      for (const line of readFileSync('/proc/self/cgroup', 'utf8').trim().split('\n')) {
        const [, controllers, path] = /^\d+:([^:]*):(.*)$/.exec(line);
        const version2 = controllers === '';
        if (!version2 && !controllers.split(',').includes('memory')) continue;
        const group = new Group();
        group.path = join('/sys/fs/cgroup', version2 ? '' : 'memory', path, `weir-interop-${process.pid}`);
        group.kills = join(group.path, version2 ? 'memory.events' : 'memory.oom_control');
        if (!existsSync(dirname(group.path))) continue;
        try {
          mkdirSync(group.path);
          writeFileSync(join(group.path, version2 ? 'memory.max' : 'memory.limit_in_bytes'), String(limit));
          return group;
        } catch {
          group.remove();
        }
      }
    } catch { /* not Linux */ }
    return null;
  }

  // killed is how many processes the kernel has ended for want of memory.
  killed() { return Number(/oom_kill (\d+)/.exec(readFileSync(this.kills, 'utf8'))?.[1] ?? 0); }

  remove() { try { rmdirSync(this.path); } catch { /* it is not there, or a process is still in it */ } }
}

// limited is a program that becomes another one in a group or, without one, tells it the limit for its heap that weir takes from a
// group by itself.
function limited(program, group) {
  const file = join(scratch, 'limited.sh');
  const first = group ? `echo $$ > '${group.path}/cgroup.procs'` : `export GOMEMLIMIT=${limit / 4 * 3}`;
  writeFileSync(file, `#!/bin/sh\n${first} && exec '${program}' "$@"\n`, { mode: 0o755 });
  return file;
}

// resident is what a process has in memory, in bytes: all of it, or what the system cannot take back by itself, which are pages that
// are no file's. It is null where the system does not say.
function resident(pid, what = 'VmRSS') {
  try {
    return Number(new RegExp(`^${what}:\\s+(\\d+) kB`, 'm').exec(readFileSync(`/proc/${pid}/status`, 'utf8'))[1]) * 1024;
  } catch { return null; }
}

// peak is the most that resident gives while f runs, and what f returns.
async function peak(pid, what, f) {
  let most = resident(pid, what);
  const timer = setInterval(() => { most = Math.max(most, resident(pid, what)); }, 20);
  try { return { result: await f(), most }; } finally { clearInterval(timer); }
}

const inMB = (bytes) => `${(bytes / MB).toFixed(0)} MB`;

// Open is a connection that says something and then goes on sending without an end, as long as it is let.
class Open {
  constructor(port, head, bytes) {
    this.socket = connect(port, '127.0.0.1', () => {
      this.socket.write(head);
      const piece = Buffer.alloc(64 << 10, 'x');
      const more = () => {
        for (; bytes > 0; bytes -= piece.length) {
          if (this.socket.destroyed || !this.socket.write(piece)) { this.socket.once('drain', () => { bytes -= piece.length; more(); }); return; }
        }
      };
      more();
    });
    this.socket.on('error', () => {}); // most are shut
    this.socket.on('data', () => {});
  }

  close() { this.socket.destroy(); }
}

const post = (path, length, headers = '') => `POST ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n${headers}Content-Length: ${length}\r\n\r\n`;

// doors are where strangers can begin a request. A body has 10 MB, of which all but the last is sent.
const doors = {
  'POST /mcp': async (port) => new Open(port, post('/mcp', 10 * MB), 9 * MB),
  'POST /mcps/NAME/mcp': async (port) => new Open(port, post('/mcps/large/mcp', 10 * MB), 9 * MB),
  'POST /s2sp/data/TOKEN': async (port) => new Open(port, post('/s2sp/data/unknown', 10 * MB), 9 * MB),
  'POST /socket.io/': async (port) => {
    const response = await fetch(`http://127.0.0.1:${port}/socket.io/?EIO=4&transport=polling`);
    const sid = /"sid":"([^"]+)"/.exec(await response.text())?.[1] ?? 'refused';
    return new Open(port, post(`/socket.io/?EIO=4&transport=polling&sid=${sid}`, 10 * MB), 9 * MB);
  },
  'a WebSocket message': async (port) => {
    const key = createHash('md5').update(String(Math.random())).digest('base64');
    const upgrade = `GET /socket.io/?EIO=4&transport=websocket HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: ${key}\r\n\r\n`;
    const frame = Buffer.from([0x81, 0xff, 0, 0, 0, 0, 0, 0xa0, 0, 0, 1, 2, 3, 4]); // 10 MB, masked
    return new Open(port, Buffer.concat([Buffer.from(upgrade), frame]), 9 * MB);
  },
};

async function manyAtOnce(pid, port, door) {
  const open = [];
  const before = resident(pid);
  const { most } = await peak(pid, 'VmRSS', async () => {
    open.push(...await Promise.all(Array.from({ length: unfinished }, () => door(port))));
    await sleep(1000);
  });
  return { grown: most - before, close: () => open.forEach((one) => one.close()) };
}

export async function bytesOfOthers({ weir }) {
  if (!weir) {
    console.log('# memory: needs --weir');
    return 0;
  }
  const report = new Report('bytes of others');
  const large = start('large', process.execPath, [join(here, 'large.mjs')], { stdout: 'pipe' });
  const upstream = await new Promise((done) => createInterface({ input: large.stdout }).once('line', done));
  const group = Group.make();
  console.log(group ? `# a control group of ${inMB(limit)}` : '# no control group can be made here: what weir takes is measured');
  const running = await startWeir(limited(weir, group), 'weir-memory', {
    mcpServers: { large: { url: `http://127.0.0.1:${upstream}/mcp`, max_response: '300MB', timeout: '5m' } },
    auth: { tokens: [{ name: 'ann', sha256: createHash('sha256').update(token).digest('hex') }] },
    hub: {}, limits: { memory: '256MB' }, artifacts: { max_bytes: '2GB' },
  });
  const { pid } = running.child;
  const port = Number(new URL(running.url).port);
  const agent = () => Agent.connect(running.url, { Authorization: `Bearer ${token}` });
  const other = await agent();
  const cards = textOf((await other.call('tool_browse', { path: '/large' })).result);
  const ids = Object.fromEntries([...cards.matchAll(/large:([a-z]+)[#@]\S+/g)].map(([id, name]) => [name, id]));
  const echo = async () => {
    const { result, took } = await other.call('tool_execute', { tool_id: ids.echo, args: { text: 'hello' } });
    expect(textOf(result) === 'hello', 'the wrong answer', result);
    return took;
  };
  await echo();

  if (resident(pid) !== null) {
    for (const [name, door] of Object.entries(doors)) {
      await report.check(`${unfinished} × ${name} without a token and without an end cost less than 20 MB`, async () => {
        const { grown, close } = await manyAtOnce(pid, port, door);
        try { expect(grown <= 20 * MB, `weir has grown by ${inMB(grown)}`); } finally { close(); }
      });
    }
    await report.check(`${unfinished} bodies of one who may, without an end, stay within the half of the limit, and calls go on`, async () => {
      const { grown, close } = await manyAtOnce(pid, port, async () => new Open(port, post('/mcp', 10 * MB, `Authorization: Bearer ${token}\r\nAccept: application/json, text/event-stream\r\n`), 9 * MB));
      try {
        expect(grown <= 224 * MB, `weir has grown by ${inMB(grown)}`); // 128 MB are counted; what Go has not collected comes on top
        await echo();
      } finally { close(); }
    });
  }
  let handle;
  await report.check(`six results of 250 MB at once in ${inMB(limit)}: all are kept, another agent's calls go on, nothing is killed`, async () => {
    const agents = await Promise.all(Array.from({ length: 6 }, agent));
    let over = false;
    let worst = 0;
    const began = performance.now();
    const { result, most } = await peak(pid, 'RssAnon', async () => {
      const all = Promise.all(agents.map((a, day) => a.call('tool_execute', { tool_id: ids.log, args: { day } }))).finally(() => { over = true; });
      all.catch(() => {});
      while (!over) {
        worst = Math.max(worst, await echo());
        await sleep(50);
      }
      return all;
    });
    console.log(`        ${((performance.now() - began) / 1000).toFixed(1)} s, another agent waited ${worst.toFixed(1)} s at most${most === null ? '' : `, ${inMB(most)} that are no file's`}`);
    result.forEach(({ result: one }, day) => expect(/Held back as art_/.test(textOf(one)), `result ${day} is not kept`, textOf(one).slice(0, 400)));
    handle = /art_[a-z0-9]+/.exec(textOf(result[3].result))[0];
    if (most !== null) expect(most < limit, `weir has taken ${inMB(most)}`);
    if (group) expect(group.killed() === 0, 'the kernel has ended a process');
    expect(!running.child.hasEnded(), 'weir has ended');
    expect(worst < 15, `another agent waited ${worst.toFixed(1)} s`);
  });
  await report.check('what was kept is read, and then everything is given back', async () => {
    if (!handle) throw new Wrong('nothing was kept');
    const seen = textOf((await other.call('tool_view', { handle, selector: { type: 'head', chars: 2000 } })).result);
    expect(seen.includes('day 3'), 'the beginning is another', seen.slice(0, 200));
    if (resident(pid) === null) return;
    const until = performance.now() + 60_000; // memory is returned 5 seconds after the last of it was asked for, and up to 35 seconds after that
    while (resident(pid) > 100 * MB && performance.now() < until) await sleep(250);
    expect(resident(pid) <= 100 * MB, `weir still has ${inMB(resident(pid))}`);
  });
  await stop(running.child);
  await stop(large);
  group?.remove();
  return report.close();
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(bytesOfOthers);
