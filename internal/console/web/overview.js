// The gateway as a whole and what is behind it.
import { get } from './api.js';
import { el, numberText, pages, savedText, table, timeText } from './dom.js';

let offset = 0;

const fact = (name, value) => el('div', {}, el('dt', {}, name), el('dd', {}, value));

export async function show(at, context) {
  const data = await get('overview', { offset });
  context.summary(`${data.name} ${data.version}: ${data.status}, up ${timeText(data.uptime)}, ${data.mode} mode`);
  const { usage } = data;
  at.replaceChildren(
    el('dl', { class: 'facts' },
      fact('State', el('span', { class: data.status }, data.status)), fact('Up', timeText(data.uptime)), fact('Mode', data.mode), fact('Version', data.version),
      fact('Tools', numberText(data.tools)), fact('Resources', numberText(data.resources)), fact('Prompts', numberText(data.prompts))),
    el('h2', {}, usage.own ? 'What your open sessions cost' : 'What calls cost so far'),
    el('dl', { class: 'facts' },
      fact('Sessions', numberText(usage.sessions)), fact('Calls', numberText(usage.calls)), fact('Failed', numberText(usage.failed)),
      fact('Tokens read', numberText(usage.tokens_read)), fact('Without weir', numberText(usage.tokens_raw)),
      fact('Saved', `${numberText(Math.max(0, usage.tokens_raw - usage.tokens_read))} (${savedText(usage.tokens_read, usage.tokens_raw)})`)),
    usage.pending ? el('p', { class: 'soft' }, `${numberText(usage.pending)} results are still being counted.`) : '',
    el('h2', {}, 'Servers behind it'),
    data.page.total === 0
      ? el('p', {}, 'None yet. Add one to mcpServers in the configuration; it starts as soon as the file is saved.')
      : table(
        [['Server'], ['State'], ['For', 'number'], ['Speaks'], ['Is'], ['Tools', 'number'], ['In flight', 'number'], ['Calls', 'number'], ['Errors', 'number'], ['Restarts', 'number']],
        data.upstreams.map((up) => [
          up.name, el('span', {}, el('span', { class: up.state }, up.state), up.error ? el('div', { class: 'soft' }, up.error) : ''),
          up.since ? timeText((Date.now() - Date.parse(up.since)) / 1000) : '', [up.transport, up.protocol].filter(Boolean).join(', '), [up.server, up.version].filter(Boolean).join(' '),
          ...[up.tools, up.in_flight, up.calls, up.errors, up.restarts].map(numberText),
        ])),
    pages(data.page, (to) => { offset = to; context.again(); }) ?? '',
  );
}
