package catalog

import (
	"bytes"
	"slices"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Validation copies each text twice, though most schemas ask only whether it is a text. Of a long
// text the validator gets the beginning then, which is as valid under the schema as the whole.

// textKeywords are the keywords, as they stand in JSON, whose result depends on the whole of a text.
// enum and const are not among them: a beginning that is longer than the schema is not equal to a
// text in it either.
var textKeywords = [][]byte{
	[]byte(`"pattern"`), []byte(`"format"`), []byte(`"minLength"`), []byte(`"maxLength"`), []byte(`"contentEncoding"`),
	[]byte(`"contentMediaType"`), []byte(`"contentSchema"`), []byte(`"uniqueItems"`), []byte(`"$vocabulary"`),
}

const (
	minTextClip   = 4 << 10
	longestEscape = len(`\u0000`)
)

// textClip returns how many bytes of a JSON string decide whether it is valid under a schema, 0 if
// all of them may.
func textClip(schema []byte) int {
	if bytes.Contains(schema, []byte(`\u`)) || slices.ContainsFunc(textKeywords, func(word []byte) bool { return bytes.Contains(schema, word) }) {
		return 0
	}
	// Another document may have such keywords. References are $ref, $dynamicRef and $recursiveRef.
	for rest := schema; ; {
		_, after, found := bytes.Cut(rest, []byte(`ef"`))
		if !found {
			break
		}
		rest = after
		i := rawjson.SkipSpace(after, 0)
		if i < len(after) && after[i] == ':' && !bytes.HasPrefix(after[rawjson.SkipSpace(after, i+1):], []byte(`"#`)) {
			return 0
		}
	}
	return max(minTextClip, longestEscape*(len(schema)+1))
}

// clipText returns the beginning of a JSON string that is longer than clip, as a JSON string: about
// clip bytes, with no part of an escape or of a character. If clip is 0, it returns raw.
func clipText(raw []byte, clip int) []byte {
	if clip == 0 || len(raw) <= 2*clip {
		return raw
	}
	end := 1
	for end < clip {
		n := bytes.IndexByte(raw[end:clip], '\\')
		if n < 0 {
			end = clip
			break
		}
		if end += n + 2; raw[end-1] == 'u' {
			end += 4
		}
	}
	for end < len(raw)-1 && !utf8.RuneStart(raw[end]) {
		end++
	}
	return append(slices.Clip(raw[:end:end]), '"')
}
