// Forms of JSON Schemas. A form gives JSON as a text, so that a number of any size keeps its digits. What a schema says that
// has no field of its own is entered as JSON.
import { button, el, pretty, soft } from './dom.js';

const maxDepth = 6;
let ids = 0;
let completing; // of the form that is being made: complete(name, value, others) returns suggestions

// secretName says that a value of this name may be a secret.
export const secretName = (name) => /passw|secret|api[_-]?key|credential|private[_-]?key|authorization|(access|auth|bearer|refresh)[_-]?token|^token$/i.test(name);

// schemaOf reads a schema and keeps the spelling of its numbers.
export const schemaOf = (text) => JSON.parse(text);

// resolved follows $ref within the schema and merges allOf.
function resolved(schema, root, depth = 0) {
  let one = schema === true || schema === undefined || schema === null ? {} : schema;
  for (let i = 0; one.$ref && i < 8; i++) {
    const { $ref, ...rest } = one;
    let at = root;
    if (!$ref.startsWith('#')) return rest;
    for (const part of $ref.slice(1).split('/').filter(Boolean)) at = at?.[decodeURIComponent(part).replaceAll('~1', '/').replaceAll('~0', '~')];
    one = { ...(at ?? {}), ...rest };
  }
  if (Array.isArray(one.allOf) && depth < maxDepth) {
    const { allOf, ...rest } = one;
    for (const part of allOf.map((each) => resolved(each, root, depth + 1))) {
      one = { ...part, ...rest, properties: { ...part.properties, ...rest.properties }, required: [...(part.required ?? []), ...(rest.required ?? [])] };
      Object.assign(rest, one);
    }
    one = rest;
  }
  return one;
}

// alternatives are the kinds of values that a schema allows, each a schema with a name.
function alternatives(schema, root) {
  const several = schema.anyOf ?? schema.oneOf;
  if (Array.isArray(several)) {
    const { anyOf, oneOf, ...rest } = schema;
    return several.map((each, i) => {
      const one = resolved(each, root);
      const merged = schema.properties ? { ...rest, ...one, properties: { ...rest.properties, ...one.properties }, required: [...(rest.required ?? []), ...(one.required ?? [])] } : one;
      return [one.title ?? (one.const !== undefined ? JSON.stringify(one.const) : undefined) ?? (schema.properties && one.required ? one.required.join(', ') : undefined) ?? one.type ?? `form ${i + 1}`, merged];
    });
  }
  if (Array.isArray(schema.type)) return schema.type.map((type) => [type, { ...schema, type }]);
  return undefined;
}

// field makes a field: node is its element, raw() its JSON text, undefined if nothing is to be sent, set(value) takes a value.
function field(given, root, label, required, depth) {
  const schema = resolved(given, root);
  if (depth > maxDepth) return text(schema, label, required, true);
  const several = alternatives(schema, root);
  if (several) return choice(schema, several, root, label, required, depth);
  if (schema.const !== undefined) return options(schema, [schema.const], label, required);
  if (Array.isArray(schema.enum)) return options(schema, schema.enum, label, required);
  switch (schema.type ?? (schema.properties ? 'object' : undefined)) {
    case 'object': return schema.properties ? object(schema, root, label, required, depth) : text(schema, label, required, true, '{}');
    case 'array': return array(schema, root, label, required, depth);
    case 'boolean': return options(schema, [true, false], label, required);
    case 'null': return { node: soft(label, ' null'), raw: () => 'null', set() {} };
    case 'string': case 'integer': case 'number': return text(schema, label, required, false);
  }
  return text(schema, label, required, true);
}

const about = (schema, id) => (schema.description ? el('p', { class: 'soft', id: `${id}-about` }, schema.description) : '');

const named = (label, required, id) => el('label', { for: id }, label || 'value', required ? el('span', { class: 'need' }, ' needed') : '');

const hint = (schema) => [schema.type === 'integer' || schema.type === 'number' ? schema.type : schema.format, schema.minimum !== undefined ? `from ${schema.minimum}` : '', schema.maximum !== undefined ? `to ${schema.maximum}` : '',
  schema.default !== undefined ? `${JSON.stringify(schema.default)} if left out` : ''].filter(Boolean).join(', ');

const isNumber = (value) => /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(value);

