// Where the gateway's files are, and what looks after it.
import { get } from './api.js';
import { card, code, el, fact, heading, timeText } from './dom.js';

export async function load() {
  const [setup, overview] = await Promise.all([get('setup'), get('overview', { limit: 1 })]);
  return { setup, overview };
}

export function view({ setup, overview }, context) {
  return [
    heading('Setup', `${overview.name} ${overview.version}`),
    el('dl', { class: 'facts' }, fact('Mode', overview.mode), fact('Up', timeText(overview.uptime)), fact('You are', context.me.principal, context.me.operates ? 'an operator' : 'a viewer'), fact('Tokens', setup.tokens ? 'needed' : 'not needed', setup.tokens ? '' : 'this machine alone')),
    card('Files', el('dl', { class: 'list' },
      el('dt', {}, 'Configuration'), el('dd', {}, setup.config ? el('code', {}, setup.config) : 'none: the gateway runs with defaults'),
      el('dt', {}, 'Agreed definitions'), el('dd', {}, setup.lock ? el('code', {}, setup.lock) : 'none')),
    el('p', { class: 'soft' }, 'A change of the configuration applies while the gateway runs.')),
    card('Check', el('p', {}, 'In a shell, these say what is wrong, who can mend it and how:'), code('weir doctor\nweir config check', 'Commands', 'command')),
    card('For programs', el('p', {}, el('a', { href: 'api/v1/openapi.json' }, '/api/v1/openapi.json'), ' describes all that this page reads. ', el('a', { href: 'metrics' }, '/metrics'), ' has figures for Prometheus, ', el('a', { href: 'healthz' }, '/healthz'), ' the state. There are pages for ', el('a', { href: './' }, 'the start'), ' and for ', el('a', { href: 'status' }, 'agents'), '.')),
  ];
}
