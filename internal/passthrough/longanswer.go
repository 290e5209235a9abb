package passthrough

import (
	"bytes"
	"io"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A longAnswer finds the id and the result or the error in a message in pieces, and keeps neither
// the message nor the result.
type longAnswer struct {
	of Recorded

	depth  int
	text   bool // inside a string
	slash  bool // an odd number of backslashes ends the part of the string that was read
	value  bool // at depth 1, after a colon
	taking bool // the text is a key
	key    []byte

	found  byte      // 'r': a result, 'e': an error
	call   bool      // the message has a method
	odd    bool      // readers may differ: a key stands twice, or is written in another way
	part   byte      // the value that is being read: found, or 'i' for the id
	inside bool      // a value is being read that is kept
	ended  bool      // the last byte that was read ends the value
	result io.Writer // nil: the result is not wanted
	id     []byte    // at most maxID
	err    []byte    // at most maxAnswer
	lost   bool      // id or err is not whole
	closed bool      // the message has ended
}

const (
	// maxKey is the longest key that is of interest. Other letters fold to the letters of result.
	maxKey = len("result") + 4
	// maxID is the longest id that is kept.
	maxID = 4 << 10
)

// feed takes a piece.
func (l *longAnswer) feed(p []byte) {
	for len(p) > 0 && !l.closed {
		n := l.step(p)
		if l.inside {
			l.keep(p[:n])
		}
		if l.ended {
			l.inside, l.ended = false, false
		}
		p = p[n:]
	}
}

// keep takes a part of the value.
func (l *longAnswer) keep(p []byte) {
	switch {
	case l.part == 'r':
		if l.result != nil {
			_, _ = l.result.Write(p) // a digest does not fail
		}
	case l.part == 'e' && len(l.err)+len(p) <= maxAnswer:
		l.err = append(l.err, p...)
	case l.part == 'i' && len(l.id)+len(p) <= maxID:
		l.id = append(l.id, p...)
	default:
		l.lost = true
	}
}

// step reads p up to where the state changes, and returns how many bytes it has read. They belong
// to the value if inside is set then.
func (l *longAnswer) step(p []byte) int {
	if l.text {
		return l.inText(p)
	}
	if l.depth > 1 {
		if n := bytes.IndexAny(p[:min(len(p), 64)], `"{}[],`); n != 0 {
			if n < 0 {
				n = min(len(p), 64)
			}
			return n
		}
	}
	switch c := p[0]; c {
	case '"':
		l.text, l.slash = true, false
		l.begin(c)
	case '{', '[':
		l.begin(c)
		l.depth++
	case '}', ']':
		if l.depth--; l.depth == 0 {
			l.inside, l.closed = false, true
		}
		l.ended = l.depth == 1
	case ',':
		if l.depth == 1 {
			l.value, l.inside = false, false
		}
	case ':':
		l.value = l.value || l.depth == 1
	case ' ', '\t', '\r', '\n':
		l.inside = l.inside && l.depth > 1
	default:
		l.begin(c)
	}
	return 1
}

// begin notes that a value or a key starts at depth 1.
func (l *longAnswer) begin(c byte) {
	if l.depth != 1 || l.inside {
		return
	}
	if !l.value {
		l.taking, l.key = c == '"', l.key[:0]
		return
	}
	if bytes.IndexByte(l.key, '\\') >= 0 {
		l.odd = true
		return
	}
	switch name := string(l.key); {
	case name == "result" && l.found == 0:
		l.found, l.part, l.inside, l.result = 'r', 'r', true, l.of.Pieces()
	case name == "error" && l.found == 0:
		l.found, l.part, l.inside = 'e', 'e', true
	case name == "id" && len(l.id) == 0:
		l.part, l.inside = 'i', true
	case name == "method":
		l.call = true
	case strings.EqualFold(name, "result"), strings.EqualFold(name, "error"), strings.EqualFold(name, "id"), strings.EqualFold(name, "method"):
		l.odd = true
	}
}

// inText reads p, the rest of a string, up to its end.
func (l *longAnswer) inText(p []byte) int {
	n := bytes.IndexByte(p, '"')
	part := p
	if n >= 0 {
		part = p[:n]
	}
	if l.taking && len(l.key) <= maxKey {
		l.key = append(l.key, part[:min(len(part), maxKey+1)]...)
	}
	slashes := len(part) - len(bytes.TrimRight(part, `\`))
	odd := slashes%2 == 1
	if slashes == len(part) {
		odd = odd != l.slash
	}
	if n < 0 {
		l.slash = odd
		return len(p)
	}
	l.slash = false
	if !odd {
		l.text, l.taking, l.ended = false, false, l.depth == 1
	}
	return n + 1
}

// finish ends the message. answer reports whether it is one, readable whether all readers of it find
// the same.
func (l *longAnswer) finish() (answer, readable bool) {
	l.id, l.err = bytes.TrimSpace(l.id), bytes.TrimSpace(l.err)
	if string(l.id) == "null" {
		l.id = l.id[:0]
	}
	switch {
	case !l.closed:
		return false, false
	case l.odd || l.lost || l.call && l.found != 0:
		return true, false
	case l.call:
		return false, false
	case l.found == 'r':
		return true, len(l.id) > 0
	}
	return true, l.found == 'e' && rawjson.IsObject(l.err)
}
