// Charts of the last day, as drawings of the page's own.
import { clockText, countText, durationText, el, svg } from './dom.js';

const width = () => (innerWidth <= 960 ? 330 : 520), height = 150, left = 52, bottom = 22, top = 8;
const bins = 48; // of half an hour

// day gathers the steps of an answer of figures into bins of half an hour, the oldest first.
export function day(data) {
  const step = 86400_000 / bins;
  const end = Math.ceil(Date.parse(data.now) / step) * step;
  const all = Array.from({ length: bins }, (_, i) => ({ time: end - (bins - i) * step, calls: 0, errors: 0, p50: 0, p95: 0 }));
  for (const one of data.steps) {
    const bin = all[bins - Math.ceil((end - Date.parse(one.time)) / step)];
    if (!bin) continue;
    bin.calls += one.calls;
    bin.errors += one.errors;
    bin.p50 = Math.max(bin.p50, one.p50_ms);
    bin.p95 = Math.max(bin.p95, one.p95_ms);
  }
  return all;
}

// round returns the next number of the form 1, 2 or 5 times a power of ten.
function round(n) {
  const power = 10 ** Math.floor(Math.log10(Math.max(n, 1)));
  return [1, 2, 5, 10].map((k) => k * power).find((k) => k >= n) ?? n;
}

const at = (i) => left + (i * (width() - left)) / bins;

// frame draws the axes and gives a drawing its name.
function frame(name, most, text, all, ...marks) {
  const y = (value) => top + (height - top - bottom) * (1 - value / most);
  return svg('svg', { viewBox: `0 0 ${width()} ${height}`, class: 'chart', role: 'img', 'aria-label': name },
    [0, 0.5, 1].map((part) => [
      svg('line', { x1: left, x2: width(), y1: y(most * part), y2: y(most * part), class: 'rule' }),
      svg('text', { x: left - 6, y: y(most * part) + 4, 'text-anchor': 'end' }, part === 0 ? '0' : text(most * part)),
    ]),
    [0, 12, 24, 36].map((i) => svg('text', { x: at(i), y: height - 4 }, clockText(all[i].time).slice(0, 5))),
    ...marks.map((mark) => mark(y)));
}

// calls draws the calls of each half hour, those that failed below in another colour and pattern.
export function calls(all, total) {
  const most = round(Math.max(4, ...all.map((bin) => bin.calls)));
  const w = (width() - left) / bins - 1.5;
  return frame(`Calls of 24 hours: ${countText(total.calls, 'call')}, ${countText(total.errors, 'error')}`, most, (n) => String(n), all, (y) => all.map((bin, i) => (bin.calls === 0 ? [] : [
    svg('rect', { x: at(i), width: w, y: y(bin.calls), height: y(0) - y(bin.calls), rx: 1.5, class: 'bar' },
      svg('title', {}, `${clockText(bin.time).slice(0, 5)}: ${countText(bin.calls, 'call')}, ${countText(bin.errors, 'error')}`)),
    bin.errors ? svg('rect', { x: at(i), width: w, y: y(bin.errors), height: y(0) - y(bin.errors), class: 'bar bad' }) : [],
  ])));
}

// latency draws the bounds within which half of the calls and 95 of 100 have ended.
export function latency(all, total) {
  const most = round(Math.max(10, ...all.map((bin) => bin.p95)));
  const line = (value, kind) => (y) => {
    let path = '', down = false;
    all.forEach((bin, i) => {
      if (bin.calls === 0) { down = false; return; }
      path += `${down ? 'L' : 'M'}${(at(i) + 4).toFixed(1)} ${y(value(bin)).toFixed(1)}${down ? '' : 'h.1'}`;
      down = true;
    });
    return [svg('path', { d: path, class: `line ${kind}` }), all.map((bin, i) => (bin.calls ? svg('circle', { cx: at(i) + 4, cy: y(value(bin)), r: 2.5, class: `dot ${kind}` }, svg('title', {}, `${clockText(bin.time).slice(0, 5)}: ${durationText(value(bin))}`)) : []))];
  };
  return frame(`Durations of 24 hours: half within ${durationText(total.p50_ms)}, 95 of 100 within ${durationText(total.p95_ms)}`, most, durationText, all, line((bin) => bin.p95, 'p95'), line((bin) => bin.p50, 'p50'));
}

export const legend = (...parts) => el('p', { class: 'legend soft' }, parts.map(([kind, text]) => el('span', {}, el('span', { class: `swatch ${kind}` }), text)));
