package search

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// maxToken bounds one token in bytes; longer ones (base64, hashes) are cut.
const maxToken = 64

// analyzer splits text into tokens. It owns its buffers, so it is not safe for concurrent use. A
// token passed to emit is valid until emit returns.
type analyzer struct {
	word  []rune
	out   []byte
	whole bool // the token at hand repeats the parts of a word in camelCase that came before it
	emit  func(tok []byte)
}

// text emits the lower-case tokens of s in reading order.
//
// Letters, digits and combining marks form words; any other character (also _ - . and /) ends one.
// A camelCase word is emitted in parts and then as a whole, so that "YouTube" matches "youtube" and
// "tube". Letters of scripts without spaces are emitted as overlapping pairs. Latin letters lose
// their accents; compatibility forms (full width) are folded.
func (a *analyzer) text(s string) {
	if !ascii(s) {
		s = fold(s)
	}
	a.word = a.word[:0]
	dense := false
	for i, r := range s {
		switch {
		case unspaced(r):
			if !dense {
				a.flush(false)
			}
			dense = true
			a.word = append(a.word, r)
		case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
			if dense {
				a.flush(true)
				dense = false
			}
			a.word = append(a.word, r)
		case (r == '\'' || r == '’') && possessive(s[i+utf8.RuneLen(r):]):
			// The apostrophe of "user's" ends the word; flush drops the s because it is too short.
			a.flush(dense)
			dense = false
		default:
			a.flush(dense)
			dense = false
		}
	}
	a.flush(dense)
}

// possessive reports whether rest starts with the s of a genitive or the tail of a contraction.
func possessive(rest string) bool {
	return len(rest) > 0 && (rest[0]|0x20 == 's') && (len(rest) == 1 || !isAlnum(rest[1]))
}

func isAlnum(c byte) bool {
	return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z' || c >= utf8.RuneSelf
}

// flush emits the collected word and clears it.
func (a *analyzer) flush(dense bool) {
	w := a.word
	a.word = a.word[:0]
	if len(w) == 0 {
		return
	}
	if dense {
		if len(w) == 1 {
			a.token(w)
			return
		}
		for i := 0; i+1 < len(w); i++ {
			a.token(w[i : i+2])
		}
		return
	}
	start := 0
	for i := 1; i < len(w); i++ {
		if boundary(w, i) {
			a.token(w[start:i])
			start = i
		}
	}
	if start > 0 {
		a.token(w[start:])
		a.whole = true
	}
	a.token(w)
	a.whole = false
}

// boundary reports whether a part of a camelCase word starts at i: an upper-case letter after a
// lower-case one or a digit, the last upper-case letter of an acronym (HTTPServer), or a change
// between digits and letters.
func boundary(w []rune, i int) bool {
	prev, cur := w[i-1], w[i]
	if unicode.IsMark(cur) {
		return false
	}
	if unicode.IsDigit(prev) != unicode.IsDigit(cur) {
		return true
	}
	if !unicode.IsUpper(cur) {
		return false
	}
	if !unicode.IsUpper(prev) {
		return true
	}
	return i+1 < len(w) && unicode.IsLower(w[i+1])
}

func (a *analyzer) token(w []rune) {
	a.out = a.out[:0]
	for _, r := range w {
		if len(a.out)+utf8.UTFMax > maxToken {
			break
		}
		a.out = utf8.AppendRune(a.out, unicode.ToLower(r))
	}
	a.emit(a.out)
}

// unspaced reports whether r belongs to a script without spaces between words.
func unspaced(r rune) bool {
	if r < 0x0e00 {
		return false
	}
	// Unicode assigns the prolonged sound mark to no script, but Japanese uses it.
	return r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao,
		unicode.Khmer, unicode.Myanmar)
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// fold removes accents from Latin, Greek and Cyrillic letters and folds compatibility forms. It
// keeps the marks of other scripts, because they are vowels there.
func fold(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	plain := false
	for _, r := range norm.NFKD.String(s) {
		if unicode.Is(unicode.Mn, r) && plain {
			continue
		}
		if !unicode.Is(unicode.Mn, r) {
			plain = r < 0x0530
		}
		b.WriteRune(r)
	}
	return norm.NFC.String(b.String())
}
