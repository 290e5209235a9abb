package token

import (
	"math/bits"
	"sync"
)

// Bounds of recall. A shorter text than recallFrom does not repay taking one from the pool.
const (
	recallFrom  = 256 // bytes of a text
	recallBits  = 10
	recallBytes = 16 // of the longest remembered piece
)

// recall remembers the numbers of tokens of short pieces, because texts use few words and use them
// often. Without it each word costs a hash of its bytes and two reads far apart in a table of 2 MB.
// A new piece replaces the one with the same hash. A piece has the same number in every text, so
// the zero value is empty and a used one needs no cleaning. It is for one goroutine at a time.
type recall [1 << recallBits]struct {
	low, high uint64 // the bytes of the piece, filled up with zeros
	size      uint8
	tokens    uint8
}

// recalls lends the recalls, 32 KB each, to calls of Count.
var recalls = sync.Pool{New: func() any { return new(recall) }}

// countPiece returns the result of countPiece for s[i:end].
func (r *recall) countPiece(s string, i, end int) int {
	size := end - i
	if size > recallBytes || size < 2 || i+recallBytes > len(s) {
		return countPiece(s[i:end])
	}
	low, high := le64(s[i:]), uint64(0)
	if size <= 8 {
		low &= ^uint64(0) >> (64 - 8*size)
	} else {
		high = le64(s[i+8:]) & (^uint64(0) >> (128 - 8*size))
	}
	at := &r[((low^bits.RotateLeft64(high, 32)^high<<7)*0x9E3779B97F4A7C15)>>(64-recallBits)]
	if at.low != low || at.high != high || int(at.size) != size {
		at.low, at.high, at.size = low, high, uint8(size)
		at.tokens = uint8(countPiece(s[i:end]))
	}
	return int(at.tokens)
}

func le64(s string) uint64 {
	_ = s[7]
	return uint64(le32(s)) | uint64(le32(s[4:]))<<32
}
