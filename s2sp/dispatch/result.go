package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// OnToolResult takes the bodies out of the result of a tools/call: wherever an
// object with the members abstract and body stands (see [EachDocument]), its body
// is moved to the buffer and resource_url is set to a handle for it. Equal bodies
// of one result share a handle. A result without one is returned as it is; the
// bytes are the caller's either way.
//
// The two names decide, whatever their values are, with these exceptions. A body
// of null is none. Two texts in an object with no other member of S2SP are an
// article, not a table. An object that is an element of an array needs such a
// member, too.
//
// A body that is too large to be kept is dropped, and a member warnings says so:
// it must not reach the model. For the same reason a result that names both but
// cannot be read, or names one of them twice, is withheld: the error wraps
// ErrBody and says what is wrong with it.
func (d *Dispatcher) OnToolResult(result json.RawMessage) (json.RawMessage, error) {
	return d.onResult(result, false)
}

// OnSyncResult is OnToolResult for the result of a call that asked for mode sync,
// in which the two names decide without exceptions.
func (d *Dispatcher) OnSyncResult(result json.RawMessage) (json.RawMessage, error) {
	return d.onResult(result, true)
}

func (d *Dispatcher) onResult(result json.RawMessage, asked bool) (json.RawMessage, error) {
	if !holds(result, "abstract", 'b') || !holdsBody(result) {
		return result, nil // the common case costs one search
	}
	s := sweep{d: d, asked: asked}
	out := walk{word: []byte("abstract"), take: s.split, element: s.splitElement, broken: s.broken}.result(result)
	if s.err != nil {
		return nil, s.err
	}
	return out, nil
}

// holdsBody reports whether a result has the word body other than in body_domains
// and body_data, which every answer of mode async has.
func holdsBody(result []byte) bool {
	for {
		at := bytes.Index(result, []byte("body"))
		if at < 0 {
			return false
		}
		result = result[at+len("body"):]
		if len(result) == 0 || result[0] != '_' {
			return true
		}
	}
}

// sweep is one OnToolResult.
type sweep struct {
	d     *Dispatcher
	asked bool // for mode sync
	taken []taken
	err   error
}

type taken struct {
	body   []byte
	handle string // empty: not kept
}

// signs is what tells that an object is an answer of S2SP.
type signs struct {
	abstract, body []byte // nil: absent
	twice          string // one of the two that stands twice
	marked         bool   // another member of S2SP's answers stands there
}

// see notes a member.
func (s *signs) see(key string, value []byte) {
	switch key {
	case "abstract":
		if s.abstract != nil {
			s.twice = key
		}
		s.abstract = value
	case "body":
		if s.body != nil {
			s.twice = key
		}
		s.body = value
	case "abstract_domains", "body_domains", "total_rows":
		s.marked = true
	}
}

// article reports whether abstract and body are prose.
func (s *signs) article() bool { return !s.marked && isProse(s.abstract) && isProse(s.body) }

// isProse reports whether a value is a text that holds no JSON. It may be cut
// off.
func isProse(v []byte) bool {
	if len(v) == 0 || v[0] != '"' {
		return false
	}
	v = bytes.TrimLeft(v[1:], " \t\r\n")
	return len(v) == 0 || v[0] != '[' && v[0] != '{'
}

// splitElement is split for an element of an array.
func (s *sweep) splitElement(v []byte) ([]byte, bool) { return s.take(v, true) }

// split takes the body out of an object that has one, and an abstract.
func (s *sweep) split(obj []byte) ([]byte, bool) { return s.take(obj, false) }

func (s *sweep) take(obj []byte, element bool) ([]byte, bool) {
	if !rawjson.IsObject(obj) {
		return nil, false
	}
	var found signs
	if rawjson.EachMember(obj, func(m rawjson.Member) bool {
		found.see(string(m.Key), m.Value)
		return true
	}) != nil || found.abstract == nil || found.body == nil {
		return nil, false
	}
	if !s.asked && (found.article() || element && !found.marked) {
		return nil, false
	}
	if found.twice != "" {
		s.fail(fmt.Errorf("%w: the member %q stands twice in it", ErrBody, found.twice))
		return nil, false
	}
	body := found.body
	if string(body) == "null" {
		return nil, false
	}
	out, err := rawjson.Delete(obj, "body")
	if err != nil {
		s.fail(fmt.Errorf("%w: %w", ErrBody, err))
		return nil, false
	}
	// A text that holds JSON is what its text is: body_data is a text, too.
	if text, err := rawjson.Unquote(body); err == nil && rawjson.Valid(text) == nil {
		body = text
	}
	for _, t := range s.taken {
		if bytes.Equal(t.body, body) {
			return s.mark(out, t), true
		}
	}
	t := taken{body: body, handle: s.d.keep(body)}
	s.taken = append(s.taken, t)
	return s.mark(out, t), true
}

func (s *sweep) mark(obj []byte, t taken) []byte {
	if t.handle != "" {
		return set(obj, "resource_url", rawjson.Quote(t.handle))
	}
	return warn(obj, fmt.Sprintf("the body of %d bytes was dropped: at most %d are kept between calls; ask again with mode async, or for fewer rows", len(t.body), s.d.opts.MaxBytes))
}

func (s *sweep) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

// broken looks at text that is no JSON: one that may have a body in it is not
// shown.
func (s *sweep) broken(text []byte, why error) {
	if !s.mayHaveBody(text) {
		return
	}
	s.fail(fmt.Errorf("%w: what names an abstract and a body is no JSON (%w)", ErrBody, why))
}

// names finds how the two members are written in what is like JSON: with other
// quotes, or with none.
var names = regexp.MustCompile(`\b(abstract|body)\b\\?["']?\s*[:=]`)

func (s *sweep) mayHaveBody(text []byte) bool {
	var found signs
	// What can be read of it decides, as far as it goes.
	eachReadable(text, found.see)
	if found.abstract != nil && found.body != nil {
		return s.asked || !found.article()
	}
	if !s.asked && !(rawjson.IsObject(text) && hasMark(text)) {
		return false
	}
	var abstract, body bool
	for _, m := range names.FindAllSubmatch(text, -1) {
		abstract, body = abstract || string(m[1]) == "abstract", body || string(m[1]) == "body"
	}
	return abstract && body
}

// eachReadable calls f for the members at the beginning of a broken object, as
// far as they can be read. The value of the last one may be broken.
func eachReadable(text []byte, f func(key string, value []byte)) {
	if !rawjson.IsObject(text) {
		return
	}
	at := bytes.IndexByte(text, '{') + 1
	// Where it is broken, the error says nothing more than the caller knows.
	_ = rawjson.EachMember(text, func(m rawjson.Member) bool {
		f(string(m.Key), m.Value)
		at = m.End
		return true
	})
	at = rawjson.SkipSpace(text, at)
	if at < len(text) && text[at] == ',' {
		at = rawjson.SkipSpace(text, at+1)
	}
	if at >= len(text) || text[at] != '"' {
		return
	}
	end, err := rawjson.Skip(text, at)
	if err != nil {
		return
	}
	if colon := rawjson.SkipSpace(text, end); colon < len(text) && text[colon] == ':' {
		f(rawjson.Text(text[at:end]), bytes.TrimSpace(text[colon+1:]))
	}
}

func hasMark(text []byte) bool {
	for _, mark := range []string{"abstract_domains", "body_domains", "total_rows"} {
		if bytes.Contains(text, []byte(mark)) {
			return true
		}
	}
	return false
}
