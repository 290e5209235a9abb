package text

import "unicode/utf8"

// Match reports whether a pattern matches all of s: "*" stands for any text, "?" for one character.
// Case counts. Its time is bounded by the product of the lengths.
func Match(pattern, s string) bool {
	star, mark, i, j := -1, 0, 0, 0
	for j < len(s) {
		switch {
		case i < len(pattern) && pattern[i] == '*':
			star, mark = i, j
			i++
		case i < len(pattern) && pattern[i] == '?':
			i, j = i+1, afterRune(s, j)
		case i < len(pattern) && pattern[i] == s[j]:
			i, j = i+1, j+1
		case star >= 0:
			mark = afterRune(s, mark)
			i, j = star+1, mark
		default:
			return false
		}
	}
	for i < len(pattern) && pattern[i] == '*' {
		i++
	}
	return i == len(pattern)
}

// afterRune returns the offset behind the character of s at i.
func afterRune(s string, i int) int {
	_, size := utf8.DecodeRuneInString(s[i:])
	return i + size
}