// text is a string, a number, or JSON if asJSON is set. An empty field is not sent unless it is needed.
function text(schema, label, required, asJSON, start = '') {
  const id = `field-${++ids}`;
  const long = asJSON || schema.maxLength > 200 || /text|content|body|query|sql|code/i.test(label);
  const number = schema.type === 'integer' || schema.type === 'number';
  const hidden = !number && !asJSON && (schema.format === 'password' || schema.writeOnly === true || secretName(label));
  const area = long && !number && !hidden;
  const suggest = completing && !area && !number && !hidden ? el('datalist', { id: `${id}-list` }) : undefined;
  const input = el(area ? 'textarea' : 'input', { id, type: hidden ? 'password' : undefined, list: suggest?.id, rows: area ? (asJSON ? 4 : 2) : undefined, spellcheck: 'false', autocomplete: 'off', placeholder: asJSON ? 'JSON' : hint(schema), inputmode: number ? 'decimal' : undefined, 'aria-describedby': schema.description ? `${id}-about` : undefined });
  input.value = start;
  if (suggest) suggestions(input, suggest, label, completing);
  return {
    node: el('div', { class: 'field' }, named(label, required, id), about(schema, id), input, suggest ?? ''),
    raw() {
      const value = input.value;
      if (asJSON) {
        if (value.trim() === '') return required ? (schema.type === 'object' ? '{}' : 'null') : undefined;
        try { JSON.parse(value); } catch (error) { throw new Error(`${label || 'The value'} is no JSON: ${error.message}`, { cause: input }); }
        return value.trim();
      }
      if (number) {
        const trimmed = value.trim();
        if (trimmed === '' && !required) return undefined;
        if (!isNumber(trimmed) || (schema.type === 'integer' && /[.eE]/.test(trimmed))) throw new Error(`${label} must be ${schema.type === 'integer' ? 'a whole number' : 'a number'}.`, { cause: input });
        return trimmed;
      }
      return value === '' && !required ? undefined : JSON.stringify(value);
    },
    set(value) { input.value = asJSON ? (value === undefined ? '' : pretty(spell(value))) : value === undefined ? '' : value instanceof Exact ? value.text : String(value); },
  };
}

// suggestions fills the list of a field with what the server suggests, as a person types.
function suggestions(input, list, name, complete) {
  let timer, asked = 0;
  const ask = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++asked;
      const all = await complete(name, input.value).catch(() => []);
      if (mine === asked) list.replaceChildren(...all.slice(0, 100).map((value) => el('option', { value: String(value) })));
    }, 150);
  };
  input.addEventListener('focus', ask);
  input.addEventListener('input', ask);
}

// options is a value of a fixed list.
function options(schema, all, label, required) {
  const id = `field-${++ids}`;
  const select = el('select', { id, 'aria-describedby': schema.description ? `${id}-about` : undefined }, required ? '' : el('option', { value: '' }, 'not sent'),
    all.map((value, i) => el('option', { value: String(i) }, typeof value === 'string' ? value : JSON.stringify(value))));
  if (required && schema.default !== undefined && all.indexOf(schema.default) >= 0) select.value = String(all.indexOf(schema.default));
  return {
    node: el('div', { class: 'field' }, named(label, required, id), about(schema, id), select),
    raw: () => (select.value === '' ? undefined : JSON.stringify(all[Number(select.value)])),
    set(value) {
      const i = all.findIndex((one) => JSON.stringify(one) === spell(value));
      select.value = value === undefined ? '' : i < 0 ? select.value : String(i);
    },
  };
}

// choice is a value of one of several kinds.
function choice(schema, several, root, label, required, depth) {
  const id = `field-${++ids}`;
  const select = el('select', { id }, required ? '' : el('option', { value: '' }, 'not sent'), several.map(([name], i) => el('option', { value: String(i) }, name)));
  const at = el('div', { class: 'inner' });
  let now;
  const take = () => {
    now = select.value === '' ? undefined : field(several[Number(select.value)][1], root, label, true, depth + 1);
    at.replaceChildren(...(now ? [now.node] : []));
  };
  select.addEventListener('change', take);
  take();
  return {
    node: el('div', { class: 'field' }, el('label', { for: id }, label ? `${label}: kind` : 'Kind', required ? el('span', { class: 'need' }, ' needed') : ''), about(schema, id), select, at),
    raw: () => now?.raw(),
    set(value) {
      const i = value === undefined ? -1 : several.findIndex(([, one]) => fits(one, value));
      select.value = value === undefined ? '' : String(Math.max(0, i));
      take();
      if (value !== undefined) now?.set(value);
    },
  };
}

const kindOf = (value) => (value === null ? 'null' : value instanceof Exact ? 'number' : Array.isArray(value) ? 'array' : typeof value);

function fits(schema, value) {
  const kind = kindOf(value);
  if (schema.const !== undefined) return JSON.stringify(schema.const) === spell(value);
  if (schema.enum) return schema.enum.some((one) => JSON.stringify(one) === spell(value));
  if (kind === 'object' && schema.required) return schema.required.every((name) => name in value);
  return schema.type === undefined || schema.type === kind || (schema.type === 'integer' && kind === 'number');
}

