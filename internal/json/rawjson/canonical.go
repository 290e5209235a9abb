package rawjson

import (
	"bytes"
	"slices"
	"unicode/utf8"
	"unsafe"
)

// AppendCanonical appends a JSON value in a form that is equal for equivalent values: keys sorted,
// no white space, strings with the fewest escapes. Numbers keep their digits, so none is rounded
// into another: 1 and 1.0 differ. A string or key with U+FFFD or an invalid character, such as half
// of a surrogate pair, stands there as it was written, behind a '. So the result is for comparing,
// not for sending. ok is false if raw is not valid, or if an object has a duplicate key. It takes as
// long as reading raw a few times and sorting keys, however deep raw nests.
func AppendCanonical(dst, raw []byte) (out []byte, ok bool) {
	if Valid(raw) != nil {
		return dst, false
	}
	var few [8]span
	var members [8]member
	c := canonical{data: raw, spans: spansOf(few[:0], raw), members: members[:0]}
	out, _, _, ok = c.value(dst, SkipSpace(raw, 0), 0)
	return out, ok
}

// CanonicalRoom returns a bound of the bytes that AppendCanonical makes for raw, the result included.
func CanonicalRoom(raw []byte) int64 {
	const grows = 3 // an array that grows, with the one before it
	nested := bytes.Count(raw, []byte("{")) + bytes.Count(raw, []byte("["))
	members := bytes.Count(raw, []byte(":"))
	return 2*int64(len(raw)) + grows*(int64(nested)*int64(unsafe.Sizeof(span{}))+int64(members)*int64(unsafe.Sizeof(member{})))
}

// canonical writes one valid JSON value. Without spans, each level of nesting would be read again to
// find the ends of the levels in it.
type canonical struct {
	data    []byte
	spans   []span   // of all objects and arrays, in the order of their beginnings
	members []member // of the objects that are being written, the innermost last
}

// span is the extent of an object or array.
type span struct {
	end  int // index behind it
	next int // number of the first span behind it
}

// member is a member of an object that is written later.
type member struct {
	key     []byte // its decoded text
	written []byte // with its quotes
	at      int    // index of the value
	n       int    // number of the first span at or after at
}

// spansOf returns the extents of the objects and arrays of a valid JSON value, in the array of
// spans if there is room.
func spansOf(spans []span, data []byte) []span {
	var few [8]int
	open := few[:0]
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			end, _ := skipString(data, i) // data is valid
			i = end - 1
		case '{', '[':
			open = append(open, len(spans))
			spans = append(spans, span{})
		case '}', ']':
			spans[open[len(open)-1]] = span{i + 1, len(spans)}
			open = open[:len(open)-1]
		}
	}
	return spans
}

// behind returns the index behind the value at index i and the number of the first span behind it.
// n is the number of the first span at or after i.
func (c *canonical) behind(i, n int) (end, next int) {
	if ch := c.data[i]; ch == '{' || ch == '[' {
		return c.spans[n].end, c.spans[n].next
	}
	end, _ = Skip(c.data, i)
	return end, n
}

// value appends the value at index i. n is the number of the first span at or after i.
func (c *canonical) value(dst []byte, i, n int) (out []byte, end, next int, ok bool) {
	end, next = c.behind(i, n)
	switch c.data[i] {
	case '{':
		dst, ok = c.object(dst, i, n)
		return dst, end, next, ok
	case '[':
		dst = append(dst, '[')
		for i, n = SkipSpace(c.data, i+1), n+1; c.data[i] != ']'; {
			if dst, i, n, ok = c.value(dst, i, n); !ok {
				return dst, end, next, false
			}
			if i = SkipSpace(c.data, i); c.data[i] == ',' {
				dst = append(dst, ',')
				i = SkipSpace(c.data, i+1)
			}
		}
		return append(dst, ']'), end, next, true
	case '"':
		return appendComparable(dst, c.data[i:end]), end, next, true
	}
	return append(dst, c.data[i:end]...), end, next, true
}

// object appends the object at index i with the number n.
func (c *canonical) object(dst []byte, i, n int) (out []byte, ok bool) {
	base := len(c.members)
	defer func() { c.members = c.members[:base] }()
	for i, n = SkipSpace(c.data, i+1), n+1; c.data[i] != '}'; {
		end, _ := skipString(c.data, i)
		m := member{written: c.data[i:end], n: n}
		if m.key = c.data[i+1 : end-1]; bytes.IndexByte(m.key, '\\') >= 0 || !utf8.Valid(m.key) {
			m.key = []byte(Text(m.written))
		}
		m.at = SkipSpace(c.data, SkipSpace(c.data, end)+1)
		c.members = append(c.members, m)
		i, n = c.behind(m.at, n)
		if i = SkipSpace(c.data, i); c.data[i] == ',' {
			i = SkipSpace(c.data, i+1)
		}
	}
	count := len(c.members) - base
	slices.SortFunc(c.members[base:], func(a, b member) int { return bytes.Compare(a.key, b.key) })
	dst = append(dst, '{')
	for at := range count {
		m := c.members[base+at] // writing a value can move the members
		if at > 0 {
			if bytes.Equal(c.members[base+at-1].key, m.key) {
				return dst, false
			}
			dst = append(dst, ',')
		}
		dst = append(appendComparable(dst, m.written), ':')
		if dst, _, _, ok = c.value(dst, m.at, m.n); !ok {
			return dst, false
		}
	}
	return append(dst, '}'), true
}

// appendComparable appends a string, so that strings of different characters differ. An invalid
// character decodes to U+FFFD, so a string with that one stays as it was written.
func appendComparable(dst, written []byte) []byte {
	inner := written[1 : len(written)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		if bytes.Contains(inner, replacement) {
			dst = append(dst, '\'')
		}
		return append(dst, written...)
	}
	text := Text(written)
	if bytes.Contains([]byte(text), replacement) {
		return append(append(dst, '\''), written...)
	}
	return AppendString(dst, text)
}

var replacement = []byte("\uFFFD")
