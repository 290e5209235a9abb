package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// EachDocument hands every JSON object that the result of a tools/call is made of
// to f: as structuredContent, as the JSON of a text block or of an embedded
// resource, or as either under the member "result" of one that f does not take. f
// returns what takes the object's place, and whether anything does. The result is
// returned as it is where nothing changes, and never written to.
//
// An object in which NaN, Infinity or -Infinity stand for numbers is handed to f
// with null in their place, and where f takes it, its member warnings says so.
//
// Text without word, which has to stand in whatever f takes, is passed over
// unread.
func EachDocument(result json.RawMessage, word string, f func(obj []byte) ([]byte, bool)) json.RawMessage {
	return walk{word: []byte(word), take: f, broken: func([]byte, error) {}, element: func([]byte) ([]byte, bool) { return nil, false }}.result(result)
}

// walk is one pass over the documents of a result.
type walk struct {
	word    []byte
	take    func(obj []byte) ([]byte, bool)
	element func(obj []byte) ([]byte, bool) // take for the objects in an array
	broken  func(text []byte, err error)    // told of text that holds word and cannot be read
}

func (w walk) result(result json.RawMessage) json.RawMessage {
	var f [2][]byte
	if err := rawjson.Fields(result, []string{"content", "structuredContent"}, f[:]); err != nil {
		clean, n := rawjson.Finite(result)
		if n == 0 || rawjson.Fields(clean, []string{"content", "structuredContent"}, f[:]) != nil {
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
	if next, ok := w.document(f[1]); ok {
		out = set(out, "structuredContent", next)
	}
	if !rawjson.IsArray(f[0]) {
		return out
	}
	if blocks, ok := each(f[0], w.block); ok {
		out = set(out, "content", blocks)
	}
	return out
}

// block looks into a content block: its text, or that of its resource.
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

// text looks into a JSON string that holds JSON.
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

// document looks at an object, and below its "result"; or at the objects in an
// array.
func (w walk) document(doc []byte) ([]byte, bool) {
	if rawjson.IsArray(doc) {
		return each(doc, w.element)
	}
	if !rawjson.IsObject(doc) {
		return nil, false
	}
	if next, ok := w.take(doc); ok {
		return next, true
	}
	inner := rawjson.Get(doc, "result")
	if len(inner) == 0 {
		return nil, false
	}
	below := w.document
	if inner[0] == '"' {
		below = w.text
	}
	next, ok := below(inner)
	if !ok {
		return nil, false
	}
	return set(doc, "result", next), true
}

// each returns array with f's values in place of the elements that f takes, and
// whether it takes any.
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

// set replaces a member that was read before, so that the object is valid.
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
