package catalog

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/visible"
)

// hiddenIn returns which kinds of characters that are not seen the texts of a
// definition hold, names and keys included.
func hiddenIn(raw []byte) (kinds visible.Kinds) {
	if !mayHide(raw) {
		return 0
	}
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		end, err := rawjson.Skip(raw, i+n)
		if err != nil {
			break // checked before: there is no such string
		}
		if quoted := raw[i+n : end]; mayHide(quoted) {
			kinds |= visible.Find(rawjson.Text(quoted))
		}
		i = end
	}
	return kinds
}

// mayHide reports whether a JSON text may hold characters that are not seen. Nearly
// none does, and looking costs a fraction of decoding it.
func mayHide(raw []byte) bool {
	for _, c := range raw {
		if c >= 0x7f {
			return true
		}
	}
	return bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte(`\b`))
}

// VisibleTexts returns a JSON value in which the titles and descriptions, at any
// depth, hold nothing that is not seen. Everything else keeps its bytes: an enum, a
// pattern and a name mean what they are. Where there is nothing to change, raw
// itself is returned.
func VisibleTexts(raw []byte) []byte {
	if !mayHide(raw) {
		return raw
	}
	var out []byte
	done := 0      // raw up to here is in out
	prose := false // the string before was the key of a text for people
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw // no JSON: whoever reads it says so
		}
		i = end
		quoted := raw[start:end]
		if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
			value := rawjson.SkipSpace(raw, colon+1)
			prose = value < len(raw) && raw[value] == '"' && isProse(quoted)
			continue
		}
		if !prose {
			continue
		}
		prose = false
		text := rawjson.Text(quoted)
		if clean := visible.Text(text); clean != text {
			out = rawjson.AppendString(append(out, raw[done:start]...), clean)
			done = end
		}
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}

// isProse reports whether a quoted key is one of a text for people.
func isProse(quoted []byte) bool {
	switch rawjson.Text(quoted) {
	case "description", "title", "$comment":
		return true
	}
	return false
}
