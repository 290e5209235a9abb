package rawjson

import (
	"encoding/binary"
	"math/bits"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080

	// After so many words, a string counts as long, and is looked through in
	// blocks.
	shortWords = 8
	blockBytes = 64
)

// special has the high bit of a byte set if w has a quote, a backslash or a control character
// there; above the lowest such byte, others may be set as well. Flipping bit 2 makes the quote,
// 0x22, adjacent to the control characters.
func special(w uint64) uint64 {
	slash := w ^ '\\'*ones
	return ((w^2*ones-0x21*ones)&^w | (slash-ones)&^slash) & highs
}

// skipPlain returns the index of the first byte at or after i that is a quote, a backslash or a
// control character, or len(data). It examines eight bytes at once, and the blocks of a long string
// with vector instructions, whose start costs more than a short string.
func skipPlain(data []byte, i int) int {
	for n := 0; n < shortWords && i+8 <= len(data); n++ {
		if stop := special(binary.LittleEndian.Uint64(data[i:])); stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
		i += 8
	}
	return skipLong(data, i)
}

// skipLong is skipPlain behind the first words.
func skipLong(data []byte, i int) int {
	i += plainBlocks(data[i:])
	for ; i+8 <= len(data); i += 8 {
		if stop := special(binary.LittleEndian.Uint64(data[i:])); stop != 0 {
			return i + bits.TrailingZeros64(stop)/8
		}
	}
	for i < len(data) {
		if c := data[i]; c < 0x20 || c == '"' || c == '\\' {
			break
		}
		i++
	}
	return i
}

// plainWords is plainBlocks without vector instructions.
func plainWords(data []byte) int {
	n := 0
	for ; n+blockBytes <= len(data); n += blockBytes {
		d := data[n : n+blockBytes]
		stop := uint64(0)
		for at := 0; at < blockBytes; at += 32 {
			stop |= special(binary.LittleEndian.Uint64(d[at:])) | special(binary.LittleEndian.Uint64(d[at+8:])) |
				special(binary.LittleEndian.Uint64(d[at+16:])) | special(binary.LittleEndian.Uint64(d[at+24:]))
		}
		if stop != 0 {
			break
		}
	}
	return n
}
