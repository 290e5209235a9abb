package catalog

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/rawjson"
)

// Limits on the texts of a definition.
const (
	// maxText bounds a text of a definition, in bytes. A longer text is cut.
	maxText = 64 << 10
	// maxIdentifier bounds a name or URI, in bytes. An entry with a longer one is left out, because
	// a cut identifier would name something else.
	maxIdentifier = 8 << 10
)

// cutMark ends a text that was cut.
const cutMark = "…"

// boundTexts cuts every text of a definition, which must be valid JSON, to maxText bytes. It
// returns raw itself if no text is longer. cut is the number of texts that were cut, longest the
// original size of the longest. A key over the limit is an error, because keys cannot be cut.
func boundTexts(raw []byte) (out []byte, cut, longest int, err error) {
	if len(raw) <= maxText {
		return raw, 0, 0, nil
	}
	done := 0 // out has raw up to here
	for i := 0; i < len(raw); i++ {
		if raw[i] != '"' {
			continue
		}
		end, err := rawjson.Skip(raw, i)
		if err != nil {
			return nil, 0, 0, err
		}
		if end-i-2 > maxText {
			if colon := rawjson.SkipSpace(raw, end); colon < len(raw) && raw[colon] == ':' {
				return nil, 0, 0, fmt.Errorf("it has a key of %d bytes", end-i-2)
			}
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
