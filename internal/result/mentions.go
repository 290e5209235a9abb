package result

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

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
// It compares 32 pairs at once, and then eight.
func doubleR(text string, i int) int {
	data := unsafe.Slice(unsafe.StringData(text), len(text)) // read only
	for ; i+33 <= len(data); i += 32 {
		d := data[i : i+33]
		a := noPair(binary.LittleEndian.Uint64(d), binary.LittleEndian.Uint64(d[1:]))
		b := noPair(binary.LittleEndian.Uint64(d[8:]), binary.LittleEndian.Uint64(d[9:]))
		c := noPair(binary.LittleEndian.Uint64(d[16:]), binary.LittleEndian.Uint64(d[17:]))
		e := noPair(binary.LittleEndian.Uint64(d[24:]), binary.LittleEndian.Uint64(d[25:]))
		if (zeros(a)|zeros(b)|zeros(c)|zeros(e))&highBits != 0 {
			break
		}
	}
	for ; i+9 <= len(data); i += 8 {
		v := noPair(binary.LittleEndian.Uint64(data[i:]), binary.LittleEndian.Uint64(data[i+1:]))
		if zero := zeros(v) & highBits; zero != 0 {
			return i + bits.TrailingZeros64(zero)/8
		}
	}
	for ; i+1 < len(data); i++ {
		if data[i]|0x20 == 'r' && data[i+1]|0x20 == 'r' {
			return i
		}
	}
	return -1
}

// noPair returns bytes that are zero where both words have a letter r.
func noPair(w, next uint64) uint64 {
	return ((w ^ 'r'*everyByte) | (next ^ 'r'*everyByte)) &^ (0x20 * everyByte)
}

// zeros returns the high bit of each byte that is zero. Above the lowest such byte, others may be set
// as well.
func zeros(v uint64) uint64 { return (v - everyByte) &^ v }
