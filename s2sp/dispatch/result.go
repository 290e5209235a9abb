package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// OnToolResult removes the bodies from the result of a tools/call. If an object (see
// [EachDocument]) has the members abstract and body, its body moves to the buffer and resource_url
// becomes a handle for it. Equal bodies of one result share a handle. A result without bodies is
// returned unchanged. OnToolResult never writes to result.
//
// The two names decide, whatever their values are, with three exceptions. A body of null is not a
// body. Two texts in an object without other S2SP members are an article, not a table. An element
// of an array, or a member other than result, must have another S2SP member as well.
//
// A body that is too large to store is dropped, because it must not reach the model; a member
// warnings says so. For the same reason a result is withheld if it has both names but cannot be
// parsed, or has one of them twice. The error wraps ErrBody and names the mistake.
func (d *Dispatcher) OnToolResult(result json.RawMessage) (json.RawMessage, error) {
	return d.onResult(result, false)
}

// OnSyncResult removes bodies as OnToolResult does, for a call with mode sync. Then the two names
// decide without exceptions.
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

// holdsBody reports whether a result contains the word body other than in body_domains and
// body_data, which every mode async answer contains.
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

// sweep is one run of OnToolResult.
type sweep struct {
	d     *Dispatcher
	asked bool // the call had mode sync
	taken []takenBody
	err   error
}

type takenBody struct {
	body   []byte
	handle string // "" if not stored
}

// signs are the members that identify an S2SP answer.
type signs struct {
	abstract, body []byte // nil if absent
	twice          string // one of the two, if it occurs twice
	marked         bool   // the object has another member of S2SP answers
}

// see records a member.
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

// isProse reports whether a value, which may be truncated, is a string that does not contain JSON.
func isProse(v []byte) bool {
	if len(v) == 0 || v[0] != '"' {
		return false
	}
	v = bytes.TrimLeft(v[1:], " \t\r\n")
	return len(v) == 0 || v[0] != '[' && v[0] != '{'
}

// splitElement splits an element of an array, or a member of an object.
func (s *sweep) splitElement(v []byte) ([]byte, bool) { return s.take(v, true) }

// split removes the body from an object that has abstract and body.
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
	// A string that contains JSON is treated as that JSON, because body_data is a string as well.
	if text, err := rawjson.Unquote(body); err == nil && rawjson.Valid(text) == nil {
		body = text
	}
	for _, t := range s.taken {
		if bytes.Equal(t.body, body) {
			return s.mark(out, t), true
		}
	}
	t := takenBody{body: body, handle: s.d.keep(body)}
	s.taken = append(s.taken, t)
	return s.mark(out, t), true
}

func (s *sweep) mark(obj []byte, t takenBody) []byte {
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

// broken examines text that is not valid JSON. Text that may contain a body is withheld.
func (s *sweep) broken(text []byte, why error) {
	if !s.mayHaveBody(text) {
		return
	}
	s.fail(fmt.Errorf("%w: what names an abstract and a body is no JSON (%w)", ErrBody, why))
}

// names matches the two members in text that resembles JSON, with any quotes or none.
var names = regexp.MustCompile(`\b(abstract|body)\b\\?["']?\s*[:=]`)

func (s *sweep) mayHaveBody(text []byte) bool {
	var found signs
	// Decide by the members that can be parsed.
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

// eachReadable calls f for the leading members of a broken object that can be parsed. The last
// value may be broken.
func eachReadable(text []byte, f func(key string, value []byte)) {
	if !rawjson.IsObject(text) {
		return
	}
	at := bytes.IndexByte(text, '{') + 1
	// the caller knows already that the text is broken
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
