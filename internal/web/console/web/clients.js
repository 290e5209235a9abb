// How clients reach the gateway: those of this machine, its address, and what to paste into each client.
import { change, get, post } from './api.js';
import { aside, button, card, code, countText, el, heading, inRow, soft, table } from './dom.js';
import { finish, planRows, told } from './edit.js';

let planning; // a change that is planned: what is sent, the plan, and whether it is being made

export async function load(_route, context) {
  const [setup, mine] = await Promise.all([get('setup'), context.me.owns ? get('clients') : undefined]);
  return { ...setup, mine: mine?.clients };
}

export function view(data, context) {
  return [
    heading('Clients', 'Connect an agent or an editor to this gateway'), told(context),
    card('The address', code(data.url, 'The address for MCP clients', 'command'), data.tokens ? soft('Clients need a bearer token here. Ask the operator of this gateway for one.') : ''),
    data.mine ? machine(data.mine, context) : card('The quick way', el('p', {}, 'On the machine of the client this finds the installed clients, shows the plan, and changes their files. ', el('code', {}, 'weir undo'), ' takes it back.'), code('weir connect', 'The command', 'command'),
      soft(context.me.operates ? 'The clients of the gateway’s machine are here for the user who runs it alone, because weir changes that user’s files: enter a code of weir open.' : 'The user who runs the gateway connects the clients of its machine here.', ' ',
        context.me.operates ? '' : button({ class: 'quiet', click: context.operate }, 'Operate'))),
    ...data.snippets.map((one) => card(one.client, soft(one.where), code(one.text, `What to paste into ${one.client}`, 'command'))),
  ];
}

const marks = { wired: ['●', 'ok', 'connected'], 'not wired': ['○', 'soft', 'not connected'], 'no file': ['○', 'soft', 'no file yet'], paste: ['○', 'soft', 'paste by hand'], unreadable: ['▲', 'bad', 'unreadable'] };

// machine lists the clients of the user who runs the gateway.
function machine(all, context) {
  const act = (client) => {
    if (client.state === 'paste' || client.state === 'unreadable') return '';
    const [kind, text] = client.state === 'wired' ? ['disconnect', 'Disconnect'] : ['connect', 'Connect'];
    return button({ class: 'quiet', 'aria-label': `${text} ${client.name}`, click: () => plan({ do: kind, clients: [client.id] }, `${client.name} is ${kind}ed.`, context) }, `${text}…`);
  };
  return card('On this machine', all.length === 0 ? el('p', {}, 'No MCP client was found. ', el('code', {}, 'weir clients --all'), ' lists those that weir knows.')
    : table([['Client', 'name'], ['State'], ['Its servers', 'number'], ['File'], ['Change']], all.map((one) => ({ key: `${one.id} ${one.file}`, cells: [
      one.name, el('div', {}, state(one), one.error ? el('div', { class: 'soft clip' }, one.error) : '', one.hearsay ? el('div', { class: 'soft' }, 'known from third parties alone') : ''), String(one.servers), el('code', {}, one.file ?? ''), act(one),
    ] })), 'Clients of this machine'),
  inRow(button({ click: () => plan({ do: 'import' }, 'The servers of clients are imported.', context) }, 'Import the servers of all…'), aside('Connect puts weir in the place of the client’s servers. Import copies them. Each shows its plan first.')),
  planning ? wiringPlan(context) : '');
}

const state = (client) => {
  const [mark, kind, text] = marks[client.state] ?? ['○', 'soft', client.state];
  return el('span', { class: kind }, el('span', { 'aria-hidden': 'true' }, `${mark} `), text);
};

// plan plans a change of clients and shows it.
export async function plan(wiring, text, context) {
  planning = undefined;
  await context.run(async () => { planning = { wiring, text, plan: await post('clients', { ...wiring, plan: true }) }; });
  context.draw();
  document.getElementById('wire')?.focus();
}

const names = (sign, all, what) => (all.length ? el('div', {}, `${sign} ${all.join(', ')}`, what ? aside(` ${what}`) : '') : '');

// wiringPlan shows what a change of clients does, and makes it.
export function wiringPlan(context) {
  const { plan: said, busy } = planning;
  const nothing = said.adds.length + said.files.length === 0;
  return el('section', { class: 'outcome', 'aria-label': 'The plan' }, planRows(said),
    said.files.length ? [el('h2', {}, 'Files of clients'), el('ul', { class: 'rows' }, said.files.map((one) => el('li', {}, el('code', {}, one.file), one.new ? aside(' (new)') : '',
      names('+', one.adds), names('−', one.takes, 'is taken out'), names('+', one.brings, 'as before'))))] : '',
    said.advice.map((one) => soft(one)),
    nothing ? el('p', { role: 'status' }, 'There is nothing to change.') : '',
    inRow(nothing ? '' : button({ id: 'wire', class: 'primary', disabled: busy, click: () => wire(context) }, busy ? 'Changing, and looking whether it lasts…' : `Change ${countText(said.files.length + (said.adds.length ? 1 : 0), 'file')}`),
      button({ disabled: busy, click: () => { planning = undefined; context.draw(); } }, 'Cancel')));
}

async function wire(context) {
  const mine = planning;
  mine.busy = true;
  context.draw();
  await context.run(async () => {
    const answer = await change('POST', 'clients', mine.wiring, mine.plan.tag).catch(async (error) => {
      if (error.status === 409) mine.plan = await post('clients', { ...mine.wiring, plan: true });
      throw error;
    });
    planning = undefined;
    await finish(mine.text, { ...answer, notes: [...answer.notes, ...answer.advice] });
  });
  mine.busy = false;
  return context.refresh();
}

// importing is whether an import is planned, for the page that begins.
export const importing = () => planning?.wiring.do === 'import';
