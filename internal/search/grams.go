package search

import (
	"math"
	"unicode/utf8"
)

// Character n-grams are taken inside words, one space of padding on each side, lengths minGram to maxGram.
const (
	minGram = 3
	maxGram = 5
)

// gramIndex finds the terms that share character n-grams with a query.
//
// The n-gram vector of a document is the weighted sum of its terms' vectors. So its product with
// the query's vector is the sum of the terms' products. It is enough to index the n-grams of the
// vocabulary, about a hundred times fewer than the n-grams of the documents, and to distribute each
// term's product over its postings.
type gramIndex struct {
	slots  gramTable
	starts []uint32  // the terms of n-gram i are terms[starts[i]:starts[i+1]]
	terms  []uint32  // a term occurs once for each occurrence of the n-gram
	square []float32 // idf² of each n-gram
	mass   []float32 // per term, the sum of square over its n-grams; 0 for stems
}

// newGramIndex indexes the raw tokens in terms. df is the number of documents with each term, docs
// the number of all documents. known, if not nil, has the idf of n-grams that are not new.
func newGramIndex(terms []string, df []uint32, docs int, known *gramIndex) gramIndex {
	g := gramIndex{mass: make([]float32, len(terms))}
	// The first pass numbers the n-grams and records them per term for the second.
	var word []rune
	var all, counts []uint32
	var frequency []uint64
	var hashes []uint32 // of the n-grams, if known has some
	ends := make([]uint32, len(terms))
	for id, term := range terms {
		if term[0] != stemMark {
			word = padded(word, term)
			eachGram(word, func(h uint32) {
				i := g.slots.number(h)
				if int(i) == len(counts) {
					counts = append(counts, 0)
					frequency = append(frequency, 0)
					if known != nil {
						hashes = append(hashes, h)
					}
				}
				counts[i]++
				frequency[i] += uint64(df[id])
				all = append(all, i)
			})
		}
		ends[id] = uint32(len(all))
	}
	g.starts = make([]uint32, len(counts)+1)
	g.square = make([]float32, len(counts))
	for i, f := range frequency {
		g.starts[i+1] = g.starts[i] + counts[i]
		x := math.Log(1 + float64(docs)/(float64(f)+.5))
		g.square[i] = float32(x * x)
		if known == nil {
			continue
		}
		if n, ok := known.slots.find(hashes[i]); ok {
			g.square[i] = known.square[n]
		}
	}
	g.terms = make([]uint32, len(all))
	next := counts
	copy(next, g.starts)
	start := uint32(0)
	for id, end := range ends {
		for _, i := range all[start:end] {
			g.terms[next[i]] = uint32(id)
			next[i]++
			g.mass[id] += g.square[i]
		}
		start = end
	}
	return g
}

// find returns the terms that have the n-gram of hash h, and its idf².
func (g *gramIndex) find(h uint32) ([]uint32, float32) {
	i, ok := g.slots.find(h)
	if !ok {
		return nil, 0
	}
	return g.terms[g.starts[i]:g.starts[i+1]], g.square[i]
}

// gramTable numbers n-grams from 0 by their 32-bit hash. It is a hash table with linear probing, at
// most half full. A map would need several times the memory and most of the time of building a
// view.
type gramTable struct {
	slots []gramSlot
	used  int
}

// gramSlot is a slot; number 0 means empty.
type gramSlot struct{ hash, number uint32 } // number counts from 1

// at returns the slot of h, or the empty slot for it.
func (t *gramTable) at(h uint32) *gramSlot {
	mask := uint32(len(t.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		if s := &t.slots[i]; s.number == 0 || s.hash == h {
			return s
		}
	}
}

func (t *gramTable) find(h uint32) (uint32, bool) {
	if t.used == 0 {
		return 0, false
	}
	s := t.at(h)
	return s.number - 1, s.number > 0
}

// number returns the number of h, a new one if it has none.
func (t *gramTable) number(h uint32) uint32 {
	if 2*t.used >= len(t.slots) {
		old := t.slots
		t.slots = make([]gramSlot, max(1024, 2*len(old)))
		for _, s := range old {
			if s.number > 0 {
				*t.at(s.hash) = s
			}
		}
	}
	s := t.at(h)
	if s.number == 0 {
		t.used++
		*s = gramSlot{h, uint32(t.used)}
	}
	return s.number - 1
}

// padded returns " term " in the memory of dst.
func padded[S string | []byte](dst []rune, term S) []rune {
	dst = append(dst[:0], ' ')
	for _, r := range string(term) {
		dst = append(dst, r)
	}
	return append(dst, ' ')
}

// eachGram calls f with the hash of every n-gram of word.
func eachGram(word []rune, f func(h uint32)) {
	for i := 0; i+minGram <= len(word); i++ {
		h := uint32(fnvOffset)
		for n, r := range word[i:min(len(word), i+maxGram)] {
			h = (h ^ uint32(r)) * fnvPrime
			if n+1 >= minGram {
				f(h ^ h>>15)
			}
		}
	}
}

// cut returns at most n bytes of s, whole runes.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
