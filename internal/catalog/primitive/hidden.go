package primitive

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Hidden returns the kinds of invisible characters in a definition, including its names and keys.
func Hidden(raw []byte) (kinds visible.Kinds) {
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
	return replaceTexts(raw, textFilter{member: func(key string, value byte) choice {
		if value == '"' && isProse(key) {
			return replaceText
		}
		return keepText
	}}, visible.Text)
}

// isProse reports whether the value of a key is a text for people.
func isProse(key string) bool {
	switch key {
	case "description", "title", "$comment":
		return true
	}
	return false
}
