// Who is in the offices of the hub, and what the Computers offer.
import { get } from './api.js';
import { el, numberText, pages, table, timeText } from './dom.js';

let offset = 0;

export async function show(at, context) {
  const data = await get('offices', { offset });
  at.replaceChildren(
    el('h2', {}, 'Members of the hub here'),
    data.hub ? el('p', { class: 'soft' }, `${numberText(data.page.total)} members, ${numberText(data.connections)} connections.`) : el('p', {}, 'There is no hub here: hub: {} in weir.yaml switches it on.'),
    data.members.length === 0 ? '' : table(
      [['Office'], ['Name'], ['Role'], ['Speaks'], ['Who'], ['For', 'number'], ['In flight', 'number']],
      data.members.map((m) => [m.office, m.name, m.role === 'computer' && m.proven ? 'computer, with its key' : m.role, [m.dialect, m.transport].filter(Boolean).join(', '), m.principal,
        timeText((Date.now() - Date.parse(m.since)) / 1000), numberText(m.in_flight)])),
    pages(data.page, (to) => { offset = to; context.again(); }) ?? '',
    el('h2', {}, 'Computers and their servers'),
    data.computers.length === 0 ? el('p', { class: 'soft' }, 'None. weir computer, on another machine, offers its servers here.') : table(
      [['Computer'], ['Server'], ['State'], ['Tools', 'number'], ['As it is here']],
      data.computers.flatMap((computer) => (computer.servers.length ? computer.servers : [{}]).map((s, i) => [
        i === 0 ? computer.name : '', s.name, el('span', { class: s.state }, s.state), s.name === undefined ? '' : numberText(s.tools), s.upstream ? el('code', {}, s.upstream) : '',
      ]))),
    data.computers_page.total > data.computers.length ? el('p', { class: 'soft' }, `${numberText(data.computers_page.total)} Computers in all.`) : '',
  );
}
