package token

import (
	"unicode"
	"unicode/utf8"
)

// class is the class of a character for the split.
type class uint8

const (
	other class = iota
	letter
	number
	space
	newline // CR or LF: also white space
)

// nextPiece returns the end of the piece of s that starts at i < len(s). It is
// the split of cl100k_base written out by hand, alternative by alternative:
//
//	'(?i:s|t|re|ve|m|ll|d)
//	[^\r\n\p{L}\p{N}]?\p{L}+
//	\p{N}{1,3}
//	 ?[^\s\p{L}\p{N}]+[\r\n]*
//	\s*[\r\n]+
//	\s+(?!\S)
//	\s+
func nextPiece(s string, i int) int {
	if s[i] == '\'' {
		if n := contraction(s[i+1:]); n > 0 {
			return i + 1 + n
		}
	}
	if s[i] == ' ' && i+1 < len(s) && s[i+1] < utf8.RuneSelf && ascii[s[i+1]] == letter {
		return letters(s, i+2) // most pieces of most texts
	}
	c, size := classAt(s, i)
	switch c {
	case letter:
		return letters(s, i+size)
	case number:
		for n := 1; n < 3; n++ {
			next, nextSize := classAt(s, i+size)
			if next != number {
				break
			}
			size += nextSize
		}
		return i + size
	case newline:
		return whiteSpace(s, i)
	}
	next, nextSize := classAt(s, i+size)
	switch {
	case next == letter: // after any one character that is no line end
		return letters(s, i+size+nextSize)
	case c == other:
		return others(s, i+size)
	case s[i] == ' ' && next == other && nextSize > 0:
		return others(s, i+size+nextSize)
	}
	return whiteSpace(s, i)
}

// letters returns the end of the run of letters that goes on at i.
func letters(s string, i int) int {
	for {
		for i < len(s) && s[i] < utf8.RuneSelf && ascii[s[i]] == letter {
			i++
		}
		c, size := classAt(s, i)
		if c != letter {
			return i
		}
		i += size
	}
}

// others returns the end of the run of other characters that goes on at i,
// with the line ends behind it.
func others(s string, i int) int {
	for {
		c, size := classAt(s, i)
		if c != other || size == 0 {
			break
		}
		i += size
	}
	for i < len(s) && (s[i] == '\r' || s[i] == '\n') {
		i++
	}
	return i
}

// whiteSpace returns the end of the piece at i, which starts a run of white space: up to the run's
// last line end; else all of it at the end of the text; else all but its last character, which goes
// with the next piece.
func whiteSpace(s string, i int) int {
	lineEnd, last, end := 0, i, i
	for {
		c, size := classAt(s, end)
		if c != space && c != newline {
			break
		}
		last = end
		end += size
		if c == newline {
			lineEnd = end
		}
	}
	switch {
	case lineEnd > 0:
		return lineEnd
	case end == len(s) || last == i:
		return end
	}
	return last
}

// contraction returns the length of s, t, re, ve, m, ll or d, in any case, at
// the start of s, or 0. Folding makes ſ (U+017F) an s.
func contraction(s string) int {
	if s == "" {
		return 0
	}
	switch s[0] | 0x20 {
	case 's', 't', 'm', 'd':
		return 1
	}
	if len(s) < 2 {
		return 0
	}
	if s[0] == 0xC5 && s[1] == 0xBF {
		return 2
	}
	switch [2]byte{s[0] | 0x20, s[1] | 0x20} {
	case [2]byte{'r', 'e'}, [2]byte{'v', 'e'}, [2]byte{'l', 'l'}:
		return 2
	}
	return 0
}

// classAt returns the class and the size in bytes of the character of s at i;
// at the end of s the size is 0. A byte that is not UTF-8 is an other.
func classAt(s string, i int) (class, int) {
	if i >= len(s) {
		return other, 0
	}
	if b := s[i]; b < utf8.RuneSelf {
		return ascii[b], 1
	}
	r, size := utf8.DecodeRuneInString(s[i:])
	switch {
	case unicode.IsLetter(r):
		return letter, size
	case unicode.IsNumber(r):
		return number, size
	case unicode.IsSpace(r):
		return space, size
	}
	return other, size
}

// ascii holds the class of every ASCII character.
var ascii = [utf8.RuneSelf]class{
	'\t': space, '\n': newline, '\v': space, '\f': space, '\r': newline, ' ': space,
	'0': number, '1': number, '2': number, '3': number, '4': number,
	'5': number, '6': number, '7': number, '8': number, '9': number,
	'A': letter, 'B': letter, 'C': letter, 'D': letter, 'E': letter, 'F': letter, 'G': letter,
	'H': letter, 'I': letter, 'J': letter, 'K': letter, 'L': letter, 'M': letter, 'N': letter,
	'O': letter, 'P': letter, 'Q': letter, 'R': letter, 'S': letter, 'T': letter, 'U': letter,
	'V': letter, 'W': letter, 'X': letter, 'Y': letter, 'Z': letter,
	'a': letter, 'b': letter, 'c': letter, 'd': letter, 'e': letter, 'f': letter, 'g': letter,
	'h': letter, 'i': letter, 'j': letter, 'k': letter, 'l': letter, 'm': letter, 'n': letter,
	'o': letter, 'p': letter, 'q': letter, 'r': letter, 's': letter, 't': letter, 'u': letter,
	'v': letter, 'w': letter, 'x': letter, 'y': letter, 'z': letter,
}
