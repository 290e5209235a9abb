package primitive

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// MaxText bounds a text of a definition, in bytes. A longer text is cut; see BoundTexts.
const MaxText = 64 << 10

// cutMark ends a text that was cut.
const cutMark = "…"

// place says how BoundTexts treats the texts of a value, by where the value stands.
type place uint8

const (
	inDefinition place = iota // the definition itself
	inText                    // anything that is no schema: texts are cut
	inSchema                  // a schema: texts are cut, values that decide about arguments stay
	inSchemas                 // schemas by name
	inValue                   // such a value: nothing is cut
)

// schemaKeywords are the keywords of JSON Schema whose value is more than a schema or a text for
// readers.
var schemaKeywords = map[string]place{
	"const": inValue, "enum": inValue, "default": inValue, "pattern": inValue, "format": inValue, "type": inValue,
	"required": inValue, "dependentRequired": inValue, "dependencies": inValue,
	"$ref": inValue, "$dynamicRef": inValue, "$recursiveRef": inValue, "$id": inValue, "id": inValue, "$anchor": inValue,
	"$dynamicAnchor": inValue, "$schema": inValue,
	"properties": inSchemas, "patternProperties": inSchemas, "dependentSchemas": inSchemas, "$defs": inSchemas, "definitions": inSchemas,
}

// member returns the place of the value of a member.
func (p place) member(key string) place {
	switch p {
	case inDefinition:
		if key == "inputSchema" || key == "outputSchema" {
			return inSchema
		}
		return inText
	case inSchema:
		if at, ok := schemaKeywords[key]; ok {
			return at
		}
	case inSchemas:
		return inSchema
	}
	return p
}

// BoundTexts cuts the texts of a definition, which must be valid JSON, to MaxText bytes. Values that
// decide about arguments are not cut: a cut value would refuse arguments that the server accepts.
// BoundTexts returns raw itself if no text is longer. cut is the number of texts that were cut,
// longest the original size of the longest. A key over the limit is an error, because keys cannot be
// cut.
func BoundTexts(raw []byte) (out []byte, cut, longest int, err error) {
	if len(raw) <= MaxText {
		return raw, 0, 0, nil
	}
	done := 0               // out has raw up to here
	at := inDefinition      // the place of the next value, or of the container that i is in
	containers := []place{} // around i
	for i := 0; i < len(raw); i++ {
		switch raw[i] {
		case '{', '[':
			containers = append(containers, at)
			continue
		case '}', ']':
			containers = containers[:max(0, len(containers)-1)]
			fallthrough
		case ',':
			if len(containers) > 0 {
				at = containers[len(containers)-1]
			}
			continue
		case '"':
		default:
			continue
		}
		end, err := rawjson.Skip(raw, i)
		if err != nil {
			return nil, 0, 0, err
		}
		long := end-i-2 > MaxText
		if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
			if long {
				return nil, 0, 0, fmt.Errorf("it has a key of %d bytes", end-i-2)
			}
			at = at.member(rawjson.Text(raw[i:end]))
		} else if long && at != inValue {
			if text := rawjson.Text(raw[i:end]); len(text) > MaxText {
				out = rawjson.AppendString(append(out, raw[done:i]...), cutText(text))
				cut, longest, done = cut+1, max(longest, len(text)), end
			}
		}
		i = end - 1
	}
	if cut == 0 {
		return raw, 0, 0, nil
	}
	return append(out, raw[done:]...), cut, longest, nil
}

// KeptSize returns the size of a definition in a catalog, in bytes.
func KeptSize(raw []byte) int {
	kept, _, _, err := BoundTexts(raw)
	if err != nil {
		return 0 // the entry is left out
	}
	return len(kept)
}

// cutText returns the first MaxText bytes of a text, without splitting a character.
func cutText(text string) string {
	text = text[:MaxText-len(cutMark)]
	for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	if len(text) > 0 && text[len(text)-1] >= utf8.RuneSelf {
		text = text[:len(text)-1] // an incomplete character
	}
	return strings.Clone(text) + cutMark
}
