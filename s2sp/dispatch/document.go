package dispatch

import (
	"bytes"
	"encoding/json"

	"github.com/weir-mcp/weir/rawjson"
)

// EachDocument hands every valid JSON object that the result of a tools/call is made
// of to f: as structuredContent, as the JSON of a text block, or as either under the
// member "result" of one that f does not take. f returns what takes the object's
// place, and whether anything does. The result is returned as it is where nothing
// changes, and never written to.
//
// Text without word, which has to stand in whatever f takes, is passed over
// unread.
func EachDocument(result json.RawMessage, word string, f func(obj []byte) ([]byte, bool)) json.RawMessage {
	w := walk{[]byte(word), f}
	out := result
	if structured := rawjson.Get(result, "structuredContent"); structured != nil {
		if next, ok := w.document(structured); ok {
			out = set(out, "structuredContent", next)
		}
	}
	content := rawjson.Get(out, "content")
	if !rawjson.IsArray(content) {
		return out
	}
	changed := false
	blocks := []byte{'['}
	if err := rawjson.EachElement(content, func(block []byte) bool {
		if len(blocks) > 1 {
			blocks = append(blocks, ',')
		}
		if text := rawjson.Get(block, "text"); text != nil {
			if next, ok := w.text(text); ok {
				block, changed = set(block, "text", next), true
			}
		}
		blocks = append(blocks, block...)
		return true
	}); err != nil || !changed {
		return out
	}
	return set(out, "content", append(blocks, ']'))
}

// walk is one EachDocument.
type walk struct {
	word []byte
	take func([]byte) ([]byte, bool)
}

// text looks into a JSON string that holds JSON.
func (w walk) text(quoted []byte) ([]byte, bool) {
	if !bytes.Contains(quoted, w.word) {
		return nil, false
	}
	text, err := rawjson.Unquote(quoted)
	if err != nil || !rawjson.IsObject(text) || rawjson.Valid(text) != nil {
		return nil, false
	}
	next, ok := w.document(text)
	if !ok {
		return nil, false
	}
	return rawjson.Quote(string(next)), true
}

// document looks at an object, and below its "result".
func (w walk) document(obj []byte) ([]byte, bool) {
	if !rawjson.IsObject(obj) {
		return nil, false
	}
	if next, ok := w.take(obj); ok {
		return next, true
	}
	inner := rawjson.Get(obj, "result")
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
	return set(obj, "result", next), true
}

// set replaces a member that was read before, so that the object is valid.
func set(obj []byte, key string, value []byte) []byte {
	out, err := rawjson.Set(obj, key, value)
	if err != nil {
		return obj
	}
	return out
}
