package primitive

import (
	"bytes"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// textFilter says which strings of a document replaceTexts replaces. Keys are never replaced.
type textFilter struct {
	elements bool                                // strings in arrays
	member   func(key string, value byte) choice // by the key and the first byte of the value
}

// choice is how replaceTexts treats the value of a member.
type choice uint8

const (
	keepText    choice = iota // a string stays; the members of an object or array are looked at
	replaceText               // a string is replaced
	skipValue                 // the whole value stays
)

// replaceTexts applies replace to the strings that are chosen, at any depth. It returns raw itself
// if none of them changes, or if raw is not JSON, which is reported where it is parsed.
func replaceTexts(raw []byte, chosen textFilter, replace func(string) string) []byte {
	var out []byte
	done := 0 // out has raw up to here
	take := chosen.elements
	for i := 0; i < len(raw); {
		n := bytes.IndexByte(raw[i:], '"')
		if n < 0 {
			break
		}
		start := i + n
		end, err := rawjson.Skip(raw, start)
		if err != nil {
			return raw
		}
		i = end
		if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
			value := rawjson.SkipSpace(raw, colon+1)
			if value >= len(raw) {
				return raw
			}
			choice := chosen.member(rawjson.Text(raw[start:end]), raw[value])
			take = choice == replaceText
			if choice == skipValue {
				if i, err = rawjson.Skip(raw, value); err != nil {
					return raw
				}
			}
			continue
		}
		if take {
			text := rawjson.Text(raw[start:end])
			if clean := replace(text); clean != text {
				out = rawjson.AppendString(append(out, raw[done:start]...), clean)
				done = end
			}
		}
		take = chosen.elements
	}
	if done == 0 {
		return raw
	}
	return append(out, raw[done:]...)
}
