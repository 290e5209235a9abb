package rawjson

import (
	"bytes"
	"unicode/utf8"
)

// RepairText returns data as text that every reader accepts: each run of bytes that are not UTF-8
// becomes U+FFFD, and so does each half of a surrogate pair that is written as an escape (\ud83d).
// It repairs a copy; valid data is returned unchanged. In JSON both can only be inside strings, so
// the result is still JSON. A single one makes many clients fail.
func RepairText(data []byte) []byte {
	out := data
	if !utf8.Valid(data) {
		out = bytes.ToValidUTF8(data, []byte("\uFFFD"))
	}
	if first := HalfPair(out, 0); first >= 0 {
		if len(out) == len(data) {
			out = bytes.Clone(out)
		}
		replaceHalves(out, first)
	}
	return out
}

// escapeBytes is the length of an escape such as \ud83d.
const escapeBytes = 6

// HalfPair returns the index of the first escape at or after i that is one half of a surrogate pair
// without the other, or -1. There must be no backslash directly before i. The two bytes that it
// searches are seldom in JSON, so most texts cost one fast search.
func HalfPair(data []byte, i int) int {
	for {
		n := bytes.Index(data[i:], []byte(`\u`))
		if n < 0 {
			return -1
		}
		if i += n; isEscaped(data, i) {
			i++
			continue
		}
		for i+escapeBytes <= len(data) && data[i] == '\\' && data[i+1] == 'u' { // often one follows the other
			switch {
			case !isSurrogate(data[i:]):
				i += 2
				if isHex(data[i : i+4]) {
					i += 4
				}
			case isHigh(data[i:]) && isLow(data[i+escapeBytes:]):
				i += 2 * escapeBytes
			default:
				return i
			}
		}
		i = min(i+1, len(data))
	}
}

// replaceHalves replaces the half at index i and all later ones in place.
func replaceHalves(data []byte, i int) {
	for ; i >= 0; i = HalfPair(data, i+escapeBytes) {
		copy(data[i:], `\ufffd`)
	}
}

// RepairEscapes replaces halves of surrogate pairs by U+FFFD in place, in a piece of a text that
// starts outside of an escape. The piece may end within an escape or between two halves: those last
// bytes stay as they are, and RepairEscapes returns their number.
func RepairEscapes(piece []byte) (unfinished int) {
	unfinished = unfinishedEscape(piece)
	whole := piece[:len(piece)-unfinished]
	replaceHalves(whole, HalfPair(whole, 0))
	return unfinished
}

// unfinishedEscape returns the number of bytes at the end of a piece whose meaning depends on the
// next piece.
func unfinishedEscape(piece []byte) int {
	start := max(0, len(piece)-escapeBytes)
	n := bytes.LastIndexByte(piece[start:], '\\')
	if n < 0 || isEscaped(piece, start+n) {
		return 0
	}
	at := start + n
	last := piece[at:]
	switch {
	case len(last) > 1 && last[1] != 'u':
		return 0
	case isHigh(last):
		return escapeBytes
	case len(last) == escapeBytes:
		return 0
	}
	if before := at - escapeBytes; before >= 0 && isHigh(piece[before:]) && !isEscaped(piece, before) {
		return len(last) + escapeBytes
	}
	return len(last)
}

// isEscaped reports whether the backslash at index i belongs to the escape of a backslash.
func isEscaped(data []byte, i int) bool {
	start := i
	for start > 0 && data[start-1] == '\\' {
		start--
	}
	return (i-start)%2 == 1
}

// isHigh and isLow report whether data starts with an escape of the first or of the second half of
// a surrogate pair.
func isHigh(data []byte) bool { return isSurrogate(data) && data[3]|0x20 < 'c' }
func isLow(data []byte) bool  { return isSurrogate(data) && data[3]|0x20 >= 'c' }

// isSurrogate reports whether data starts with the escape of a code unit from D800 to DFFF.
func isSurrogate(data []byte) bool {
	return len(data) >= escapeBytes && data[0] == '\\' && data[1] == 'u' && data[2]|0x20 == 'd' && data[3] >= '8' && isHex(data[3:escapeBytes])
}
