package thesaurus

import _ "embed"

// table holds, in little-endian order:
//
//	uint32        n, the number of stems
//	uint32 × n+1  where the text of each stem begins in the texts, and where the last one ends
//	uint32 × n+1  which neighbour of all is the first of each stem, and how many there are
//	texts         the stems in ascending order
//	neighbours    3 bytes each: number of the stem (uint16), similarity (uint8); nearest first
//
//go:embed table.bin
var table string

// least is the similarity of byte 0; byte 255 is 1.
const least = .42

const neighbourSize = 3

// Near calls f for the stems that are nearest in meaning to stem, nearest first, at most maxNeighbours of them.
// The similarity lies between least and 1. An unknown stem has none. It is safe for concurrent use.
func Near(stem []byte, f func(stem string, similarity float32)) {
	n := number(0)
	at, found := find(stem, n)
	if !found {
		return
	}
	counts := 4 + 4*(n+1)
	neighbours := counts + 4*(n+1) + number(4+4*n)
	for i := number(counts + 4*at); i < number(counts+4*at+4); i++ {
		b := table[neighbours+neighbourSize*i:][:neighbourSize]
		other := int(b[0]) | int(b[1])<<8
		f(text(other, n), least+(1-least)*float32(b[2])/255)
	}
}

// Has reports whether stem is in the thesaurus. It is safe for concurrent use.
func Has(stem []byte) bool {
	_, found := find(stem, number(0))
	return found
}

// find returns the number of a stem.
func find(stem []byte, n int) (at int, found bool) {
	low, high := 0, n
	for low < high {
		mid := (low + high) / 2
		switch t := text(mid, n); {
		case t == string(stem):
			return mid, true
		case t < string(stem):
			low = mid + 1
		default:
			high = mid
		}
	}
	return 0, false
}

// text returns stem i of n.
func text(i, n int) string {
	texts := 4 + 8*(n+1)
	return table[texts+number(4+4*i) : texts+number(4+4*i+4)]
}

// number reads the uint32 at offset at.
func number(at int) int {
	s := table[at : at+4]
	return int(uint32(s[0]) | uint32(s[1])<<8 | uint32(s[2])<<16 | uint32(s[3])<<24)
}
