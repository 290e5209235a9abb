package token

import (
	_ "embed"
	"strings"
)

//go:generate go run gen.go

// table is the vocabulary, written by gen.go from the tables of
// github.com/tiktoken-go/tokenizer (see cl100k_base.LICENSE):
//
//	slots    1<<slotBits × uint32, little-endian, a hash table with linear
//	         probing: the low offsetBits are the offset of a record plus one
//	         (0: empty), the rest are the same bits of the token's hash
//	records  length (1 byte), rank (3 bytes, little-endian), the token
//
//go:embed cl100k_base.bin
var table string

const (
	slotBits    = 17
	slotMask    = 1<<slotBits - 1
	offsetBits  = 20
	offsetMask  = 1<<offsetBits - 1
	recordsFrom = 4 << slotBits
	headerLen   = 4

	// maxTokenLen is the length of the longest token in bytes.
	maxTokenLen = 128

	// noRank says that a text is no token.
	noRank = ^uint32(0)
)

// rank returns the rank of a token, which is its id too, or noRank.
func rank(token string) uint32 {
	if len(token) > maxTokenLen {
		return noRank
	}
	h := hash(token)
	for i := h & slotMask; ; i = (i + 1) & slotMask {
		slot := le32(table[4*i:])
		if slot == 0 {
			return noRank
		}
		if (slot^h)&^offsetMask != 0 {
			continue
		}
		record := table[recordsFrom+slot&offsetMask-1:]
		if int(record[0]) == len(token) && strings.HasPrefix(record[headerLen:], token) {
			return le32(record) >> 8
		}
	}
}

// hash is FNV-1a with a final mix, so that the low bits (the slot) and the
// high bits (the check kept in the slot) are both well spread.
func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := 0; i < len(s); i++ {
		h = (h ^ uint32(s[i])) * 16777619
	}
	h ^= h >> 15
	h *= 0x85ebca6b
	h ^= h >> 13
	return h
}

func le32(s string) uint32 {
	_ = s[3]
	return uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24
}
