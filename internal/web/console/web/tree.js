// A tree of which only the rows in sight are elements. Ten thousand entries scroll as a hundred do.
import { aside, el } from './dom.js';

export const pageSize = 500;
const fold = (open) => (open ? '▾ ' : '▸ ');
const spare = 8; // rows before and after those in sight

// A Tree shows nodes { card, parent, place, open, children }. A node without a card is a hole: its page is asked for when it
// comes in sight. The arrow keys, Home, End, Page Up and Page Down go through all rows, and * unfolds a level and all below.
export class Tree {
  #rows = []; // the nodes that are unfolded, in their order
  #shown = new Map(); // node → its element
  #active; // the node that Tab reaches
  #chosen;
  #height = 32;
  #drawing = false;
  #focused = false; // the row that had the focus is made anew

  // ask(path, offset) returns { cards, page }; address(id) is where an entry is shown; unfolded are the paths that are open.
  constructor(label, first, ask, address, unfolded) {
    this.ask = ask;
    this.address = address;
    this.unfolded = unfolded;
    this.room = el('div', { class: 'room', role: 'none' });
    this.node = el('div', { class: 'tree', role: 'tree', 'aria-label': label, keydown: (event) => this.#key(event) }, this.room);
    this.node.addEventListener('scroll', () => this.#soon(), { passive: true });
    new ResizeObserver(() => this.#soon()).observe(this.node);
    this.root = { children: [] };
    this.#take(this.root, first);
    this.#flatten();
  }

  // choose marks the entry with an id.
  choose(id) {
    if (this.#chosen === id) return;
    this.#chosen = id;
    for (const [node, row] of this.#shown) row.classList.toggle('chosen', node.card?.id === id);
  }

  // find gives the focus to the row of an entry, if its folders are open, and says so.
  find(id) {
    const node = this.#rows.find((one) => one.card?.id === id);
    if (node) this.#go(node.row);
    return Boolean(node);
  }

  // reveal unfolds the folders above an entry, and brings its row in sight. path is that of the entry.
  async reveal(path, id) {
    let folder = this.root;
    for (let next; folder; folder = next) {
      const of = folder, above = (one) => one.card?.folder && path.startsWith(`${one.card.id}/`);
      next = undefined;
      for (let offset = 0; offset < of.children.length && !next; offset += pageSize) { // its page may not be here yet
        if (!of.children[offset].card) await this.#fill(of.children[offset]);
        const found = of.children.slice(offset, offset + pageSize).find((one) => one.card?.id === id || above(one));
        if (found?.card.id === id) return this.#show(found);
        next = found;
      }
      if (next && !next.open) await this.#toggle(next, true);
      if (next && !next.open) return;
    }
  }

  // #show brings a row in sight and makes it the one that Tab reaches. The focus stays where it is.
  #show(node) {
    if (!this.node.contains(document.activeElement)) this.#activate(node);
    const top = node.row * this.#height, { scrollTop, clientHeight } = this.node;
    if (top < scrollTop || top + this.#height > scrollTop + clientHeight) this.node.scrollTop = Math.max(0, top - clientHeight / 2);
    this.#soon();
  }

  // #take puts a page of cards at its place in a folder.
  #take(folder, { cards, page }) {
    const had = folder.children ?? [];
    folder.children = Array.from({ length: Math.max(page.total, page.offset + cards.length) }, (_, place) => had[place] ?? { parent: folder, place });
    cards.forEach((card, i) => {
      const node = folder.children[page.offset + i];
      node.card ??= card;
      if (card.folder && this.unfolded.has(card.id) && !node.open) this.#toggle(node, true);
    });
  }

  #flatten() {
    this.#rows = [];
    const add = (folder, depth) => {
      for (const node of folder.children ?? []) {
        node.row = this.#rows.push(node) - 1;
        node.depth = depth;
        if (node.open) add(node, depth + 1);
      }
    };
    add(this.root, 1);
    if (this.#rows[this.#active?.row] !== this.#active) this.#active = this.#rows[0];
    this.#active ??= this.#rows[0];
    for (const [node, row] of this.#shown) {
      if (this.#rows[node.row] === node && Boolean(node.card) === !row.dataset.hole) row.style.top = `${node.row * this.#height}px`;
      else { this.#focused ||= row === document.activeElement; row.remove(); this.#shown.delete(node); }
    }
    this.#soon();
  }

  #soon() {
    if (this.#drawing) return;
    this.#drawing = true;
    requestAnimationFrame(() => { this.#drawing = false; this.#draw(); });
  }

  // #draw makes the rows in sight, and the one with the focus, elements. All others are none.
  #draw() {
    if (!this.node.isConnected) return;
    const from = Math.max(0, Math.floor(this.node.scrollTop / this.#height) - spare);
    const until = Math.min(this.#rows.length, Math.ceil((this.node.scrollTop + this.node.clientHeight) / this.#height) + spare);
    const wanted = new Set(this.#rows.slice(from, until));
    if (this.#active) wanted.add(this.#active);
    for (const [node, row] of this.#shown) if (!wanted.has(node)) { row.remove(); this.#shown.delete(node); }
    for (const node of wanted) if (!this.#shown.has(node)) this.#place(node);
    const measured = this.#shown.values().next().value?.offsetHeight;
    if (measured && Math.abs(measured - this.#height) > 0.5) { // the reader has another size of text
      this.#height = measured;
      for (const [node, row] of this.#shown) row.style.top = `${node.row * measured}px`;
      this.#soon();
    }
    this.room.style.height = `${this.#rows.length * this.#height}px`;
    if (this.#focused) this.#shown.get(this.#active)?.focus({ preventScroll: true });
    this.#focused = false;
  }

  // #place makes the element of a row and puts it where its neighbours are, so that a screen reader reads them in order.
  #place(node) {
    const row = this.#element(node);
    row.style.top = `${node.row * this.#height}px`;
    row.style.paddingLeft = `${node.depth - 0.6}rem`;
    let next;
    for (const other of this.#shown.keys()) if (other.row > node.row && (!next || other.row < next.row)) next = other;
    this.room.insertBefore(row, this.#shown.get(next) ?? null);
    this.#shown.set(node, row);
  }

  #element(node) {
    const { card } = node;
    const all = { role: 'treeitem', class: card && card.id === this.#chosen ? 'chosen' : '', tabindex: node === this.#active ? '0' : '-1', 'aria-level': node.depth, 'aria-setsize': node.parent.children.length, 'aria-posinset': node.place + 1 };
    if (!card) {
      this.#fill(node);
      return el('div', { ...all, class: 'soft', 'data-hole': 'yes' }, '…');
    }
    if (!card.folder) return el('a', { ...all, href: this.address(card.id), title: card.description, click: () => this.#activate(node) }, card.name, card.side_effects ? el('span', { class: 'tag' }, 'side effects') : '');
    return el('div', { ...all, 'aria-expanded': String(Boolean(node.open)), 'data-path': card.id, click: () => { this.#activate(node); this.#toggle(node); } },
      el('span', { 'aria-hidden': 'true', class: 'fold' }, fold(node.open)), card.name, ' ', aside(/^\d+ \w+/.exec(card.description)?.[0]));
  }

  // #fill asks for the page that has a hole.
  async #fill({ parent, place }) {
    const offset = place - place % pageSize;
    parent.asked ??= new Set();
    if (parent.asked.has(offset)) return;
    parent.asked.add(offset);
    const answer = await this.ask(parent.card?.id ?? '/', offset);
    if (!answer) { setTimeout(() => parent.asked.delete(offset), 5000); return; }
    this.#take(parent, answer);
    this.#flatten();
  }

  async #toggle(node, open = !node.open, remember = true) {
    if (open && !node.children) {
      const answer = await this.ask(node.card.id, 0);
      if (!answer) return;
      this.#take(node, answer);
    }
    node.open = open;
    const row = this.#shown.get(node);
    row?.setAttribute('aria-expanded', String(open));
    row?.firstChild.replaceChildren(fold(open));
    if (!open) this.unfolded.delete(node.card.id);
    else if (remember) this.unfolded.add(node.card.id);
    this.#flatten();
  }

  // #unfold opens all folders in a folder, one by one. They are too many to be opened again at the next visit.
  async #unfold(folder) {
    for (const one of folder.children) {
      if (!this.node.isConnected) return;
      if (!one.card?.folder) continue;
      await this.#toggle(one, true, false);
      if (one.open) await this.#unfold(one);
    }
  }

  #activate(node) {
    const before = this.#active;
    this.#active = node;
    this.#shown.get(before)?.setAttribute('tabindex', '-1');
    this.#shown.get(node)?.setAttribute('tabindex', '0');
  }

  // #go gives the focus to a row, and brings it in sight.
  #go(at) {
    const node = this.#rows[Math.max(0, Math.min(this.#rows.length - 1, at))];
    if (!node) return;
    this.#activate(node);
    if (!this.#shown.has(node)) this.#place(node);
    const top = node.row * this.#height, { scrollTop, clientHeight } = this.node;
    if (top < scrollTop) this.node.scrollTop = top;
    else if (top + this.#height > scrollTop + clientHeight) this.node.scrollTop = top + this.#height - clientHeight;
    this.#shown.get(node).focus({ preventScroll: true });
    this.#soon();
  }

  #key(event) {
    const node = this.#active;
    if (!node || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.node.clientHeight / this.#height) - 1);
    switch (event.key) {
      case 'ArrowDown': this.#go(node.row + 1); break;
      case 'ArrowUp': this.#go(node.row - 1); break;
      case 'PageDown': this.#go(node.row + page); break;
      case 'PageUp': this.#go(node.row - page); break;
      case 'Home': this.#go(0); break;
      case 'End': this.#go(this.#rows.length - 1); break;
      case 'ArrowRight': if (node.card?.folder && !node.open) this.#toggle(node, true); else if (node.open) this.#go(node.row + 1); break;
      case 'ArrowLeft': if (node.open) this.#toggle(node, false); else if (node.parent.card) this.#go(node.parent.row); break;
      case '*':
        if (this.node.ariaBusy) break;
        this.node.ariaBusy = 'true';
        this.#unfold(node.parent).finally(() => { this.node.ariaBusy = null; });
        break;
      case 'Enter': case ' ': if (node.card?.folder) this.#toggle(node); else this.#shown.get(node)?.click(); break;
      default: return;
    }
    event.preventDefault();
  }
}
