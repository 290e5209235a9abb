package splice

import (
	"fmt"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v3"
)

var plainYAML = regexp.MustCompile(`^[A-Za-z_/][A-Za-z0-9_./-]*$`)

// yamlString writes a string, with quotes where it could be read as something else.
func yamlString(s string) string {
	if !plainYAML.MatchString(s) {
		return quote(s)
	}
	switch strings.ToLower(s) {
	case "y", "n", "yes", "no", "on", "off", "true", "false", "null":
		return quote(s)
	}
	if (&yaml.Node{Kind: yaml.ScalarNode, Value: s}).ShortTag() != "!!str" {
		return quote(s)
	}
	return s
}

// yamlFlow writes a value in one line.
func yamlFlow(v any) string {
	var parts []string
	switch v := v.(type) {
	case Object:
		for _, m := range v {
			parts = append(parts, yamlString(m.Key)+": "+yamlFlow(m.Value))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, yamlFlow(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case string:
		return yamlString(v)
	}
	return scalarText(v)
}

// yamlStep returns one step of indentation, which tabs cannot be.
func (d *document) yamlStep() string {
	if strings.ContainsRune(d.unit, '\t') {
		return "  "
	}
	return d.unit
}

// yamlValue writes a value after the colon of a key with an indentation.
func (d *document) yamlValue(v any, indent string) string {
	inner := indent + d.yamlStep()
	switch x := v.(type) {
	case Object:
		if len(x) > 0 {
			return d.eol + inner + d.yamlMembers(x, inner)
		}
	case []any:
		out := ""
		for _, item := range x {
			out += d.eol + inner + d.yamlItem(item, inner)
		}
		if len(x) > 0 {
			return out
		}
	}
	return " " + yamlFlow(v)
}

// yamlMembers writes members with an indentation, which the first one has already.
func (d *document) yamlMembers(o Object, indent string) string {
	var parts []string
	for _, m := range o {
		parts = append(parts, yamlString(m.Key)+":"+d.yamlValue(m.Value, indent))
	}
	return strings.Join(parts, d.eol+indent)
}

// yamlItem writes an item of a list with its dash.
func (d *document) yamlItem(v any, indent string) string {
	if o, ok := v.(Object); ok && len(o) > 0 {
		return "- " + d.yamlMembers(o, indent+"  ")
	}
	return "- " + yamlFlow(v)
}

func (yamlLanguage) add(d *document, at *node, rest Path, v any) ([]patch, error) {
	name, selects := nameOf(rest[0])
	if at.kind == list && len(rest) > 1 {
		return nil, &Unproven{d.path, fmt.Sprintf("the list has no item %q", name)}
	}
	whole := v // with the parents that are missing
	if at.kind != list {
		whole = wrap(rest, v, YAML)
	}
	empty := len(at.fields)+len(at.items) == 0
	if empty && at.yaml.colon > 0 {
		indent := strings.Repeat(" ", d.keyColumn(at))
		text := d.yamlValue(whole, indent)
		if at.kind == list {
			text = d.yamlValue([]any{v}, indent)
		}
		end := max(at.end, at.yaml.colon)
		if end == at.yaml.colon {
			return []patch{{off: lineEnd(d.src, end), ins: text}}, nil
		}
		return []patch{{off: at.yaml.colon, del: end - at.yaml.colon}, {off: lineEnd(d.src, end), ins: text}}, nil
	}
	if at.flow {
		return bracketOf(at, hashComment).add(d, false, func(string, bool) string {
			if at.kind == list {
				return yamlFlow(v)
			}
			o, _ := whole.(Object)
			return strings.TrimSuffix(strings.TrimPrefix(yamlFlow(o), "{"), "}")
		}), nil
	}
	if at == d.root && empty {
		o, ok := whole.(Object)
		if !ok || selects || at.placed() || at.kind != object {
			return nil, &Unproven{d.path, "the document is no mapping"}
		}
		return d.atEnd(d.yamlMembers(o, ""), d.eol), nil
	}
	indent := strings.Repeat(" ", at.yaml.column)
	text := ""
	switch o, ok := whole.(Object); {
	case at.kind == list:
		text = d.yamlItem(v, indent)
	case ok && !empty:
		text = d.yamlMembers(o, indent)
	default:
		return nil, &Unproven{d.path, "its parent is no mapping"}
	}
	return []patch{{off: lineEnd(d.src, at.end), ins: d.eol + indent + text}}, nil
}

// keyColumn returns the column of the key that a node is the value of.
func (d *document) keyColumn(n *node) int {
	column := 0
	var walk func(parent *node) bool
	walk = func(parent *node) bool {
		for _, f := range parent.fields {
			if f.value == n {
				column = parent.yaml.column
				return true
			}
			if walk(f.value) {
				return true
			}
		}
		for _, item := range parent.items {
			if walk(item) {
				return true
			}
		}
		return false
	}
	walk(d.root)
	return column
}

func (yamlLanguage) replace(d *document, chain []*node, v any) ([]patch, error) {
	n, parent := chain[len(chain)-1], chain[len(chain)-2]
	if parent.flow {
		return []patch{{n.start, n.end - n.start, yamlFlow(v)}}, nil
	}
	if parent.kind == list {
		dash := parent.yaml.dashes[childIndex(parent, n)]
		return []patch{{dash, n.end - dash, d.yamlItem(v, strings.Repeat(" ", parent.yaml.column))}}, nil
	}
	text := d.yamlValue(v, strings.Repeat(" ", parent.yaml.column))
	end := max(n.end, n.yaml.colon)
	return []patch{{n.yaml.colon, end - n.yaml.colon, text}}, nil
}

func (yamlLanguage) cut(d *document, chain []*node) ([]patch, error) {
	n, parent := chain[len(chain)-1], chain[len(chain)-2]
	i := childIndex(parent, n)
	if parent.flow {
		return bracketOf(parent, hashComment).cut(d, i), nil
	}
	start := 0
	if parent.kind == list {
		start = parent.yaml.dashes[i]
	} else {
		start = parent.fields[i].start
	}
	if !isFirst(d.src, start) {
		return nil, &Unproven{d.path, "something else stands on its first line"}
	}
	slot := lineSlot(d.src, start, lineEnd(d.src, max(n.end, n.yaml.colon)), false)
	if len(parent.fields)+len(parent.items) > 1 || parent == d.root {
		return []patch{slot}, nil
	}
	if parent.yaml.colon == 0 || parent.yaml.colon > slot.off {
		return nil, &Unproven{d.path, "nothing would be left in its place"}
	}
	nothing := " {}"
	if parent.kind == list {
		nothing = " []"
	}
	return []patch{{off: parent.yaml.colon, ins: nothing}, slot}, nil
}
