package splice

import (
	"fmt"
	"slices"
)

var tomlTrivia = &bracket{comments: hashComment}

// tomlEnd returns the end of an expression with the comment on its line.
func (d *document) tomlEnd(i int) int { return tomlTrivia.tail(d.src, d.root.toml.all[i].end) }

// tomlKeysTo returns the keys of the first n segments of the path, without the names of items.
func (d *document) tomlKeysTo(n int) []string {
	var keys []string
	at := d.root
	for _, segment := range d.path[:n] {
		if at == nil || at.kind != list {
			keys = append(keys, segment)
		}
		if at != nil {
			at, _ = at.step(segment) // find has taken the same steps
		}
	}
	return keys
}

// body returns the last expression of the section that starts with expression i, -1 for the root.
func (d *document) body(i int) int {
	all := d.root.toml.all
	for i+1 < len(all) && !all[i+1].header {
		i++
	}
	return i
}

func (tomlLanguage) add(d *document, at *node, rest Path, v any) ([]patch, error) {
	there := len(d.path) - len(rest)
	if at.flow {
		b := bracketOf(at, hashComment)
		text := func(string, bool) string {
			if at.kind == list {
				return tomlText(v)
			}
			return tomlKey(rest[0]) + " = " + tomlText(wrap(rest[1:], v, TOML))
		}
		if at.kind == object && len(at.fields) == 0 {
			return []patch{{at.start, at.end - at.start, "{ " + text("", false) + " }"}}, nil
		}
		return b.add(d, false, text), nil
	}
	o, isTable := v.(Object)
	keys := d.tomlKeysTo(there)
	switch name, named1 := nameOf(rest[len(rest)-1]); {
	case at.kind == list:
		if !isTable || len(rest) > 1 {
			return nil, &Unproven{d.path, fmt.Sprintf("the list has no item %q", rest[0])}
		}
		return d.tomlAppend(at, d.tomlSection("[["+tomlHeader(keys)+"]]", o)), nil
	case named1 && isTable && len(rest) > 1:
		keys = append(keys, rest[:len(rest)-1]...)
		return d.tomlAppend(at, d.tomlSection("[["+tomlHeader(keys)+"]]", named(name, o).(Object))), nil
	}
	if at != d.root && len(at.toml.headers) == 0 && d.dotted(at) {
		exprs := at.exprs()
		last := exprs[len(exprs)-1]
		section := last
		for section >= 0 && !d.root.toml.all[section].header {
			section--
		}
		base := 0
		if section >= 0 {
			base = len(d.root.toml.all[section].keys)
		}
		line := tomlHeader(append(keys, rest...)[base:]) + " = " + tomlText(v)
		return []patch{{off: d.tomlEnd(last), ins: d.eol + indentOf(d.src, d.root.toml.all[last].start) + line}}, nil
	}
	if isTable {
		return d.tomlAppend(at, d.tomlSection("["+tomlHeader(append(keys, rest...))+"]", o)), nil
	}
	line := tomlKey(rest[len(rest)-1]) + " = " + tomlText(v)
	if len(rest) > 1 || at != d.root && len(at.toml.headers) == 0 {
		return d.tomlAppend(at, "["+tomlHeader(append(keys, rest[:len(rest)-1]...))+"]"+d.eol+line), nil
	}
	return d.tomlLine(at, line), nil
}

// dotted reports whether a table is made only of dotted keys.
func (d *document) dotted(n *node) bool {
	exprs := n.exprs()
	return len(exprs) > 0 && !slices.ContainsFunc(exprs, func(i int) bool { return d.root.toml.all[i].header })
}

// tomlLine plans a key in the section of a table, or above all sections.
func (d *document) tomlLine(at *node, line string) []patch {
	first := -1
	if at != d.root {
		first = at.toml.headers[0]
	}
	last := d.body(first)
	switch {
	case last >= 0:
		return []patch{{off: d.tomlEnd(last), ins: d.eol + indentOf(d.src, d.root.toml.all[last].start) + line}}
	case len(d.root.toml.all) == 0:
		return d.atEnd(line, d.eol)
	}
	return []patch{{ins: line + d.eol + d.eol}}
}

// tomlAppend plans a section after the sections of a table, or at the end of the document.
func (d *document) tomlAppend(at *node, section string) []patch {
	exprs := at.exprs()
	if at == d.root || len(exprs) == 0 {
		return d.atEnd(section, d.eol+d.eol)
	}
	last := d.body(exprs[len(exprs)-1])
	if last == len(d.root.toml.all)-1 {
		return d.atEnd(section, d.eol+d.eol)
	}
	return []patch{{off: d.tomlEnd(last), ins: d.eol + d.eol + section}}
}

// atEnd plans text after all that the document has, with a gap between.
func (d *document) atEnd(text, gap string) []patch {
	end := len(d.src)
	for end > 0 && (isBlank(d.src[end-1]) || d.src[end-1] == '\r' || d.src[end-1] == '\n') {
		end--
	}
	if end == 0 {
		if len(d.src) == 0 {
			text += d.eol
		}
		return []patch{{ins: text}}
	}
	return []patch{{off: end, ins: gap + text}}
}

// runs returns the lines of a node: a run for each group of expressions that follow each other.
func (d *document) runs(n *node) (slots []patch, starts []int) {
	exprs := n.exprs()
	for len(exprs) > 0 {
		k := 1
		for k < len(exprs) && exprs[k] == exprs[k-1]+1 {
			k++
		}
		first := d.root.toml.all[exprs[0]]
		slots = append(slots, lineSlot(d.src, first.start, d.tomlEnd(exprs[k-1]), first.header || lineStart(d.src, first.start) == 0))
		starts = append(starts, first.start)
		exprs = exprs[k:]
	}
	return slots, starts
}

func (tomlLanguage) replace(d *document, chain []*node, v any) ([]patch, error) {
	n := chain[len(chain)-1]
	if n.placed() {
		return []patch{{n.start, n.end - n.start, tomlText(v)}}, nil
	}
	o, ok := v.(Object)
	if !ok || n.kind == list {
		return nil, &Unproven{d.path, "tables are in its place"}
	}
	slots, starts := d.runs(n)
	keys := d.tomlKeysTo(len(d.path))
	text := d.tomlSection("["+tomlHeader(keys)+"]", o)
	if chain[len(chain)-2].kind == list {
		text = d.tomlSection("[["+tomlHeader(keys)+"]]", o)
	}
	if len(starts) == 0 || len(n.toml.headers) == 0 && d.dotted(n) {
		return nil, &Unproven{d.path, "dotted keys make it"}
	}
	slots[0] = patch{starts[0], slots[0].off + slots[0].del - starts[0], text}
	if lineStart(d.src, starts[0]) == 0 {
		slots[0].ins += d.eol
	}
	return slots, nil
}

func (tomlLanguage) cut(d *document, chain []*node) ([]patch, error) {
	n, parent := chain[len(chain)-1], chain[len(chain)-2]
	if parent.flow {
		return bracketOf(parent, hashComment).cut(d, childIndex(parent, n)), nil
	}
	slots, _ := d.runs(n)
	if len(slots) == 0 {
		return nil, &Unproven{d.path, "no line of its own makes it"}
	}
	return slots, nil
}
