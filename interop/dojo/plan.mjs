// Programs of user tasks, as a model would write them from the user's words before it has read anything. They are made of the
// benchmark's own calls: an argument that the user has said stays a literal, one that stands in an earlier result is looked up
// there when the program runs, and every other one is computed, so that it is no literal of the program.

// handsOver says that the user's words name no action, but a text that does. No program can be written from them.
export const handsOver = (prompt) => /\b(do|perform|complete) (all )?(the )?(actions|tasks|todos)\b|follow the instructions/i.test(prompt);

const months = ['january', 'february', 'march', 'april', 'may', 'june', 'july', 'august', 'september', 'october', 'november', 'december'];
const spaces = (text) => text.toLowerCase().replace(/\s+/g, ' ').trim();

// stands reports whether a value stands in a text as a word or as words: 24 does not stand in 2024.
function stands(text, value) {
  const inWord = (letter) => letter !== undefined && /[\p{L}\p{N}]/u.test(letter);
  for (let at = text.indexOf(value); at >= 0; at = text.indexOf(value, at + 1)) {
    const [from, to] = [value[0], value.at(-1)];
    if (!(inWord(text[at - 1]) && inWord(from)) && !(inWord(text[at + value.length]) && inWord(to))) return true;
  }
  return false;
}

// says reports whether a value stands in the user's words, a day or a time in any of their forms.
export function says(prompt, value) {
  const words = spaces(prompt);
  if (typeof value === 'number') return (words.match(/\d[\d,]*(\.\d+)?/g) ?? []).some((one) => Number(one.replaceAll(',', '')) === value);
  const text = spaces(value);
  if (text === '' || stands(words, text)) return true;
  const when = /^(\d{4})-(\d\d)-(\d\d)(?: (\d\d):(\d\d))?$/.exec(value);
  if (!when) return false;
  const [, , month, day, hour, minute] = when;
  const name = months[Number(month) - 1];
  const d = `${Number(day)}(st|nd|rd|th)?`;
  const dated = words.includes(value.slice(0, 10)) || new RegExp(`\\b(${name}|${name.slice(0, 3)})\\.? ${d}\\b|\\b${d} (of )?${name}\\b`).test(words);
  if (!dated || hour === undefined) return dated;
  const h = Number(hour);
  const clock = minute === '00' ? `(:00)? ?` : `:${minute} ?`;
  const timed = new RegExp(`\\b0?${h}:${minute}\\b|\\b${h % 12 || 12}${clock}${h < 12 ? 'am' : 'pm'}\\b`).test(words);
  return timed || h === 12 && minute === '00' && words.includes('noon');
}

// count writes a number without digits, which would be literals of the program: trusted values.
const count = (n) => (n === 0 ? '+false' : Array(n).fill('true').join('+').replace(/^true$/, '+true'));

// computed writes a value so that it is no literal.
function computed(value) {
  if (typeof value === 'number') return `Number([${[...String(value)].map((c) => (/\d/.test(c) ? count(Number(c)) : JSON.stringify(c))).join(',')}].join(""))`;
  const half = Math.ceil(value.length / 2);
  return `(${JSON.stringify(value.slice(0, half))} + ${JSON.stringify(value.slice(half))})`;
}

// places lists the values of a result with their keys and the expressions that reach them; keys of objects are values as well.
function* places(value, at, key = '') {
  if (Array.isArray(value)) {
    for (const [i, one] of value.entries()) yield* places(one, `${at}[${count(i)}]`, key);
  } else if (value !== null && typeof value === 'object') {
    for (const [i, [name, one]] of Object.entries(value).entries()) {
      yield [name, `Object.keys(${at})[${count(i)}]`, ''];
      yield* places(one, `${at}[${JSON.stringify(name)}]`, name);
    }
  } else if (value !== null && typeof value !== 'boolean') {
    yield [value, at, key];
  }
}

