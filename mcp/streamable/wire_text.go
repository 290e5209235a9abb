package streamable

import (
	"bytes"
	"io"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// textReader returns the bytes of a reader as text that every reader accepts: invalid UTF-8 and
// escaped halves of surrogate pairs become U+FFFD. It holds back a character or an escape that spans
// two reads until it is complete. Valid text is not copied.
type textReader struct {
	r    io.Reader
	err  error  // of r, returned after everything before it
	left []byte // repaired text that did not fit
	held [maxHeld]byte
	n    int // bytes in held: the start of a character, an escape or a pair of escapes
}

// maxHeld is the length of two escapes without their last byte, and the start of a character.
const maxHeld = len(`\ud83d\ude0`) + utf8.UTFMax - 1

// NewTextReader returns a reader of r's bytes as UTF-8, for text that is forwarded without parsing.
func NewTextReader(r io.Reader) io.Reader { return &textReader{r: r} }

// minRead is the smallest buffer in which a pair of escapes can be completed.
const minRead = maxHeld + 2

// Read implements io.Reader.
func (t *textReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for {
		if len(t.left) > 0 {
			n := copy(p, t.left)
			t.left = t.left[n:]
			return n, nil
		}
		if t.err != nil {
			return 0, t.err
		}
		if len(p) < minRead {
			var small [minRead]byte
			text := t.fill(small[:])
			t.left = bytes.Clone(text)
			continue
		}
		text := t.fill(p)
		if len(text) == 0 {
			continue
		}
		if &text[0] == &p[0] {
			return len(text), nil
		}
		n := copy(p, text)
		t.left = text[n:]
		return n, nil
	}
}

// fill reads once into p, after the held bytes, and returns the text that is complete: a part of p,
// or a repaired copy.
func (t *textReader) fill(p []byte) []byte {
	n := copy(p, t.held[:t.n])
	m, err := t.r.Read(p[n:])
	t.err = err
	text := p[:n+m]
	t.n = 0
	if err != nil {
		return rawjson.RepairText(text)
	}
	whole, valid := text, utf8.Valid(text)
	if !valid {
		whole = whole[:len(whole)-unfinished(whole)]
		valid = utf8.Valid(whole)
	}
	whole = whole[:len(whole)-rawjson.RepairEscapes(whole)]
	t.n = copy(t.held[:], text[len(whole):])
	if valid {
		return whole
	}
	return bytes.ToValidUTF8(whole, []byte("\uFFFD"))
}

// unfinished returns the number of bytes at the end of text that start an incomplete character.
func unfinished(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if last := text[len(text)-n:]; utf8.RuneStart(last[0]) {
			if utf8.FullRune(last) {
				return 0
			}
			return n
		}
	}
	return 0
}
