package token

import (
	"strings"
	"unicode"
	"unicode/utf8"
	"unsafe"
)

// ellipsis marks a hard cut (spec/gateway §2.4).
const ellipsis = "…"

// Count returns the number of cl100k_base tokens of s. Markers of special
// tokens such as "<|endoftext|>" are counted as the plain text they are.
func Count(s string) int {
	n := 0
	if len(s) >= recallFrom {
		known := recalls.Get().(*recall)
		defer recalls.Put(known)
		for i := 0; i < len(s); {
			end := nextPiece(s, i)
			n += known.countPiece(s, i, end)
			i = end
		}
		return n
	}
	for i := 0; i < len(s); {
		end := nextPiece(s, i)
		n += countPiece(s[i:end])
		i = end
	}
	return n
}

// CountBytes is Count for a byte slice, without a copy. b must not change
// during the call.
func CountBytes(b []byte) int {
	return Count(unsafe.String(unsafe.SliceData(b), len(b)))
}

// fits reports whether Count(s) <= budget. It is cheaper than Count: a text of
// n bytes has at most n tokens, and counting stops once the budget is passed.
func fits(s string, budget int) bool {
	if len(s) <= budget {
		return true
	}
	if len(s) > budget*maxTokenLen {
		return false
	}
	n := 0
	for i := 0; i < len(s); {
		end := nextPiece(s, i)
		if n += countPiece(s[i:end]); n > budget {
			return false
		}
		i = end
	}
	return n <= budget
}

// Truncate returns s cut to at most budget tokens (spec/gateway §2.4):
// verbatim if it fits; else the longest prefix that ends a sentence and fits,
// a sentence ending with `.`, `!` or `?` before white space or the end of the
// text; else the prefix of budget-1 tokens and "…". A cut never falls inside a
// character. The result depends on s and budget only.
func Truncate(s string, budget int) string {
	if len(s) <= budget {
		return s
	}
	if budget <= 0 {
		return ""
	}
	n := 0         // tokens of the pieces before i
	sentence := -1 // end of the longest fitting prefix that ends a sentence
	cuts := make([]int, 0, budget+1)
	var buf [16]int32
	for i := 0; i < len(s); {
		end := nextPiece(s, i)
		if e := sentenceEnd(s, i, end); e > 0 && n+countPiece(s[i:e]) <= budget {
			sentence = e
		}
		ends := appendEnds(buf[:0], s[i:end])
		for _, e := range ends {
			if len(cuts) == cap(cuts) {
				break
			}
			cuts = append(cuts, i+int(e))
		}
		if n += len(ends); n > budget {
			break
		}
		i = end
	}
	if n <= budget {
		return s
	}
	if sentence > 0 {
		return s[:sentence]
	}
	// A token may end inside a character, and "…" may not be a token of its
	// own after every prefix: step back until the text really fits.
	for k := budget - 1; k > 0; k-- {
		cut := cuts[k-1]
		for cut > 0 && !utf8.RuneStart(s[cut]) {
			cut--
		}
		if text := s[:cut] + ellipsis; fits(text, budget) {
			return strings.Clone(text)
		}
	}
	return ellipsis
}

// sentenceEnd returns where a sentence ends inside the piece s[i:end], or 0.
// White space never lies between other characters of a piece, so only the last
// character before trailing line ends can be such a terminator.
func sentenceEnd(s string, i, end int) int {
	e := end
	for e > i && (s[e-1] == '\r' || s[e-1] == '\n') {
		e--
	}
	if e == i {
		return 0
	}
	switch s[e-1] {
	case '.', '!', '?':
	default:
		return 0
	}
	if e == len(s) {
		return e
	}
	if r, _ := utf8.DecodeRuneInString(s[e:]); unicode.IsSpace(r) {
		return e
	}
	return 0
}
