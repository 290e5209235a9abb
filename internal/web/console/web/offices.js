// Who is in the offices of the hub, and what the Computers offer.
import { get } from './api.js';
import { card, countText, el, empty, heading, numberText, pager, serverLink, soft, stateText, table, timeText } from './dom.js';

let offset = 0;

export const load = () => get('offices', { offset });

export function view(data, context) {
  if (!data.hub && data.computers_page.total === 0) {
    return [heading('Offices'), empty('No hub here', el('p', {}, 'Computers join an office and offer their servers through the hub. ', el('code', {}, 'hub: {}'), ' in weir.yaml switches it on; ', el('code', {}, 'weir computer'), ' joins from another machine.'))];
  }
  return [
    heading('Offices', data.hub ? `${countText(data.page.total, 'member')}, ${countText(data.connections, 'connection')}` : 'Computers of hubs elsewhere'),
    card('Computers and their servers', data.computers?.length ? table([['Computer', 'name'], ['Server', 'name'], ['State'], ['Tools', 'number'], ['Name here']],
      data.computers.flatMap((computer) => (computer.servers?.length ? computer.servers : [{}]).map((s, i) => ({ key: `${computer.name}/${s.name}`, cells: [
        i === 0 ? computer.name : '', s.name, s.state ? stateText(s.state) : '', s.name === undefined ? '' : numberText(s.tools), s.upstream ? serverLink(s.upstream) : ''] }))), 'Computers')
      : soft('None has joined. ', el('code', {}, 'weir computer'), ' on another machine offers its servers here.'),
    data.computers_page.total > (data.computers?.length ?? 0) ? soft(`${numberText(data.computers_page.total)} Computers in all.`) : ''),
    data.hub ? card('Members', data.members?.length ? table([['Name', 'name'], ['Office', 'name'], ['Role'], ['Caller'], ['Connection'], ['Joined', 'number'], ['In flight', 'number']],
      data.members.map((m) => ({ key: `${m.office}/${m.name}/${m.role}`, cells: [m.name, m.office, m.role === 'computer' && m.proven ? 'computer, with its key' : m.role, m.principal, [m.dialect, m.transport].filter(Boolean).join(', '),
        `${timeText((Date.now() - Date.parse(m.since)) / 1000)} ago`, numberText(m.in_flight)] })), 'Members') : soft('No member yet.'),
    pager(data.page, (to) => { offset = to; context.refresh(); })) : '',
  ];
}
