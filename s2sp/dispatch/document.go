package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// EachDocument calls f with the JSON objects in the result of a tools/call: structuredContent, the
// JSON of a text block or embedded resource, and the objects, lists and JSON texts in an object that
// f does not replace. f returns the replacement, and whether there is one. EachDocument returns
// result itself if nothing changed, and never writes to it.
//
// In an object with NaN, Infinity or -Infinity, f sees null in their place. If f replaces such an
// object, the replacement gets a member warnings that says so.
//
// Text that does not contain word is skipped without parsing. word must occur in every object that
// f replaces.
func EachDocument(result json.RawMessage, word string, f func(obj []byte) ([]byte, bool)) json.RawMessage {
	return walk{word: []byte(word), take: f, element: f, broken: func([]byte, error) {}}.result(result)
}

// walk is one traversal of the documents of a result.
type walk struct {
	word    []byte
	take    func(obj []byte) ([]byte, bool)
	element func(obj []byte) ([]byte, bool) // replaces take for elements of arrays, and for members other than result
	broken  func(text []byte, err error)    // called with text that contains word and cannot be examined
	depth   int
}

func (w walk) result(result json.RawMessage) json.RawMessage {
	var content, structured []byte
	fields := []rawjson.Field{rawjson.Key("content", &content), rawjson.Key("structuredContent", &structured)}
	if err := rawjson.Scan(result, fields...); err != nil {
		clean, n := rawjson.Finite(result)
		if n == 0 || rawjson.Scan(clean, fields...) != nil {
			w.broken(result, err)
			return result
		}
		out := w.result(clean)
		if bytes.Equal(out, clean) {
			return result
		}
		return out
	}
	out := result
	if next, ok := w.document(structured); ok {
		out = set(out, "structuredContent", next)
	}
	if !rawjson.IsArray(content) {
		return out
	}
	if blocks, ok := each(content, w.block); ok {
		out = set(out, "content", blocks)
	}
	return out
}

// block examines a content block: its text, or its resource's text.
func (w walk) block(block []byte) ([]byte, bool) {
	for _, path := range [...][]string{{"text"}, {"resource", "text"}} {
		text := rawjson.GetPath(block, path...)
		if text == nil {
			continue
		}
		if next, ok := w.text(text); ok {
			out, err := rawjson.SetPath(block, next, path...)
			return out, err == nil
		}
	}
	return nil, false
}

// text examines a JSON string that contains JSON.
func (w walk) text(quoted []byte) ([]byte, bool) {
	if !bytes.Contains(quoted, w.word) {
		return nil, false
	}
	text, err := rawjson.Unquote(quoted)
	if err != nil {
		return nil, false
	}
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	nulled := 0
	if err := rawjson.Valid(text); err != nil {
		clean, n := rawjson.Finite(text)
		if n == 0 || rawjson.Valid(clean) != nil {
			w.broken(text, err)
			return nil, false
		}
		text, nulled = clean, n
	}
	next, ok := w.document(text)
	if !ok {
		return nil, false
	}
	if nulled > 0 && rawjson.IsObject(next) {
		next = warn(next, rawjson.FiniteNote(nulled))
	}
	return rawjson.QuoteText(next), true
}

// maxDepth bounds how deep walk descends, because each level costs a pass over the levels below it.
const maxDepth = 16

var errTooDeep = fmt.Errorf("it is nested more than %d deep", maxDepth)

// document examines the value of structuredContent, of a text, or of a member "result".
func (w walk) document(doc []byte) ([]byte, bool) {
	if rawjson.IsObject(doc) {
		if next, ok := w.take(doc); ok {
			return next, true
		}
	}
	return w.inside(doc)
}

// item examines a member of an object or an element of an array.
func (w walk) item(v []byte) ([]byte, bool) {
	if v[0] == '"' {
		return w.text(v)
	}
	if v[0] == '{' {
		if next, ok := w.element(v); ok {
			return next, true
		}
	}
	return w.inside(v)
}

// inside examines the members of an object or the elements of an array.
func (w walk) inside(doc []byte) ([]byte, bool) {
	object := rawjson.IsObject(doc)
	if !object && !rawjson.IsArray(doc) || !bytes.Contains(doc, w.word) {
		return nil, false
	}
	if w.depth++; w.depth > maxDepth {
		w.broken(doc, errTooDeep)
		return nil, false
	}
	if !object {
		return each(doc, w.item)
	}
	return eachMember(doc, func(m rawjson.Member) ([]byte, bool) {
		if string(m.Key) == "result" && m.Value[0] == '{' {
			return w.document(m.Value)
		}
		return w.item(m.Value)
	})
}

// eachMember replaces the values of the members that f replaces, and reports whether there were any.
func eachMember(obj []byte, f func(m rawjson.Member) ([]byte, bool)) ([]byte, bool) {
	var out []byte
	copied := 0 // how much of obj is in out
	err := rawjson.EachMember(obj, func(m rawjson.Member) bool {
		if next, ok := f(m); ok {
			out = append(append(out, obj[copied:m.End-len(m.Value)]...), next...)
			copied = m.End
		}
		return true
	})
	if err != nil || copied == 0 {
		return nil, false
	}
	return append(out, obj[copied:]...), true
}

// each replaces the elements of an array that f replaces, and reports whether there were any.
func each(array []byte, f func([]byte) ([]byte, bool)) ([]byte, bool) {
	taken := map[int][]byte{}
	n := 0
	err := rawjson.EachElement(array, func(v []byte) bool {
		if next, ok := f(v); ok {
			taken[n] = next
		}
		n++
		return true
	})
	if err != nil || len(taken) == 0 {
		return nil, false
	}
	out := append(make([]byte, 0, len(array)), '[')
	n = 0
	err = rawjson.EachElement(array, func(v []byte) bool {
		if n > 0 {
			out = append(out, ',')
		}
		if next, ok := taken[n]; ok {
			v = next
		}
		out = append(out, v...)
		n++
		return true
	})
	return append(out, ']'), err == nil
}

// set replaces or adds a member of a valid object.
func set(obj []byte, key string, value []byte) []byte {
	out, err := rawjson.Set(obj, key, value)
	if err != nil {
		return obj
	}
	return out
}

// warn adds a text to the member warnings of an object.
func warn(obj []byte, text string) []byte {
	warnings := rawjson.Get(obj, "warnings")
	if !rawjson.IsArray(warnings) {
		return set(obj, "warnings", fmt.Appendf(nil, "[%s]", rawjson.Quote(text)))
	}
	out := bytes.TrimSpace(warnings[:bytes.LastIndexByte(warnings, ']')])
	out = append(make([]byte, 0, len(out)+len(text)+8), out...)
	if len(out) > 1 {
		out = append(out, ',')
	}
	return set(obj, "warnings", append(append(out, rawjson.Quote(text)...), ']'))
}
