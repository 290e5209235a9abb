// The tables of docs/conformance.md: a driver that has found a figure compares it with the page, so that the page stays true.
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, here } from './harness.mjs';

// cell writes the checks of one scenario as the page does; '–' for a scenario that was not run.
export function cell(statuses) {
  if (!statuses) return '–';
  const count = (status) => [...statuses.values()].filter((check) => check.status === status).length;
  return count('FAILURE') > 0 ? `${count('SUCCESS')}, ${count('FAILURE')} failed` : String(count('SUCCESS'));
}

// byScenario parts the checks of a run by their scenarios.
export function byScenario(statuses) {
  const parts = new Map();
  for (const [key, value] of statuses ?? []) {
    const scenario = key.slice(0, key.indexOf(' / ')).replace(/^(authorization-)?server-/, '');
    if (!parts.has(scenario)) parts.set(scenario, new Map());
    parts.get(scenario).set(key, value);
  }
  return parts;
}

// sameAsPage compares rows with the table below a heading of the page. The page may have further cells in a row: what was before.
export function sameAsPage(heading, rows) {
  const page = readFileSync(join(here, '..', 'docs', 'conformance.md'), 'utf8');
  const [, section] = page.split(`\n## ${heading}\n`);
  expect(section !== undefined, `docs/conformance.md has no section ${heading}`);
  const written = section.split('\n## ')[0].split('\n').filter((line) => line.startsWith('| `')).map((line) => line.split('|').slice(1, -1).map((text) => text.trim()));
  const wanted = rows.map(([scenario, ...cells]) => [`\`${scenario}\``, ...cells]);
  const same = written.length === wanted.length && wanted.every((row, i) => row.every((text, j) => text === written[i][j]));
  expect(same, `docs/conformance.md has other figures; those of this run:\n${wanted.map((row) => `| ${row.join(' | ')} |`).join('\n')}\n`);
}
