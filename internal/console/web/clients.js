// How clients reach the gateway: its address, and what to paste into each client.
import { get } from './api.js';
import { card, code, el, heading } from './dom.js';

export const load = () => get('setup');

export function view(data) {
  return [
    heading('Clients', 'Connect an agent or an editor to this gateway'),
    card('The address', code(data.url, 'The address for MCP clients', 'command'), data.tokens ? el('p', { class: 'soft' }, 'Clients need a bearer token here. Ask the operator of this gateway for one.') : ''),
    card('The quick way', el('p', {}, 'On the machine of the client this finds the installed clients, shows the plan, and changes their files. ', el('code', {}, 'weir undo'), ' takes it back.'), code('weir connect', 'The command', 'command')),
    ...data.snippets.map((one) => card(one.client, el('p', { class: 'soft' }, one.where), code(one.text, `What to paste into ${one.client}`, 'command'))),
  ];
}
