package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Limits on the texts of a definition.
const (
	// maxText bounds a text of a definition, in bytes. A longer text is cut; see boundTexts.
	maxText = 64 << 10
	// maxIdentifier bounds a name or URI, in bytes. An entry with a longer one is left out, because
	// a cut identifier would name something else.
	maxIdentifier = 8 << 10
)

// cutMark ends a text that was cut.
const cutMark = "…"

// place says how boundTexts treats the texts of a value, by where the value stands.
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

// boundTexts cuts the texts of a definition, which must be valid JSON, to maxText bytes. Values that
// decide about arguments are not cut: a cut value would refuse arguments that the server accepts.
// boundTexts returns raw itself if no text is longer. cut is the number of texts that were cut,
// longest the original size of the longest. A key over the limit is an error, because keys cannot be
// cut.
func boundTexts(raw []byte) (out []byte, cut, longest int, err error) {
	if len(raw) <= maxText {
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
		long := end-i-2 > maxText
		if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
			if long {
				return nil, 0, 0, fmt.Errorf("it has a key of %d bytes", end-i-2)
			}
			at = at.member(rawjson.Text(raw[i:end]))
		} else if long && at != inValue {
			if text := rawjson.Text(raw[i:end]); len(text) > maxText {
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
	kept, _, _, err := boundTexts(raw)
	if err != nil {
		return 0 // the entry is left out
	}
	return len(kept)
}

// cutText returns the first maxText bytes of a text, without splitting a character.
func cutText(text string) string {
	text = text[:maxText-len(cutMark)]
	for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	if len(text) > 0 && text[len(text)-1] >= utf8.RuneSelf {
		text = text[:len(text)-1] // an incomplete character
	}
	return strings.Clone(text) + cutMark
}
