package catalog

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/visible"
)

// hiddenIn returns the kinds of invisible characters in a definition, including its names and keys.
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
			break // cannot happen: validated before
		}
		if quoted := raw[i+n : end]; mayHide(quoted) {
			kinds |= visible.Find(rawjson.Text(quoted))
		}
		i = end
	}
	return kinds
}

// mayHide reports whether a JSON text may contain invisible characters. This test costs far less
// than decoding, and it is nearly always false.
func mayHide(raw []byte) bool {
	for _, c := range raw {
		if c >= 0x7f {
			return true
		}
	}
	return bytes.Contains(raw, []byte(`\u`)) || bytes.Contains(raw, []byte(`\b`))
}

// VisibleTexts removes invisible characters from titles and descriptions, at any depth. Other
// values, such as enums, patterns and names, keep their bytes. It returns raw itself if there is
// nothing to remove.
func VisibleTexts(raw []byte) []byte {
	if !mayHide(raw) {
		return raw
	}
	var out []byte
	done := 0      // out has raw up to here
	prose := false // the previous string was the key of a text for people
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw // not JSON: reported where it is parsed
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

// isProse reports whether a quoted key holds a text for people.
func isProse(quoted []byte) bool {
	switch rawjson.Text(quoted) {
	case "description", "title", "$comment":
		return true
	}
	return false
}
