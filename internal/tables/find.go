package tables

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text"
)

// tableKey makes an object in arguments a reference to rows:
//
//	{"$table": "<handle or resource_url>", "row_ids": [0, 3], "columns": ["event"], "where": [{"column": "wind", "op": "gt", "value": 60}], "limit": 20}
//
// All members other than $table and row_ids are of the selector "table" of tool_view.
//
//	args ─▶ [preview] ─▶ a few rows in its place ─▶ validate ▶ policy ▶ quota ▶ dry run ─▶ [fillTables] ─▶ all rows ─▶ cache ▶ retry ─▶ upstream
//	            nothing spent                                                                   a URL is spent, a handle is not
const tableKey = "$table"

const (
	maxTableRefs  = 1000 // in one call
	maxTableDepth = 64
	maxKeyChars   = 60 // of a key or a column in a message
)

// mayRefer reports whether v may contain a reference. Keys may contain \u escapes, but an escaped
// "$" is still the first character of the key.
func mayRefer(v []byte) bool {
	return rawjson.Contains(v, tableKey) ||
		rawjson.Contains(v, `\u`) && (rawjson.Contains(v, `"$`) || rawjson.Contains(v, `"\u0024`))
}

// place is an open object or array on the path to a reference. The places of one call form a tree
// with links to their parents.
type place struct {
	parent *place
	start  int    // index of the opening bracket
	key    []byte // raw key under which it stands in an object, nil in an array
	index  int    // its index in an array

	array  bool
	member []byte // raw key whose value comes now, of an object
	next   int    // index of the element that comes now, of an array
	value  bool   // a colon has come: the next string is no key

	schema []byte
	known  bool // schema has been looked up
	kept   bool // it leads to a reference
}

// found is one reference: args[place.start:end].
type found struct {
	*place
	end int
}

// findTables returns the outermost references in args, in their order. args must be valid JSON. It
// reads each byte at most twice, at any depth.
func findTables(args []byte, s dispatch.Schemas) (refs []found, tooDeep *place, err error) {
	if !mayRefer(args) {
		return nil, nil, nil
	}
	var open, spare []*place
	for i := 0; i < len(args); i++ {
		var top *place
		if len(open) > 0 {
			top = open[len(open)-1]
		}
		switch args[i] {
		case '{', '[':
			var p *place
			if n := len(spare); n > 0 {
				p, spare = spare[n-1], spare[:n-1]
			} else {
				p = new(place)
			}
			*p = place{parent: top, start: i, array: args[i] == '['}
			if top != nil && top.array {
				p.index = top.next
			} else if top != nil {
				p.key = top.member
			}
			open = append(open, p)
		case '}', ']':
			if top != nil {
				open = open[:len(open)-1]
				if !top.kept {
					spare = append(spare, top)
				}
			}
		case ':':
			top.value = true
		case ',':
			top.value = false
			top.next++
		case '"':
			end, err := rawjson.Skip(args, i)
			if err != nil {
				return nil, nil, err
			}
			if top == nil || top.array || top.value {
				i = end - 1
				continue
			}
			top.member = args[i:end]
			if !isTableKey(top.member) || s.At(top.lookup(s), "properties", tableKey) != nil {
				i = end - 1
				continue
			}
			if len(open) > maxTableDepth+1 {
				return nil, top, nil
			}
			if end, err = rawjson.Skip(args, top.start); err != nil {
				return nil, nil, err
			}
			// References found inside it are invalid members, not rows.
			refs = slices.DeleteFunc(refs, func(f found) bool { return f.start > top.start })
			refs = append(refs, found{top, end})
			for p := top; p != nil && !p.kept; p = p.parent {
				p.kept = true
			}
			open = open[:len(open)-1]
			i = end - 1
		}
	}
	return refs, nil, nil
}

func isTableKey(raw []byte) bool {
	if len(raw) == len(tableKey)+2 {
		return string(raw[1:len(raw)-1]) == tableKey
	}
	return bytes.IndexByte(raw, '\\') >= 0 && rawjson.Text(raw) == tableKey
}

// lookup returns the schema of the place, or nil.
func (p *place) lookup(s dispatch.Schemas) []byte {
	if p.known {
		return p.schema
	}
	p.known = true
	switch {
	case p.parent == nil:
		p.schema = s.Root
	case p.parent.array:
		p.schema = s.At(p.parent.lookup(s), "items")
	default:
		p.schema = s.At(p.parent.lookup(s), "properties", rawjson.Text(p.key))
	}
	return p.schema
}

// chain returns the places from the root to p.
func (p *place) chain() []*place {
	var way []*place
	for ; p != nil; p = p.parent {
		way = append(way, p)
	}
	slices.Reverse(way)
	return way
}

// path returns the place in the form of error messages: args.rows[3].
func (p *place) path() string {
	var b strings.Builder
	for _, at := range p.chain() {
		switch {
		case at.parent == nil:
			b.WriteString("args")
		case at.parent.array:
			b.WriteString("[" + strconv.Itoa(at.index) + "]")
		default:
			b.WriteString("." + text.Fit(rawjson.Text(at.key), maxKeyChars))
		}
	}
	return b.String()
}

// holds reports whether a JSON pointer leads to the place or into it.
func (p *place) holds(pointer string) bool {
	for _, at := range p.chain()[1:] {
		step := strconv.Itoa(at.index)
		if !at.parent.array {
			step = strings.NewReplacer("~", "~0", "/", "~1").Replace(rawjson.Text(at.key))
		}
		rest, ok := strings.CutPrefix(pointer, "/"+step)
		if !ok || rest != "" && rest[0] != '/' {
			return false
		}
		pointer = rest
	}
	return true
}
