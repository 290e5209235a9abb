package splice

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/pelletier/go-toml/v2/unstable"
)

// tomlLanguage edits TOML. The library says where keys and values are.
type tomlLanguage struct{}

// A tomlPlace says which expressions of the document make a node.
type tomlPlace struct {
	headers []int      // [table] and [[table]]
	line    int        // the key/value whose value it is, plus one; 0 if it is none
	all     []tomlExpr // of the root: the expressions of the document
}

// A tomlExpr is a header or a key with its value.
type tomlExpr struct {
	header     bool
	keys       []string
	start, end int // without a comment
}

// A tomlReader makes the tree of a document.
type tomlReader struct {
	p    unstable.Parser
	src  []byte
	root *node
}

func (tomlLanguage) parse(doc []byte) (*node, error) {
	if err := shallow(doc); err != nil {
		return nil, err
	}
	var valid map[string]any
	if err := toml.Unmarshal(doc, &valid); err != nil {
		return nil, err
	}
	r := &tomlReader{src: doc, root: &node{kind: object}}
	r.p.Reset(doc)
	section := r.root
	for r.p.NextExpression() {
		e := r.p.Expression()
		i := len(r.root.toml.all)
		keys, first, last := tomlKeys(e)
		expr := tomlExpr{header: e.Kind != unstable.KeyValue, keys: keys}
		if expr.header {
			for expr.start = first; doc[expr.start] != '['; expr.start-- {
			}
			for expr.end = last; doc[expr.end] != ']'; expr.end++ {
			}
			if expr.end++; e.Kind == unstable.ArrayTable {
				expr.start, expr.end = expr.start-1, expr.end+1
			}
			section = r.table(keys, e.Kind == unstable.ArrayTable)
			section.toml.headers = append(section.toml.headers, i)
		} else {
			expr.start = int(e.Raw.Offset)
			value := r.keyValue(section, e)
			expr.end, value.toml.line = value.end, i+1
		}
		r.root.toml.all = append(r.root.toml.all, expr)
	}
	return r.root, r.p.Error()
}

// tomlKeys returns the keys of an expression and the range of their bytes.
func tomlKeys(e *unstable.Node) (keys []string, start, end int) {
	for it := e.Key(); it.Next(); {
		n := it.Node()
		if len(keys) == 0 {
			start = int(n.Raw.Offset)
		}
		end = int(n.Raw.Offset + n.Raw.Length)
		keys = append(keys, string(n.Data))
	}
	return keys, start, end
}

// inside returns the table below n at keys and makes those that are missing. Of a list, it is the last item.
func (n *node) inside(keys []string, start int) *node {
	for _, key := range keys {
		i := slices.IndexFunc(n.fields, func(f field) bool { return f.key == key })
		if i < 0 {
			i = len(n.fields)
			n.fields = append(n.fields, field{key, start, &node{kind: object}})
		}
		if n = n.fields[i].value; n.kind == list && len(n.items) > 0 {
			n = n.items[len(n.items)-1]
		}
	}
	return n
}

// table returns the table of a header.
func (r *tomlReader) table(keys []string, array bool) *node {
	if !array {
		return r.root.inside(keys, 0)
	}
	parent := r.root.inside(keys[:len(keys)-1], 0)
	i := slices.IndexFunc(parent.fields, func(f field) bool { return f.key == keys[len(keys)-1] })
	if i < 0 {
		i = len(parent.fields)
		parent.fields = append(parent.fields, field{keys[len(keys)-1], 0, &node{kind: list}})
	}
	item := &node{kind: object}
	parent.fields[i].value.items = append(parent.fields[i].value.items, item)
	return item
}

// keyValue adds a key with its value to a table and returns the value.
func (r *tomlReader) keyValue(table *node, e *unstable.Node) *node {
	keys, start, end := tomlKeys(e)
	for end < len(r.src) && (isBlank(r.src[end]) || r.src[end] == '=') {
		end++
	}
	value := r.value(e.Value(), end)
	if len(keys) > 1 && table.flow {
		table.barrier = "an inline table has dotted keys"
	}
	table = table.inside(keys[:len(keys)-1], start)
	table.fields = append(table.fields, field{keys[len(keys)-1], start, value})
	return value
}

// value returns the node of a value that starts at start.
func (r *tomlReader) value(v *unstable.Node, start int) *node {
	n := &node{start: start, end: start + int(v.Raw.Length)}
	trivia := &bracket{comments: hashComment}
	at := start + 1
	next := func() {
		if at = trivia.skip(r.src, at); at < len(r.src) && r.src[at] == ',' {
			at = trivia.skip(r.src, at+1)
		}
	}
	switch v.Kind {
	case unstable.InlineTable:
		n.kind, n.flow = object, true
		for it := v.Children(); it.Next(); {
			at = r.keyValue(n, it.Node()).end
		}
	case unstable.Array:
		n.kind, n.flow = list, true
		for it := v.Children(); it.Next(); {
			next()
			item := r.value(it.Node(), at)
			n.items = append(n.items, item)
			at = item.end
		}
	case unstable.String:
		n.value = string(v.Data)
	case unstable.Bool:
		n.value = string(v.Data) == "true"
	default:
		n.value = json.Number(r.src[n.start:n.end])
	}
	if n.flow {
		next()
		n.end = at + 1
	}
	return n
}

// exprs returns the expressions that make a node, in order.
func (n *node) exprs() []int {
	var out []int
	var walk func(n *node)
	walk = func(n *node) {
		if out = append(out, n.toml.headers...); n.toml.line > 0 {
			out = append(out, n.toml.line-1)
			return
		}
		for _, f := range n.fields {
			walk(f.value)
		}
		for _, item := range n.items {
			walk(item)
		}
	}
	walk(n)
	slices.Sort(out)
	return out
}

// tomlKey writes a key.
func tomlKey(key string) string {
	bare := func(r rune) bool {
		return r == '-' || r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if key == "" || strings.ContainsFunc(key, func(r rune) bool { return !bare(r) }) {
		return quote(key)
	}
	return key
}

func tomlHeader(keys []string) string {
	out := make([]string, len(keys))
	for i, key := range keys {
		out[i] = tomlKey(key)
	}
	return strings.Join(out, ".")
}

// tomlText writes a value in one line.
func tomlText(v any) string {
	var parts []string
	switch v := v.(type) {
	case Object:
		for _, m := range v {
			parts = append(parts, tomlKey(m.Key)+" = "+tomlText(m.Value))
		}
		if len(parts) == 0 {
			return "{}"
		}
		return "{ " + strings.Join(parts, ", ") + " }"
	case []any:
		for _, item := range v {
			parts = append(parts, tomlText(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return scalarText(v)
}

// tomlSection writes a header with the members of a table below it.
func (d *document) tomlSection(header string, o Object) string {
	for _, m := range o {
		header += d.eol + tomlKey(m.Key) + " = " + tomlText(m.Value)
	}
	return header
}
