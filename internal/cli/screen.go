package cli

import (
	"bytes"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/text/visible"
)

// A screen is the last filter before a terminal. It passes only the control sequences that weir
// itself writes: styles, carriage return and clear line. It removes all others, such as escape
// sequences in a tool's name, so that a text that was not cleaned cannot deceive the reader. It is safe
// for concurrent use.
type screen struct {
	w io.Writer

	mu   sync.Mutex // guards the fields below and the order of writes
	rest []byte     // an incomplete character from the last Write
}

// ownControl matches the control sequences that weir writes.
var ownControl = regexp.MustCompile(`\x1b\[[0-9;]*[mK]|\r`)

// Write implements io.Writer.
func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text := append(s.rest, p...)
	s.rest = nil
	if n := incomplete(text); n > 0 {
		s.rest = bytes.Clone(text[len(text)-n:])
		text = text[:len(text)-n]
	}
	if _, err := io.WriteString(s.w, steered(string(text))); err != nil {
		return 0, err
	}
	return len(p), nil
}

// steered returns text with weir's own control sequences and no others.
func steered(text string) string {
	if visible.Text(text) == text {
		return text
	}
	var b strings.Builder
	at := 0
	for _, own := range ownControl.FindAllStringIndex(text, -1) {
		b.WriteString(visible.Text(text[at:own[0]]))
		b.WriteString(text[own[0]:own[1]])
		at = own[1]
	}
	b.WriteString(visible.Text(text[at:]))
	return b.String()
}

// incomplete returns the number of bytes of an incomplete character at the end of text.
func incomplete(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if c := text[len(text)-n]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(text[len(text)-n:]) {
				return n
			}
			return 0
		}
	}
	return 0
}
