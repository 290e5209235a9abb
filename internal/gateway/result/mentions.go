package result

import "math/bits"

// mentionsErrors reports whether text has the word as people and programs write it: error, Error or
// ERROR. It searches for the doubled letter, which is rare in other words.
func mentionsErrors(text string) bool {
	for i := 0; ; i++ {
		if i = doubleR(text, i); i < 0 {
			return false
		}
		if i == 0 || i+4 > len(text) {
			continue
		}
		if text[i-1]|0x20 == 'e' && text[i:i+4] == "rror" || text[i-1:i+4] == "ERROR" {
			return true
		}
	}
}

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
)

// doubleR returns the first index at or after i where two letters r stand, each of any case, or -1.
// It compares eight pairs at once.
func doubleR(text string, i int) int {
	for ; i+9 <= len(text); i += 8 {
		// Bytes that are zero where a letter and the next one are r.
		v := (wordAt(text, i) | 0x20*everyByte) ^ 'r'*everyByte | (wordAt(text, i+1) | 0x20*everyByte) ^ 'r'*everyByte
		if zero := (v - everyByte) &^ v & highBits; zero != 0 {
			return i + bits.TrailingZeros64(zero)/8
		}
	}
	for ; i+1 < len(text); i++ {
		if text[i]|0x20 == 'r' && text[i+1]|0x20 == 'r' {
			return i
		}
	}
	return -1
}

// wordAt returns eight bytes of s as a little-endian number.
func wordAt(s string, i int) uint64 {
	b := s[i : i+8]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}
