// Rows of a table, of which only those in sight are elements and only some pages are kept. A million rows scroll as a
// hundred do.
import { button, el, numberText, visible } from './dom.js';

const pageSize = 100, keptPages = 60;
const tallest = 1_000_000; // px: browsers bound the height of an element, and tools that examine a page its cost, so more rows scroll in proportion
const widest = 36, narrowest = 5; // columns, in characters

const isNumber = (/** @type {string | undefined} */ cell) => /^-?\d[\d.eE+-]*$/.test(cell ?? '');

/** @typedef {{ columns?: string[], rows?: string[][], total?: number, more_columns?: number }} Answer */
/** @typedef {{ row: HTMLElement, cells: HTMLElement[], index: number, values: string[] | undefined }} Line */

// A Grid shows the rows of one query. The arrow keys, Page Up, Page Down, Home and End choose a row, and Enter opens it.
export class Grid {
  /** @type {Map<number, string[][]>} */ #pages = new Map(); // the least recently used first
  /** @type {Line[]} */ #lines = [];
  /** @type {string[]} */ #columns = [];
  #numeric = [];
  #total = 0;
  #height = 32; // px of a row
  #top = 0; // px from the first row to the first in sight, as if all rows were elements
  #scrolled = 0; // the scrollTop that #top belongs to
  #first = 0; // the row of the first line
  #active = -1; // the row that the keys have chosen
  #query = 0;
  #drawing = false;
  #took = 0; // ms that the last page took
  /** @type {{ page: number, stop: AbortController } | undefined} */ #asked;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ #settled;