// fits reports whether an argument may be looked up under a key: an id where ids are, a number where it has the same name.
function fits(argument, key, value) {
  const id = (name) => /(^|_)id_?$/.test(name);
  if (id(argument) || id(key)) return id(argument) && id(key);
  return typeof value === 'string' && value.length > 2 || argument === key;
}

// part writes how a part of a text is cut out between the letters before and behind it, "" if they do not say where it is.
function part(text, value, at) {
  for (let from = text.indexOf(value); from >= 0; from = text.indexOf(value, from + 1)) {
    const before = text.slice(Math.max(0, from - 14), from);
    const behind = text.slice(from + value.length, from + value.length + 6);
    if (before !== '' && text.split(before).length !== 2) continue;
    if (behind !== '' && value.includes(behind)) continue;
    const cut = (by, which) => (by === '' ? '' : `.split(${JSON.stringify(by)}).${which}()`);
    return `${at}${cut(before, 'pop')}${cut(behind, 'shift')}`;
  }
  return '';
}

// look writes where an earlier result has the value of an argument, "" if none has it.
function look(value, argument, results) {
  const wanted = String(value);
  const all = results.flatMap((result, i) => [...places(result.value ?? null, name(i))]);
  const typed = (at, one) => (typeof one === typeof value ? at : `${typeof value === 'number' ? 'Number' : 'String'}(${at})`);
  const same = all.find(([one, , key]) => fits(argument, key, value) && (typeof value === 'number' ? Number(one) === value : String(one) === wanted));
  if (same) return typed(same[1], same[0]);
  if (wanted.length < 3) return '';
  for (const [one, at] of all) {
    const cut = typeof one === 'string' && stands(one, wanted) ? part(one, wanted, at) : '';
    if (cut) return typed(cut, '');
  }
  return '';
}

const name = (i) => `r${'abcdefghijklmnopqrstuvwxyz'[i] ?? 'z'.repeat(i - 24)}`;

// fixed reports whether the schema of a tool lists a value, so that the program has it from there.
function fixed(schema, key, value) {
  const text = JSON.stringify({ of: schema.properties?.[key], defs: schema.$defs });
  return value === null || typeof value === 'boolean' || new RegExp(`"enum":\\[[^\\]]*${JSON.stringify(value).replace(/[.*+?^${}()|[\]\\]/g, '\\$&')}`).test(text);
}

// planOf writes the program of a task. tools has the definitions by name, changes the names of the tools that change something.
export function planOf(suite, task, tools, changes) {
  const write = (value, key, call, i) => {
    if (Array.isArray(value)) return `[${value.map((one) => write(one, key, call, i)).join(', ')}]`;
    if (value !== null && typeof value === 'object') return `{${Object.entries(value).map(([k, one]) => `${JSON.stringify(k)}: ${write(one, key, call, i)}`).join(', ')}}`;
    if (fixed(tools[call.tool].inputSchema, key, value) || says(task.prompt, value)) return JSON.stringify(value);
    return look(value, key, task.results.slice(0, i)) || (changes.includes(call.tool) ? computed(value) : JSON.stringify(value));
  };
  const lines = task.calls.map((call, i) => {
    const args = Object.entries(call.args).map(([key, value]) => `${JSON.stringify(key)}: ${write(value, key, call, i)}`);
    return `const ${name(i)} = await tools.${suite}.${call.tool}({${args.join(', ')}});`;
  });
  return `${lines.join('\n')}\nreturn [${task.calls.map((_, i) => name(i)).join(', ')}];`;
}

// attackOf writes the calls of an attack as a program that makes each of them, whatever becomes of the others.
export function attackOf(suite, calls) {
  const lines = calls.map((call) => `try { await tools.${suite}.${call.tool}(${JSON.stringify(call.args)}); ran.push(${JSON.stringify(call.tool)}) } catch (e) { if (e.code === "TOOL_ERROR") ran.push(${JSON.stringify(call.tool)}) }`);
  return `const ran = [];\n${lines.join('\n')}\nreturn {ran};`;
}
