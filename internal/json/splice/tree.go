package splice

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

type kind int

const (
	scalar kind = iota
	object
	list
)

// A node is a value with its place in the document.
type node struct {
	kind       kind
	value      any     // of a scalar: a string, a bool, nil or a json.Number
	start, end int     // of the value's bytes; both 0 if it has no one place
	fields     []field // of an object
	items      []*node // of a list
	flow       bool    // it stands in brackets
	barrier    string  // why no edit may go through this node; "" if one may
	alias      *node   // of an alias in YAML: what it stands for
	toml       tomlPlace
	yaml       yamlPlace
}

// A field is a member of an object.
type field struct {
	key   string
	start int // of the key's bytes
	value *node
}

// placed reports whether the value is one range of bytes.
func (n *node) placed() bool { return n.end > n.start }

// nameOf returns the name that a segment selects in a list.
func nameOf(segment string) (string, bool) { return strings.CutPrefix(segment, "name=") }

// step returns the child that a segment of a path selects, nil if there is none.
func (n *node) step(segment string) (*node, error) {
	var found *node
	if n.kind == list {
		name, ok := nameOf(segment)
		if !ok {
			return nil, fmt.Errorf("%q is looked for in a list; items are selected as name=NAME", segment)
		}
		for _, item := range n.items {
			for _, f := range item.fields {
				if f.key == "name" && f.value.kind == scalar && f.value.value == any(name) {
					if found != nil {
						return nil, fmt.Errorf("two items have the name %q", name)
					}
					found = item
				}
			}
		}
		return found, nil
	}
	for _, f := range n.fields {
		if f.key == segment {
			if found != nil {
				return nil, fmt.Errorf("the key %q is there twice", segment)
			}
			found = f.value
		}
	}
	return found, nil
}

// find follows the path from the root. It returns the nodes that are there, the root first, and the
// segments that are missing.
func (d *document) find() (chain []*node, rest Path, err error) {
	if len(d.path) == 0 {
		return nil, nil, fmt.Errorf("the path of an edit is empty")
	}
	n := d.root
	chain = append(chain, n)
	for i, segment := range d.path {
		if n.barrier != "" {
			return nil, nil, &Unproven{d.path, n.barrier}
		}
		next := (*node)(nil)
		if n.kind != scalar {
			if next, err = n.step(segment); err != nil {
				return nil, nil, &Unproven{d.path, err.Error()}
			}
		} else if n.value != nil {
			return nil, nil, &Unproven{d.path, fmt.Sprintf("%s is no object", orRoot(d.path[:i]))}
		}
		if next == nil {
			return chain, d.path[i:], nil
		}
		n = next
		chain = append(chain, n)
	}
	if n.barrier != "" {
		return nil, nil, &Unproven{d.path, n.barrier}
	}
	return chain, nil, nil
}

func orRoot(p Path) string {
	if len(p) == 0 {
		return "the document"
	}
	return p.String()
}

// maxNodes bounds what aliases in YAML may stand for together.
const maxNodes = 1 << 20

// decode returns the value of a tree.
func (n *node) decode() (any, error) {
	budget := maxNodes + n.size()
	return n.decodeWithin(&budget, 0)
}

// size counts the nodes of a tree, without what aliases stand for.
func (n *node) size() int {
	total := 1
	for _, f := range n.fields {
		total += f.value.size()
	}
	for _, item := range n.items {
		total += item.size()
	}
	return total
}

func (n *node) decodeWithin(budget *int, depth int) (any, error) {
	if *budget--; *budget < 0 || depth > maxDepth {
		return nil, fmt.Errorf("aliases make the document too large")
	}
	if n.alias != nil {
		return n.alias.decodeWithin(budget, depth+1)
	}
	switch n.kind {
	case object:
		out := make(Object, 0, len(n.fields))
		for _, f := range n.fields {
			v, err := f.value.decodeWithin(budget, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, Member{f.key, v})
		}
		return out, nil
	case list:
		out := make([]any, 0, len(n.items))
		for _, item := range n.items {
			v, err := item.decodeWithin(budget, depth+1)
			if err != nil {
				return nil, err
			}
			out = append(out, v)
		}
		return out, nil
	}
	return n.value, nil
}

// normal returns a value of a caller in the form that decode returns.
func normal(v any, depth int) (any, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("the value is nested too deeply")
	}
	switch v := v.(type) {
	case nil, bool:
		return v, nil
	case string:
		if !utf8.ValidString(v) {
			return nil, fmt.Errorf("a string of the value is not UTF-8")
		}
		return v, nil
	case int:
		return json.Number(strconv.Itoa(v)), nil
	case json.Number:
		if !json.Valid([]byte(v)) || strings.ContainsAny(string(v), "\"tfn[{ \t\r\n") {
			return nil, fmt.Errorf("%q is no number", string(v))
		}
		return v, nil
	case []string:
		out := make([]any, len(v))
		for i, s := range v {
			out[i] = s
		}
		return normal(out, depth)
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			n, err := normal(item, depth+1)
			if err != nil {
				return nil, err
			}
			out[i] = n
		}
		return out, nil
	case Object:
		out := make(Object, len(v))
		seen := map[string]bool{}
		for i, m := range v {
			n, err := normal(m.Value, depth+1)
			if err != nil {
				return nil, err
			}
			if seen[m.Key] || !utf8.ValidString(m.Key) {
				return nil, fmt.Errorf("the key %q of the value is there twice or not UTF-8", m.Key)
			}
			seen[m.Key] = true
			out[i] = Member{m.Key, n}
		}
		return out, nil
	}
	return nil, fmt.Errorf("a value of type %T cannot be written", v)
}
