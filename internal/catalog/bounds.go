package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Bounds on the texts of a definition.
const (
	// MaxText is the longest text of a definition, in bytes. Of a longer one the
	// beginning is kept.
	MaxText = 64 << 10
	// maxIdentifier is the longest name or URI, in bytes. An entry with a longer
	// one is left out: a cut one would call something else.
	maxIdentifier = 8 << 10
)

// cutMark ends a text of which more was there.
const cutMark = "…"

// boundTexts returns a definition, which must be valid JSON, with every text of
// at most MaxText bytes: raw itself where none is longer. cut is how many were
// cut, longest the bytes of the longest as it came. An object with a key over the
// bound is an error, because nothing can stand for it.
func boundTexts(raw []byte) (out []byte, cut, longest int, err error) {
	if len(raw) <= MaxText {
		return raw, 0, 0, nil
	}
	done := 0 // raw up to here is in out
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end, err := rawjson.Skip(raw, i)
		if err != nil {
			return nil, 0, 0, err
		}
		if end-i-2 > MaxText {
			if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
				return nil, 0, 0, fmt.Errorf("it has a key of %d bytes", end-i-2)
			}
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

// KeptSize returns how many bytes of a definition a catalog keeps.
func KeptSize(raw []byte) int {
	kept, _, _, err := boundTexts(raw)
	if err != nil {
		return 0 // it is left out
	}
	return len(kept)
}

// cutText returns the first MaxText bytes of a text, or a few less where a
// character would be cut.
func cutText(text string) string {
	text = text[:MaxText-len(cutMark)]
	for len(text) > 0 && !utf8.RuneStart(text[len(text)-1]) {
		text = text[:len(text)-1]
	}
	if len(text) > 0 && text[len(text)-1] >= utf8.RuneSelf {
		text = text[:len(text)-1] // the beginning of a character
	}
	return strings.Clone(text) + cutMark
}