// object has the needed members first.
function object(schema, root, label, required, depth) {
  const needed = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties).sort(([a], [b]) => Number(needed.has(b)) - Number(needed.has(a))).map(([name, one]) => [name, field(one, root, name, needed.has(name), depth + 1)]);
  return {
    node: label ? el('fieldset', { class: 'field' }, el('legend', {}, label), about(schema, 'x'), members.map(([, one]) => one.node)) : el('div', {}, members.map(([, one]) => one.node)),
    raw() {
      const parts = members.map(([name, one]) => [name, one.raw()]).filter(([, value]) => value !== undefined).map(([name, value]) => `${JSON.stringify(name)}:${value}`);
      return parts.length || required || !label ? `{${parts.join(',')}}` : undefined;
    },
    set(value) { for (const [name, one] of members) one.set(value && kindOf(value) === 'object' ? value[name] : undefined); },
  };
}

// array has a field for each element.
function array(schema, root, label, required, depth) {
  const items = [];
  const list = el('div', {});
  const add = () => {
    const one = field(schema.items, root, `${label} ${items.length + 1}`, true, depth + 1);
    const row = el('div', { class: 'item' }, one.node, button({ class: 'quiet', click: () => { items.splice(items.indexOf(one), 1); row.remove(); } }, 'Remove'));
    items.push(one);
    list.append(row);
    return one;
  };
  return {
    node: el('fieldset', { class: 'field' }, el('legend', {}, label || 'Elements', required ? el('span', { class: 'need' }, ' needed') : ''), about(schema, 'x'), list, button({ class: 'quiet', click: () => add().node.querySelector('input, textarea, select')?.focus() }, 'Add an element')),
    raw: () => (items.length || required ? `[${items.map((one) => one.raw() ?? 'null').join(',')}]` : undefined),
    set(value) {
      items.length = 0;
      list.replaceChildren();
      for (const one of Array.isArray(value) ? value : []) add().set(one);
    },
  };
}

// Exact is a number with its spelling.
class Exact { constructor(text) { this.text = text; } }

// exactly reads JSON and keeps the spelling of numbers.
export const exactly = (text) => JSON.parse(text, /** @type {any} */ ((_key, value, context) => (typeof value === 'number' ? new Exact(context?.source ?? String(value)) : value)));

// spell is the JSON text of a value of exactly.
export function spell(value) {
  if (value instanceof Exact) return value.text;
  if (Array.isArray(value)) return `[${value.map(spell).join(',')}]`;
  if (value && typeof value === 'object') return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}:${spell(one)}`).join(',')}}`;
  return JSON.stringify(value);
}

// form makes a form of a schema, which can be entered as JSON as well at any time. raw() is the JSON text of the arguments,
// and set() takes such a text. complete(name, value), if there is one, suggests values of strings.
export function form(schema, complete) {
  const root = schema && typeof schema === 'object' ? schema : {};
  const top = resolved(root, root);
  completing = complete;
  const fields = top.properties || alternatives(top, root) ? field(top, root, '', true, 0) : undefined;
  completing = undefined;
  const json = el('textarea', { rows: '8', spellcheck: 'false', 'aria-label': 'Arguments as JSON' });
  let asJSON = fields === undefined;
  json.value = '{}';
  const toggle = button({ class: 'quiet', click: () => {
    if (asJSON) fields.set(exactly(json.value)); else json.value = pretty(fields.raw());
    asJSON = !asJSON;
    place();
  } });
  const problem = el('p', { class: 'bad', role: 'alert' });
  const at = el('div', {});
  const place = () => {
    toggle.textContent = asJSON ? 'As a form' : 'As JSON';
    at.replaceChildren(asJSON ? json : fields.node);
  };
  place();
  const guarded = (work) => {
    try { problem.textContent = ''; return work(); } catch (error) { problem.textContent = error.message; error.cause?.focus?.(); return undefined; }
  };
  toggle.work.click = ((work) => () => guarded(work))(toggle.work.click);
  return {
    node: el('div', { class: 'form' }, fields ? toggle : '', fields || Object.keys(top).length > 1 ? '' : soft('It takes no arguments that it names.'), at, problem),
    raw: () => guarded(() => {
      if (!asJSON) return fields.raw();
      exactly(json.value);
      return json.value.trim();
    }),
    peek: () => { try { return asJSON ? JSON.parse(json.value) : JSON.parse(fields.raw()); } catch { return {}; } },
    set: (raw) => guarded(() => { if (asJSON) json.value = pretty(raw); else fields.set(exactly(raw)); }),
  };
}
