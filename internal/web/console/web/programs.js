// Programs: many calls in one, as tool_run runs them. The calls are seen as they happen; the page Calls has each of them.
import { el, heading } from './dom.js';
import { tryIt } from './try.js';

const example = `// In scope: call(tool_id, args), tools.SERVER.TOOL(args), find(query), open(handle), input, log(…).
const found = await find('list files');
return found.map((tool) => [tool.tool_id, tool.signature]);
`;

let mine; // the program of this page and what came of it

// entry is the form of a program, in the shape that tryIt wants.
function entry() {
  const source = el('textarea', { id: 'program', class: 'code', rows: '14', spellcheck: 'false', autocomplete: 'off', 'aria-label': 'The program' });
  source.value = example;
  const input = el('input', { id: 'program-input', placeholder: '{"day":"2026-11-27"}', 'aria-label': 'The variable input, as JSON', spellcheck: 'false' });
  const resume = el('input', { id: 'program-resume', placeholder: 'run_…, or last', 'aria-label': 'Go on with a run', spellcheck: 'false' });
  const wrong = el('p', { class: 'bad', role: 'alert' });
  const node = el('div', {}, source, el('p', { class: 'row' }, el('label', {}, 'input ', input), el('label', {}, 'resume ', resume)), wrong);
  const raw = () => {
    const text = input.value.trim();
    wrong.textContent = '';
    try {
      if (text) JSON.parse(text);
    } catch {
      wrong.textContent = 'The input must be JSON.';
      input.focus();
      return undefined;
    }
    const parts = [`"program":${JSON.stringify(source.value)}`];
    if (text) parts.push(`"input":${text}`); // as written: its numbers keep their digits
    if (resume.value.trim()) parts.push(`"resume":${JSON.stringify(resume.value.trim())}`);
    return `{${parts.join(',')}}`;
  };
  return { id: 'program', name: 'Program', kind: 'program', how: 'agent', heard: [], form: { node, raw }, tool: 'tool_run', params: (text) => text };
}

export async function load() {
  mine ??= entry();
  return {};
}

export function view(_data, context) {
  return [
    heading('Programs', 'JavaScript that calls tools with your rights: each call is judged, and listed at Calls.'),
    tryIt(mine, { id: 'program', kind: 'program' }, context),
  ];
}

export const live = true; // a program that runs must not be drawn away
