package splice

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tailscale/hujson"
)

// jsonLanguage edits JSON with comments. The library says where values are.
type jsonLanguage struct{}

func (jsonLanguage) parse(doc []byte) (*node, error) {
	if onlySpace(doc) {
		return &node{kind: object, flow: true}, nil
	}
	if err := shallow(doc); err != nil {
		return nil, err
	}
	v, err := hujson.Parse(doc)
	if err != nil {
		return nil, err
	}
	return jsonNode(&v)
}

// shallow bounds the nesting of brackets, because parsers recurse. Brackets in strings count too.
func shallow(doc []byte) error {
	depth := 0
	for _, c := range doc {
		switch c {
		case '{', '[':
			if depth++; depth > maxDepth {
				return fmt.Errorf("values are nested more than %d deep", maxDepth)
			}
		case '}', ']':
			depth = max(depth-1, 0)
		}
	}
	return nil
}

func jsonNode(v *hujson.Value) (*node, error) {
	n := &node{start: v.StartOffset, end: v.EndOffset}
	switch x := v.Value.(type) {
	case *hujson.Object:
		n.kind, n.flow = object, true
		for i := range x.Members {
			m := &x.Members[i]
			value, err := jsonNode(&m.Value)
			if err != nil {
				return nil, err
			}
			n.fields = append(n.fields, field{m.Name.Value.(hujson.Literal).String(), m.Name.StartOffset, value})
		}
	case *hujson.Array:
		n.kind, n.flow = list, true
		for i := range x.Elements {
			item, err := jsonNode(&x.Elements[i])
			if err != nil {
				return nil, err
			}
			n.items = append(n.items, item)
		}
	case hujson.Literal:
		switch x.Kind() {
		case 'n':
		case 't', 'f':
			n.value = x.Bool()
		case '0':
			n.value = json.Number(x)
		default:
			n.value = x.String()
		}
	}
	return n, nil
}

// bracketOf returns the brackets of a node and its members in them.
func bracketOf(n *node, comments func([]byte, int) int) *bracket {
	b := &bracket{open: n.start, close: n.end - 1, comments: comments}
	for _, f := range n.fields {
		b.items = append(b.items, span{f.start, f.value.end})
	}
	for _, item := range n.items {
		b.items = append(b.items, span{item.start, item.end})
	}
	return b
}

// tight reports whether the file has neither a blank after a colon nor a line break, as programs write
// it that save bytes.
func (d *document) tight() bool {
	return d.root.start < d.root.end && len(d.root.fields) > 0 && !bytes.Contains(d.src, []byte("\": ")) && !d.inLines()
}

// inLines reports whether the document is written in several lines, or has nothing yet.
func (d *document) inLines() bool {
	if len(d.root.fields) == 0 {
		return true
	}
	return bytes.IndexByte(d.src[d.root.start:d.root.end], '\n') >= 0
}

func (jsonLanguage) add(d *document, at *node, rest Path, v any) ([]patch, error) {
	text := func(indent string, broken bool) string {
		return d.jsonMember(rest, v, indent, broken)
	}
	if at.kind == list {
		name, _ := nameOf(rest[0])
		text = func(indent string, broken bool) string {
			return d.jsonText(v, indent, broken)
		}
		if len(rest) > 1 {
			return nil, &Unproven{d.path, fmt.Sprintf("the list has no item %q", name)}
		}
	}
	if at.kind == scalar { // null in the place of an object
		return []patch{{at.start, at.end - at.start, "{" + d.eol + indentOf(d.src, at.start) + d.unit + text(indentOf(d.src, at.start)+d.unit, true) + d.eol + indentOf(d.src, at.start) + "}"}}, nil
	}
	if !at.placed() { // an empty document
		end := ""
		if len(d.src) == 0 || d.src[len(d.src)-1] != '\n' {
			end = d.eol
		}
		return []patch{{0, 0, "{" + d.eol + d.unit + text(d.unit, true) + d.eol + "}" + end}}, nil
	}
	return bracketOf(at, slashComment).add(d, d.inLines(), text), nil
}

// jsonMember returns a member with the parents that are missing.
func (d *document) jsonMember(rest Path, v any, indent string, broken bool) string {
	colon := ": "
	if !broken && d.tight() {
		colon = ":"
	}
	if len(rest) == 1 {
		return quote(rest[0]) + colon + d.jsonText(v, indent, broken)
	}
	if !broken {
		return quote(rest[0]) + colon + "{" + d.jsonMember(rest[1:], v, "", false) + "}"
	}
	inner := indent + d.unit
	return quote(rest[0]) + colon + "{" + d.eol + inner + d.jsonMember(rest[1:], v, inner, true) + d.eol + indent + "}"
}

// jsonText returns a value. Objects are broken into lines; arrays are where they hold objects.
func (d *document) jsonText(v any, indent string, broken bool) string {
	if raw, ok := v.(verbatim); ok {
		return raw.text
	}
	comma, colon := ", ", ": "
	if !broken && d.tight() {
		comma, colon = ",", ":"
	}
	inner := indent + d.unit
	var parts []string
	opening, closing := "{", "}"
	switch v := v.(type) {
	case Object:
		for _, m := range v {
			parts = append(parts, quote(m.Key)+colon+d.jsonText(m.Value, inner, broken))
		}
	case []any:
		opening, closing = "[", "]"
		if !holdsObjects(v) {
			broken = false
		}
		for _, item := range v {
			parts = append(parts, d.jsonText(item, inner, broken))
		}
	default:
		return scalarText(v)
	}
	if broken && len(parts) > 0 {
		return opening + d.eol + inner + strings.Join(parts, ","+d.eol+inner) + d.eol + indent + closing
	}
	return opening + strings.Join(parts, comma) + closing
}

func holdsObjects(items []any) bool {
	for _, item := range items {
		if _, ok := item.(Object); ok {
			return true
		}
	}
	return false
}

// scalarText returns a scalar as JSON has it, which TOML and flow collections of YAML read as well.
func scalarText(v any) string {
	switch v := v.(type) {
	case string:
		return quote(v)
	case json.Number:
		return string(v)
	case bool:
		return fmt.Sprint(v)
	}
	return "null"
}

// quote returns a string in double quotes that JSON, TOML and YAML read alike.
func quote(s string) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a strings.Builder takes all
	var out strings.Builder
	for _, r := range strings.TrimSuffix(b.String(), "\n") {
		if r >= 0x7f && r < 0xa0 || r == 0xFEFF || r >= 0xFFFE && r <= 0xFFFF {
			fmt.Fprintf(&out, "\\u%04x", r)
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func (jsonLanguage) replace(d *document, chain []*node, v any) ([]patch, error) {
	n, parent := chain[len(chain)-1], chain[len(chain)-2]
	broken := bracketOf(parent, slashComment).broken(d.src)
	return []patch{{n.start, n.end - n.start, d.jsonText(v, indentOf(d.src, n.start), broken)}}, nil
}

func (jsonLanguage) cut(d *document, chain []*node) ([]patch, error) {
	parent := chain[len(chain)-2]
	return bracketOf(parent, slashComment).cut(d, childIndex(parent, chain[len(chain)-1])), nil
}

// childIndex returns the number of a child in its parent.
func childIndex(parent, child *node) int {
	for i, f := range parent.fields {
		if f.value == child {
			return i
		}
	}
	for i, item := range parent.items {
		if item == child {
			return i
		}
	}
	return -1
}