  // ask(offset, limit, signal) returns an Answer, undefined where it has failed; sort(column) and open(row, columns, values)
  // do what a person wants.
  constructor(label, ask, sort, open) {
    this.ask = ask;
    this.sort = sort;
    this.open = open;
    this.head = el('thead', { role: 'rowgroup' });
    this.body = el('tbody', { role: 'rowgroup' });
    this.sizes = el('colgroup');
    this.table = el('table', { role: 'presentation' }, this.sizes, this.head, this.body);
    this.room = el('div', { class: 'room', role: 'presentation' }, this.table);
    this.node = el('div', { class: 'wide grid', role: 'grid', tabindex: '0', 'aria-label': label, keydown: (event) => this.#key(event) }, this.room);
    this.node.addEventListener('scroll', () => this.#scroll(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(this.node);
  }

  // show shows the rows of a query, of which first is the first page. order is { column, down }.
  show(/** @type {Answer} */ first, all, order) {
    const columns = all?.length ? all : first.columns ?? [];
    const focused = [...this.head.querySelectorAll('button')].indexOf(/** @type {any} */ (document.activeElement));
    this.#query++;
    this.#asked?.stop.abort();
    this.#asked = undefined;
    this.#pages.clear();
    this.#columns = [];
    this.#total = first.total ?? first.rows?.length ?? 0;
    this.#active = Math.min(this.#active, this.#total - 1);
    this.order = order;
    this.#join(columns);
    this.#take(0, first);
    this.#measure();
    this.#header();
    this.head.querySelectorAll('button')[focused]?.focus({ preventScroll: true });
    this.#lines.length = 0;
    this.body.replaceChildren();
    this.node.setAttribute('aria-rowcount', String(this.#total + 1));
    this.#goTo(0);
    this.#draw(); // at once, so that no frame is without rows
  }

  // kept says how many rows are in memory.
  get kept() { return [...this.#pages.values()].reduce((n, page) => n + page.length, 0); }

  #join(names) {
    const fresh = names.filter((name) => !this.#columns.includes(name));
    this.#columns.push(...fresh);
    return fresh.length > 0;
  }

  // #take keeps a page, or a part of one. Rows may lack columns, so each page has its own order of them.
  #take(page, { columns = [], rows = [] }) {
    const more = this.#join(columns);
    const at = columns.map((name) => this.#columns.indexOf(name));
    const had = this.#pages.get(page) ?? [];
    const fresh = rows.map((row) => { const out = []; row?.forEach((cell, i) => { out[at[i]] = cell; }); return out; });
    this.#pages.delete(page);
    this.#pages.set(page, [...had, ...fresh].slice(0, pageSize));
    for (const old of this.#pages.keys()) { if (this.#pages.size <= keptPages) break; this.#pages.delete(old); }
    if (more && this.head.childElementCount) { this.#measure(); this.#header(); this.#lines.length = 0; this.body.replaceChildren(); }
  }

  #row(index) { return this.#pages.get(Math.floor(index / pageSize))?.[index % pageSize]; }

  // #measure gives each column the width that most of its first cells need.
  #measure() {
    const sample = [...this.#pages.values()][0] ?? [];
    this.#numeric = this.#columns.map((_, k) => sample.some((row) => row[k]) && sample.every((row) => !row[k] || row[k] === 'null' || isNumber(row[k])));
    const widths = this.#columns.map((name, k) => { // capitals are wider than digits
      const cells = sample.map((row) => row[k]?.length ?? 0).sort((a, b) => a - b);
      return Math.max(narrowest, Math.min(widest, Math.max([...name].length + 2, cells[Math.floor(cells.length * 0.9)] ?? 0) * 1.1));
    });
    this.sizes.replaceChildren(...widths.map((width) => { const col = el('col'); col.style.width = `calc(${width}ch + 2rem)`; return col; }));
    const all = widths.reduce((sum, width) => sum + width, 0);
    this.room.style.minWidth = this.table.style.width = `max(100%, calc(${all}ch + ${2 * widths.length}rem))`;
  }

  // sortable columns have buttons.
  #header() {
    const { column, down } = this.order ?? {};
    this.head.replaceChildren(el('tr', { role: 'row', 'aria-rowindex': '1' }, this.#columns.map((name, k) => el('th', { role: 'columnheader', class: this.#numeric[k] ? 'number' : undefined, 'aria-sort': column === name ? (down ? 'descending' : 'ascending') : undefined },
      button({ class: 'quiet', title: name, click: () => this.sort(name) }, name, column === name ? el('span', { 'aria-hidden': 'true' }, down ? ' ↓' : ' ↑') : '')))));
  }

  get #sight() { return Math.max(this.#height, this.node.clientHeight - this.head.offsetHeight); }
  get #tall() { return Math.min(this.#total * this.#height, tallest); }
  get #lastTop() { return Math.max(0, this.#total * this.#height - this.#sight); }

  #scroll() {
    const now = this.node.scrollTop, moved = now - this.#scrolled, range = Math.max(1, this.#tall - this.#sight);
    if (this.#total * this.#height <= tallest) this.#top = now;
    else if (Math.abs(moved) < this.#sight) this.#top = Math.max(0, Math.min(this.#lastTop, this.#top + moved)); // row by row
    else this.#top = Math.min(1, now / range) * this.#lastTop; // by the scroll bar
    this.#scrolled = now;
    // Between gestures the scroll bar takes the place that belongs to the rows. At its end that cannot wait.
    clearTimeout(this.#settled);
    const stuck = (now <= 0 && this.#top > 0) || (now >= range - 1 && this.#top < this.#lastTop);
    if (stuck) this.#goTo(this.#top);
    else this.#settled = setTimeout(() => this.#goTo(this.#top), 200);
    this.#soon();
  }

  // #goTo makes a row the first in sight, and the scroll bar fit.
  #goTo(top) {
    this.#top = Math.max(0, Math.min(this.#lastTop, top));
    this.room.style.height = `${this.head.offsetHeight + this.#tall}px`;
    const range = Math.max(0, this.#tall - this.#sight);
    const want = this.#total * this.#height <= tallest ? this.#top : (this.#lastTop && this.#top / this.#lastTop) * range;
    if (Math.abs(this.node.scrollTop - want) > 1) this.node.scrollTop = want;
    this.#scrolled = this.node.scrollTop;
    this.#soon();
  }

  #soon() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => { this.#drawing = false; this.#draw(); });
  }

  // #draw fills the lines. The table stays in sight, and its rows move below its head.
  #draw() {
    if (!this.node.isConnected) return;
    this.room.style.height = `${this.head.offsetHeight + this.#tall}px`;
    const first = Math.floor(this.#top / this.#height), count = Math.min(this.#total - first, Math.ceil(this.#sight / this.#height) + 1);
    this.#turn(first - this.#first);
    this.#first = first;
    while (this.#lines.length < count) this.#line();
    while (this.#lines.length > Math.max(count, 1)) this.#lines.pop()?.row.remove();
    this.#lines.forEach((line, i) => this.#fill(line, first + i));
    this.body.style.transform = `translateY(${-(this.#top - first * this.#height)}px)`;
    const chosen = this.#lines[this.#active - first];
    if (chosen && this.#active >= 0) this.node.setAttribute('aria-activedescendant', chosen.row.id);
    else this.node.removeAttribute('aria-activedescendant');
    const measured = this.#lines[0]?.row.offsetHeight;
    if (measured && Math.abs(measured - this.#height) > 0.5) { // the reader has another size of text
      this.#top = (this.#top / this.#height) * measured;
      this.#height = measured;
      this.#goTo(this.#top);
    }
    this.#want(first, count);
  }

  // #turn keeps the lines that stay in sight, so that only new rows are written.
  #turn(by) {
    if (Math.abs(by) >= this.#lines.length) return;
    for (; by > 0; by--) { const line = /** @type {Line} */ (this.#lines.shift()); this.#lines.push(line); this.body.append(line.row); }
    for (; by < 0; by++) { const line = /** @type {Line} */ (this.#lines.pop()); this.#lines.unshift(line); this.body.prepend(line.row); }
  }

  #line() {
    const cells = this.#columns.map((_, k) => el('td', { role: 'gridcell', class: this.#numeric[k] ? 'number' : undefined }));
    /** @type {Line} */
    const line = { row: el('tr', { role: 'row' }, cells), cells, index: -1, values: undefined };
    line.row.addEventListener('click', () => { if (!getSelection()?.isCollapsed) return; this.#active = line.index; this.#soon(); this.#open(line.index); });
    this.#lines.push(line);
    this.body.append(line.row);
  }

  #fill(line, index) {
    const values = this.#row(index);
    if (line.index !== index) {
      line.index = index;
      line.row.setAttribute('aria-rowindex', String(index + 2));
      line.row.id = `row-${index}`;
      line.values = undefined;
      line.cells.forEach((cell) => { cell.textContent = ''; });
    }
    line.row.classList.toggle('chosen', index === this.#active);
    if (line.row.classList.toggle('hole', !values) && line.cells[0]) line.cells[0].textContent = '…';
    if (!values || values === line.values) return;
    line.values = values;
    line.cells.forEach((cell, k) => { cell.textContent = visible(values[k] ?? ''); });
  }

  // #want asks for the first page in sight, or next to it, that is missing.
  async #want(first, count) {
    const near = this.#took < 200 ? [first + count + pageSize, first - pageSize] : []; // pages of an order are work for weir
    const wanted = [first, first + count - 1, ...near].filter((row) => row >= 0 && row < this.#total).map((row) => Math.floor(row / pageSize));
    for (const page of wanted.slice().reverse()) { // these are used
      const rows = this.#pages.get(page);
      if (rows) { this.#pages.delete(page); this.#pages.set(page, rows); }
    }
    const missing = wanted.find((page) => (this.#pages.get(page)?.length ?? 0) < Math.min(pageSize, this.#total - page * pageSize));
    if (this.#asked) {
      if (wanted.includes(this.#asked.page)) return;
      this.#asked.stop.abort();
    }
    if (missing === undefined) { this.#asked = undefined; return; }
    const mine = this.#asked = { page: missing, stop: new AbortController() }, query = this.#query;
    await new Promise((done) => { setTimeout(done, this.#row(first) ? 0 : 40); }); // who drags the scroll bar wants the end of it
    if (mine.stop.signal.aborted) return;
    const had = this.#pages.get(missing)?.length ?? 0;
    const began = performance.now();
    const answer = await this.ask(missing * pageSize + had, pageSize - had, mine.stop.signal);
    if (mine.stop.signal.aborted || query !== this.#query) return;
    this.#took = performance.now() - began;
    this.#asked = undefined;
    if (!answer?.rows?.length) { // it went, or a row does not fit an answer
      if (answer) this.#pages.set(missing, [...(this.#pages.get(missing) ?? []), ['(not shown: too long)']]);
      else return;
    } else this.#take(missing, answer);
    this.#soon();
  }

  #open(index) {
    const values = this.#row(index);
    if (values) this.open(index, this.#columns, values);
  }

  #key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target !== this.node) return;
    const page = Math.max(1, Math.floor(this.#sight / this.#height) - 1), from = this.#active < 0 ? Math.ceil(this.#top / this.#height) - 1 : this.#active;
    const to = { ArrowDown: from + 1, ArrowUp: from - 1, PageDown: from + page, PageUp: from - page, Home: 0, End: this.#total - 1 }[event.key];
    if (event.key === 'Enter') this.#open(this.#active);
    else if (to === undefined) return;
    else {
      this.#active = Math.max(0, Math.min(this.#total - 1, to));
      const top = this.#active * this.#height;
      if (top < this.#top) this.#goTo(top);
      else if (top + this.#height > this.#top + this.#sight) this.#goTo(top + this.#height - this.#sight);
      this.#soon();
    }
    event.preventDefault();
  }

  // told is what is in sight, in words.
  get told() {
    const first = Math.floor(this.#top / this.#height);
    return `${numberText(first + 1)} to ${numberText(Math.min(this.#total, first + Math.floor(this.#sight / this.#height)))} of ${numberText(this.#total)}`;
  }
}
