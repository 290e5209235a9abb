package visible

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// reader judges the characters of a text in order.
type reader struct {
	s string
	// flagEnd is the end of a flag made of tags that starts before it.
	flagEnd int
}

// judge decides about the character c at s[at:], of size bytes. It returns keep, or the kind of the
// removed character and its replacement.
func (r *reader) judge(c rune, size, at int) (verdict Kinds, with string) {
	switch {
	case c == utf8.RuneError && size == 1:
		return Controls, "\ufffd"
	case c == '\r' && strings.HasPrefix(r.s[at+1:], "\n"):
		return keep, ""
	case c == '\r', c == '\v', c == '\f', c == 0x85, c == 0x2028, c == 0x2029:
		return Controls, "\n"
	case c < 0xa0, c >= 0xfdd0 && c <= 0xfdef, c&0xfffe == 0xfffe:
		return Controls, ""
	case c >= 0xe0000 && c <= 0xe0fff:
		return r.tag(c, at), ""
	case c >= 0x202a && c <= 0x202e, c >= 0x2066 && c <= 0x2069:
		return Bidi, ""
	case c == 0x61c, c == 0x200e, c == 0x200f:
		return unless(r.besideRTL(at, size), Bidi), ""
	case c == 0x200c, c == 0x200d:
		return unless(r.joins(c, at, size), ZeroWidth), ""
	case c == 0x200b:
		return unless(r.breaks(at, size), ZeroWidth), ""
	case c == 0x180e:
		return unless(unicode.Is(unicode.Mongolian, r.before(at)) && unicode.Is(unicode.Mongolian, r.after(at+size)), ZeroWidth), ""
	case c >= 0x2060 && c <= 0x206f, c == 0xfeff:
		return ZeroWidth, ""
	case c >= 0xfe00 && c <= 0xfe0f, c >= 0x180b && c <= 0x180f:
		return unless(varies(r.before(at), c), Variations), ""
	}
	return unless(r.fills(c, at, size), Fillers), ""
}

func unless(stays bool, kind Kinds) Kinds {
	if stays {
		return keep
	}
	return kind
}

// before is the character before index i, -1 at the start.
func (r *reader) before(i int) rune {
	c, size := utf8.DecodeLastRuneInString(r.s[:i])
	if size == 0 {
		return -1
	}
	return c
}

// after is the character at index i, -1 at the end.
func (r *reader) after(i int) rune {
	c, size := utf8.DecodeRuneInString(r.s[i:])
	if size == 0 {
		return -1
	}
	return c
}

// base is the character before index i that the marks before i stand on.
func (r *reader) base(i int) rune {
	for n := 0; n < 8; n++ {
		c, size := utf8.DecodeLastRuneInString(r.s[:i])
		if size == 0 {
			return -1
		}
		if !unicode.Is(unicode.M, c) {
			return c
		}
		i -= size
	}
	return -1
}

// flags are the flags that are made of tags: England, Scotland and Wales. Other sequences are not
// shown as flags anywhere, and could say anything.
var flags = []string{
	"\U0001F3F4\U000E0067\U000E0062\U000E0065\U000E006E\U000E0067\U000E007F",
	"\U0001F3F4\U000E0067\U000E0062\U000E0073\U000E0063\U000E0074\U000E007F",
	"\U0001F3F4\U000E0067\U000E0062\U000E0077\U000E006C\U000E0073\U000E007F",
}

const blackFlag = "\U0001F3F4"

// tag judges characters of plane 14: tags, and variation selectors of Han.
func (r *reader) tag(c rune, at int) Kinds {
	if c >= 0xe0100 && c <= 0xe01ef {
		return unless(unicode.Is(unicode.Han, r.before(at)), Variations)
	}
	if at < r.flagEnd {
		return keep
	}
	if begin := at - len(blackFlag); begin >= 0 {
		for _, flag := range flags {
			if strings.HasPrefix(r.s[begin:], flag) {
				r.flagEnd = begin + len(flag)
				return keep
			}
		}
	}
	return Tags
}

// joining are the scripts whose letters take other forms with a joiner, or
// without one.
var joining = []*unicode.RangeTable{
	unicode.Arabic, unicode.Syriac, unicode.Nko, unicode.Mandaic, unicode.Mongolian, unicode.Phags_Pa, unicode.Adlam, unicode.Hanifi_Rohingya,
	unicode.Devanagari, unicode.Bengali, unicode.Gurmukhi, unicode.Gujarati, unicode.Oriya, unicode.Tamil, unicode.Telugu, unicode.Kannada,
	unicode.Malayalam, unicode.Sinhala, unicode.Myanmar, unicode.Khmer, unicode.Tibetan, unicode.Balinese, unicode.Javanese, unicode.Meetei_Mayek,
}

// joins reports whether a joiner, or a non-joiner, has something to join.
func (r *reader) joins(c rune, at, size int) bool {
	before := r.before(at)
	if before == 0x200c || before == 0x200d {
		return false // one is enough: more of them spell something
	}
	if c == 0x200d && pictures(r.after(at+size)) && (pictures(before) || before == 0xfe0f && pictures(r.base(at)) || before == 0xe007f) {
		return true
	}
	return joinable(before) || unicode.Is(unicode.M, before) && joinable(r.base(at))
}

