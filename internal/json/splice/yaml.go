package splice

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// yamlLanguage edits YAML. The library says where nodes start; where they end is found here.
type yamlLanguage struct{}

// A yamlPlace says where a block node hangs.
type yamlPlace struct {
	colon  int   // after the colon of its key in a block mapping; 0 if it has none
	column int   // of its keys or dashes, in characters
	dashes []int // of a block list: the place of each dash
}

// A yamlReader makes the tree of a document.
type yamlReader struct {
	src   []byte
	lines []int // where each line starts, as the library counts them
	made  map[*yaml.Node]*node
	later []func()
}

func (yamlLanguage) parse(doc []byte) (*node, error) {
	if bytes.Contains(bytes.ReplaceAll(doc, []byte("\r\n"), nil), []byte("\r")) {
		return nil, errors.New("a carriage return stands without a line feed")
	}
	dec := yaml.NewDecoder(bytes.NewReader(doc))
	var first, second yaml.Node
	if err := dec.Decode(&first); errors.Is(err, io.EOF) {
		return &node{kind: object}, nil
	} else if err != nil {
		return nil, err
	}
	if err := dec.Decode(&second); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("it has several documents: %w", err)
	}
	r := &yamlReader{src: doc, lines: []int{0}, made: map[*yaml.Node]*node{}}
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case c == '\r' && i+1 < len(doc) && doc[i+1] == '\n':
		case c == '\n' || c == '\r':
			r.lines = append(r.lines, i+1)
		case bytes.HasPrefix(doc[i:], []byte("\u0085")):
			r.lines = append(r.lines, i+2)
		case bytes.HasPrefix(doc[i:], []byte("\u2028")) || bytes.HasPrefix(doc[i:], []byte("\u2029")):
			r.lines = append(r.lines, i+3)
		}
	}
	if first.Kind != yaml.DocumentNode || len(first.Content) != 1 {
		return &node{kind: object}, nil
	}
	root := r.node(first.Content[0], len(doc), -1)
	for _, link := range r.later {
		link()
	}
	if root.kind == scalar && root.value == nil && !root.placed() {
		return &node{kind: object}, nil
	}
	return root, nil
}

// at returns the offset of a node.
func (r *yamlReader) at(n *yaml.Node) int {
	if n.Line < 1 || n.Line > len(r.lines) {
		return len(r.src)
	}
	i := r.lines[n.Line-1]
	for range n.Column - 1 {
		_, size := utf8.DecodeRune(r.src[i:])
		i += size
	}
	return min(i, len(r.src))
}

// node makes the tree of a node that ends before limit. Column is the column of the key or dash
// before it.
func (r *yamlReader) node(y *yaml.Node, limit, column int) *node {
	n := &node{start: r.at(y), flow: y.Style&yaml.FlowStyle != 0}
	n.yaml.column = y.Column - 1
	r.made[y] = n
	switch {
	case y.Anchor != "":
		n.barrier = "it has the anchor &" + y.Anchor
	case y.Style&yaml.TaggedStyle != 0:
		n.barrier = "it has the tag " + y.Tag
	case y.Kind == yaml.AliasNode:
		n.barrier = "it is the alias *" + y.Value
		r.later = append(r.later, func() { n.alias = r.made[y.Alias] })
	}
	switch y.Kind {
	case yaml.MappingNode:
		n.kind = object
	case yaml.SequenceNode:
		n.kind = list
	case yaml.ScalarNode:
		n.value = yamlScalar(y)
	}
	if n.flow && n.kind != scalar {
		r.flow(y, n, limit)
		return n
	}
	switch n.kind {
	case object:
		r.mapping(y, n, limit)
	case list:
		r.sequence(y, n, limit)
	default:
		r.scalar(y, n, limit, column)
	}
	return n
}

// yamlScalar returns the value of a scalar. A value that is neither text nor a truth value stays as
// it is written.
func yamlScalar(y *yaml.Node) any {
	switch y.ShortTag() {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(y.Value, "true")
	case "!!int", "!!float", "!!timestamp":
		return json.Number(y.Value)
	}
	return y.Value
}

// keyBarrier says why a mapping with a key cannot be edited.
func keyBarrier(key *yaml.Node) string {
	switch {
	case key.Kind != yaml.ScalarNode:
		return "it has a key that is no text"
	case key.ShortTag() == "!!merge":
		return "it has a merge key <<"
	case key.Anchor != "" || key.Style&yaml.TaggedStyle != 0:
		return "it has a key with an anchor or a tag"
	}
	return ""
}

// mapping reads a block mapping.
func (r *yamlReader) mapping(y *yaml.Node, n *node, limit int) {
	n.end = n.start
	for i := 0; i+1 < len(y.Content); i += 2 {
		key, start, end := y.Content[i], r.at(y.Content[i]), limit
		if i+2 < len(y.Content) {
			end = lineStart(r.src, r.at(y.Content[i+2]))
		}
		if why := keyBarrier(key); why != "" {
			n.barrier = why
		}
		colon := r.colon(key, start)
		value := r.node(y.Content[i+1], max(end, start), n.yaml.column)
		if value.yaml.colon = colon; colon == 0 {
			n.barrier = "a key of it cannot be found"
		}
		if value.kind == scalar && value.value == nil && value.alias == nil && !value.placed() {
			value.start, value.end = colon, colon
		}
		n.fields = append(n.fields, field{key.Value, start, value})
		n.end = max(n.end, value.end)
	}
}

// colon returns the place after the colon of a key, 0 if it cannot be found.
func (r *yamlReader) colon(key *yaml.Node, start int) int {
	i, end := start, lineEnd(r.src, start)
	if key.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		i = quoted(r.src, start)
	} else {
		for i < end && !(r.src[i] == ':' && (i+1 == end || isBlank(r.src[i+1]))) {
			i++
		}
	}
	for i < end && isBlank(r.src[i]) {
		i++
	}
	if i < end && r.src[i] == ':' {
		return i + 1
	}
	return 0
}

