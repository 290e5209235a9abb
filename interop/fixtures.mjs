// Files for the filesystem server, made fresh for each run: one small, one long text, one large JSON document. All content is
// computed, so a check knows what must come back.
import { createHash } from 'node:crypto';
import { mkdirSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { scratch } from './harness.mjs';

const events = ['Flood Watch', 'Wind Advisory', 'Heat Warning', 'Frost Advisory'];
const alert = (i) => ({
  id: `alert-${i}`, event: events[i % events.length], area: `county ${i % 17}`, severity: i % 3 === 0 ? 'severe' : 'minor',
  headline: `Headline number ${i} for county ${i % 17}`,
});

export function fixtures() {
  const root = join(scratch, 'files');
  rmSync(root, { recursive: true, force: true });
  mkdirSync(root, { recursive: true });
  const put = (name, text) => {
    const file = join(root, name);
    writeFileSync(file, text);
    return { file, text, size: Buffer.byteLength(text), sha256: createHash('sha256').update(text).digest('hex') };
  };
  return {
    root,
    small: put('small.txt', 'a small file\nof two lines\n'),
    long: put('long.txt', Array.from({ length: 400 }, (_, i) => `line ${i}: the quick brown fox jumps over dog ${i * 7}`).join('\n') + '\n'),
    alerts: put('alerts.json', JSON.stringify({ title: 'Alerts of the interop run', count: 200, alerts: Array.from({ length: 200 }, (_, i) => alert(i)) }, null, 1)),
    alert,
  };
}