// joinable reports whether a character is of a joining script; the stroke that
// lengthens Arabic letters is of no script by itself.
func joinable(c rune) bool { return c == 0x640 || unicode.In(c, joining...) }

// pictures reports whether a character is a picture that others may be joined to.
func pictures(c rune) bool {
	switch {
	case c < 0x203c:
		return c == 0xa9 || c == 0xae
	case c < 0x3000:
		return c == 0x203c || c == 0x2049 || c == 0x2122 || c == 0x2139 || c >= 0x2190 && c <= 0x21ff || c >= 0x2300 && c <= 0x23ff ||
			c == 0x24c2 || c >= 0x25a0 && c <= 0x27bf || c >= 0x2900 && c <= 0x297f || c >= 0x2b00 && c <= 0x2bff
	}
	return c == 0x3030 || c == 0x303d || c == 0x3297 || c == 0x3299 || c >= 0x1f000 && c <= 0x1faff
}

// varies reports whether a character has the variation that a selector asks for.
func varies(base, selector rune) bool {
	switch {
	case base < 0:
		return false
	case selector < 0x1900:
		return unicode.Is(unicode.Mongolian, base)
	case selector >= 0xfe0e: // text, emoji
		return pictures(base) || base >= '0' && base <= '9' || base == '#' || base == '*'
	}
	return unicode.In(base, unicode.Han, unicode.Sm, unicode.Myanmar, unicode.Phags_Pa, unicode.Manichaean) ||
		base >= 0x3000 && base <= 0x303f || base >= 0xff00 && base <= 0xff65
}

// breaking are the scripts that write no spaces between words, and mark where a
// line may be broken.
var breaking = []*unicode.RangeTable{unicode.Khmer, unicode.Thai, unicode.Lao, unicode.Myanmar, unicode.Tibetan, unicode.Javanese, unicode.Balinese}

// breaks reports whether a zero-width space stands between words of such a script.
func (r *reader) breaks(at, size int) bool {
	return unicode.In(r.before(at), breaking...) && unicode.In(r.after(at+size), breaking...)
}

// rtl are the scripts that are written from right to left.
var rtl = []*unicode.RangeTable{
	unicode.Hebrew, unicode.Arabic, unicode.Syriac, unicode.Thaana, unicode.Nko, unicode.Samaritan, unicode.Mandaic, unicode.Adlam, unicode.Hanifi_Rohingya,
}

// nearby is how many characters besideRTL looks at in either direction.
const nearby = 16

// besideRTL reports whether a direction mark has an effect: on one side at least, the nearest
// letters, after signs and digits, belong to a right-to-left script, and no other mark is adjacent.
func (r *reader) besideRTL(at, size int) bool {
	mark := func(c rune) bool { return c == 0x61c || c == 0x200e || c == 0x200f }
	if mark(r.before(at)) {
		return false
	}
	for i, n := at, 0; n < nearby && i > 0; n++ {
		c, width := utf8.DecodeLastRuneInString(r.s[:i])
		i -= width
		if unicode.IsLetter(c) || unicode.Is(unicode.M, c) && unicode.In(c, rtl...) {
			if unicode.In(c, rtl...) {
				return true
			}
			break
		}
	}
	for i, n := at+size, 0; n < nearby && i < len(r.s); n++ {
		c, width := utf8.DecodeRuneInString(r.s[i:])
		i += width
		if unicode.IsLetter(c) {
			return unicode.In(c, rtl...)
		}
	}
	return false
}

// fills reports whether a character without a shape of its own has a place to be.
func (r *reader) fills(c rune, at, size int) bool {
	before, after := r.before(at), r.after(at+size)
	switch {
	case c == 0x115f: // a syllable without its first letter
		return after >= 0x1160 && after <= 0x11ff
	case c == 0x1160: // a syllable without its vowel
		return before >= 0x1100 && before <= 0x115f
	case c == 0x34f: // keeps marks of Hebrew in their order
		return unicode.Is(unicode.Hebrew, before) && unicode.Is(unicode.Hebrew, after)
	case c == 0x2800: // a cell of Braille without dots
		return r.besideBraille(at, size)
	}
	return false
}

// cells is the number of blank cells allowed next to one with dots: pictures contain rows of them.
const cells = 256

// besideBraille reports whether blank cells are next to cells with dots.
func (r *reader) besideBraille(at, size int) bool {
	dots := func(c rune) bool { return c > 0x2800 && c <= 0x28ff }
	for i, n := at, 0; n < cells && i > 0; n++ {
		c, width := utf8.DecodeLastRuneInString(r.s[:i])
		if dots(c) {
			return true
		}
		if c != 0x2800 && c != ' ' && c != '\n' {
			break
		}
		i -= width
	}
	for i, n := at+size, 0; n < cells && i < len(r.s); n++ {
		c, width := utf8.DecodeRuneInString(r.s[i:])
		if dots(c) {
			return true
		}
		if c != 0x2800 && c != ' ' && c != '\n' {
			return false
		}
		i += width
	}
	return false
}