// quoted returns the end of a string in quotes.
func quoted(src []byte, start int) int {
	if start >= len(src) {
		return start
	}
	mark := src[start]
	for i := start + 1; i < len(src); i++ {
		switch {
		case mark == '"' && src[i] == '\\':
			i++
		case mark == '\'' && src[i] == mark && i+1 < len(src) && src[i+1] == mark:
			i++
		case src[i] == mark:
			return i + 1
		}
	}
	return len(src)
}

// sequence reads a block list.
func (r *yamlReader) sequence(y *yaml.Node, n *node, limit int) {
	n.end = n.start
	for _, item := range y.Content {
		dash := lineStart(r.src, min(r.at(item), limit)) + n.start - lineStart(r.src, n.start)
		if dash >= len(r.src) || r.src[dash] != '-' {
			n.barrier = "an item does not begin next to its dash"
		}
		n.yaml.dashes = append(n.yaml.dashes, dash)
	}
	for i, item := range y.Content {
		end := limit
		if i+1 < len(y.Content) {
			end = lineStart(r.src, n.yaml.dashes[i+1])
		}
		value := r.node(item, max(end, n.yaml.dashes[i]), n.yaml.column)
		n.items = append(n.items, value)
		n.end = max(n.end, value.end)
	}
}

// scalar finds the end of a scalar in a block.
func (r *yamlReader) scalar(y *yaml.Node, n *node, limit, column int) {
	first := lineEnd(r.src, n.start)
	switch {
	case y.Kind == yaml.AliasNode || y.Anchor != "" || y.Style&yaml.TaggedStyle != 0:
		n.end = r.plainEnd(n.start, limit, column)
	case y.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0:
		n.end = quoted(r.src, n.start)
	case y.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		n.end = first
		keep := bytes.ContainsRune(r.src[n.start:first], '+')
		for at := afterLine(r.src, first); at < limit; {
			end := lineEnd(r.src, at)
			blank := onlySpace(r.src[at:end])
			if deep := len(indentOf(r.src, at)) > column; !blank && !deep {
				break
			} else if deep && !blank || keep {
				n.end = end
			}
			if at = afterLine(r.src, end); end == len(r.src) {
				break
			}
		}
	case y.Value == "" && y.ShortTag() == "!!null":
		n.end = n.start // nothing is written
	default:
		n.end = r.plainEnd(n.start, limit, column)
	}
}

// plainEnd returns the end of a scalar without quotes, which may go on in deeper lines.
func (r *yamlReader) plainEnd(start, limit, column int) int {
	end := start
	for at := start; at < limit; {
		stop := lineEnd(r.src, at)
		text := r.src[at:stop]
		trimmed := bytes.TrimLeft(text, " \t")
		if at > start && len(trimmed) > 0 && (trimmed[0] == '#' || len(text)-len(trimmed) <= column) {
			break
		}
		comment := -1
		for i := 1; i < len(text); i++ {
			if text[i] == '#' && isBlank(text[i-1]) {
				comment = i
				break
			}
		}
		if comment >= 0 {
			text = text[:comment]
		}
		if text = bytes.TrimRight(text, " \t"); len(text) > 0 {
			end = at + len(text)
		}
		if comment >= 0 || stop == len(r.src) {
			break
		}
		at = afterLine(r.src, stop)
	}
	return end
}

// flow reads a collection in brackets. Its members end where the scanner says.
func (r *yamlReader) flow(y *yaml.Node, n *node, limit int) {
	start := n.start
	for start < limit && r.src[start] != '{' && r.src[start] != '[' {
		start++ // an anchor or a tag
	}
	items, end := scanFlow(r.src, start)
	n.start, n.end = start, end+1
	step := 1
	if n.kind == object {
		step = 2
	}
	if end < 0 || len(items)*step != len(y.Content) {
		n.barrier, n.end = "its brackets cannot be read", limit
		items = make([]span, len(y.Content)/step)
	}
	for i, item := range items {
		value := r.node(y.Content[i*step+step-1], item.end, -1)
		value.end = item.end
		if n.kind == list {
			value.start = item.start
			n.items = append(n.items, value)
			continue
		}
		if why := keyBarrier(y.Content[i*step]); why != "" {
			n.barrier = why
		}
		value.start = min(value.start, value.end)
		n.fields = append(n.fields, field{y.Content[i*step].Value, item.start, value})
		if n.fields[i].start > value.end {
			n.barrier = "its brackets cannot be read"
		}
	}
}

// scanFlow returns the members of the brackets that open at a place, and the closing bracket, -1 if
// there is none.
func scanFlow(src []byte, open int) (items []span, end int) {
	depth, item := 0, span{-1, -1}
	for i := open; i < len(src); i++ {
		c := src[i]
		free := i == 0 || strings.IndexByte(" \t\r\n[{,:", src[i-1]) >= 0
		switch {
		case isBlank(c) || c == '\r' || c == '\n':
			continue
		case c == '#' && free:
			i = lineEnd(src, i) - 1
			continue
		case c == ',' && depth == 1:
			if item.start >= 0 {
				items = append(items, item)
			}
			item = span{-1, -1}
			continue
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				if item.start >= 0 {
					items = append(items, item)
				}
				return items, i
			}
		case c == '{' || c == '[':
			if depth++; depth == 1 {
				continue
			}
		}
		if item.start < 0 {
			item.start = i
		}
		if (c == '"' || c == '\'') && free {
			i = quoted(src, i) - 1
		}
		item.end = i + 1
	}
	return nil, -1
}
