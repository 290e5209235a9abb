package visible

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Kinds is a set of kinds of invisible characters.
type Kinds uint8

// The kinds.
const (
	Controls   Kinds = 1 << iota // C0, C1, DEL, noncharacters; not tabs and ends of lines
	Tags                         // Unicode tags: ASCII that is not shown
	Bidi                         // embeddings, overrides, isolates, and stray marks of direction
	ZeroWidth                    // spaces and joiners of no width where no script needs them
	Variations                   // variation selectors behind a character without variations
	Fillers                      // characters without a shape: soft hyphens, fillers, annotations
)

var kindNames = [...]string{
	"control characters", "Unicode tags", "bidirectional controls", "zero-width characters", "variation selectors", "invisible fillers",
}

// String names the kinds, for a sentence.
func (k Kinds) String() string {
	var names []string
	for i, name := range kindNames {
		if k&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// Text returns s without invisible characters. Line ends written as control characters become "\n",
// but "\r\n" stays; invalid UTF-8 becomes U+FFFD. If there is nothing to change, Text returns s
// itself.
func Text(s string) string {
	at := suspicious(s, 0)
	if at == len(s) {
		return s
	}
	r := reader{s: s}
	var b strings.Builder
	changed := false
	done := 0 // b has the visible part of s up to here
	for at < len(s) {
		c, size := utf8.DecodeRuneInString(s[at:])
		verdict, with := r.judge(c, size, at)
		if verdict != keep {
			if !changed {
				b.Grow(len(s))
				changed = true
			}
			b.WriteString(s[done:at])
			b.WriteString(with)
			done = at + size
		}
		at = suspicious(s, at+size)
	}
	if !changed {
		return s
	}
	b.WriteString(s[done:])
	return b.String()
}

// Escaped returns s with escapes in the place of the characters that Text removes, such as \u200b. Line
// ends of all kinds become "\n".
func Escaped(s string) string {
	var b strings.Builder
	r := reader{s: s}
	done := 0
	for at := suspicious(s, 0); at < len(s); {
		c, size := utf8.DecodeRuneInString(s[at:])
		if verdict, with := r.judge(c, size, at); verdict != keep {
			b.WriteString(s[done:at])
			switch {
			case with != "":
				b.WriteString(with)
			case c <= 0xffff:
				fmt.Fprintf(&b, `\u%04x`, c)
			default:
				fmt.Fprintf(&b, `\u{%x}`, c)
			}
			done = at + size
		}
		at = suspicious(s, at+size)
	}
	b.WriteString(s[done:])
	return strings.ReplaceAll(b.String(), "\r\n", "\n")
}

// Suspects reports whether a text has characters that can be invisible. Text and Find judge them where
// they stand. It costs less than they do.
func Suspects(s string) bool { return suspicious(s, 0) < len(s) }

// SuspectsRune is Suspects for one character.
func SuspectsRune(c rune) bool {
	return (c >= utf8.RuneSelf || !plain[byte(c)]) && mayHide(c, utf8.RuneLen(c))
}

// Find returns the kinds of characters that Text would remove from s. It ignores line ends, a
// leading byte order mark and invalid UTF-8.
func Find(s string) (kinds Kinds) {
	r := reader{s: s}
	for at := suspicious(s, 0); at < len(s); {
		c, size := utf8.DecodeRuneInString(s[at:])
		if verdict, with := r.judge(c, size, at); verdict != keep && with == "" && (c != '\ufeff' || at > 0) {
			kinds |= verdict
		}
		at = suspicious(s, at+size)
	}
	return kinds
}

// keep is the verdict for a character that stays.
const keep Kinds = 0

// suspicious returns the index at or after i of the first character that may have
// to go, or len(s).
func suspicious(s string, i int) int {
	for i < len(s) {
		if plain[s[i]] {
			i++
			continue
		}
		if s[i] < utf8.RuneSelf {
			return i
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if mayHide(r, size) {
			return i
		}
		i += size
	}
	return i
}

// plain says of each byte whether it is a character that is always seen.
var plain = func() (table [256]bool) {
	for c := range 0x7f {
		table[c] = c >= ' ' || c == '\n' || c == '\t'
	}
	return table
}()

// mayHide reports whether a character that is not ASCII is one that judge knows.
// All others are seen.
func mayHide(r rune, size int) bool {
	switch {
	case r < 0x34f:
		return r <= 0x9f || r == 0xad
	case r < 0x2000:
		return r == 0x34f || r == 0x61c || r == 0x115f || r == 0x1160 || r == 0x17b4 || r == 0x17b5 || r >= 0x180b && r <= 0x180f
	case r < 0x3000:
		return r >= 0x200b && r <= 0x200f || r >= 0x2028 && r <= 0x202e || r >= 0x2060 && r <= 0x206f || r == 0x2800
	case r < 0xf900:
		return r == 0x3164
	case r < 0x10000:
		return r >= 0xfdd0 && r <= 0xfdef || r >= 0xfe00 && r <= 0xfe0f || r == 0xfeff || r == 0xffa0 || r >= 0xfff0 && r <= 0xfffb ||
			r == utf8.RuneError && size == 1 || r >= 0xfffe
	}
	return r >= 0x1bca0 && r <= 0x1bca3 || r >= 0x1d173 && r <= 0x1d17a || r >= 0xe0000 && r <= 0xe0fff || r&0xfffe == 0xfffe
}
