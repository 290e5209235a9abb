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
// The n-gram vector of a document is the weighted sum of the vectors of its terms, so its product with a query's is the
// same sum over the products of its terms. It is therefore enough to hold the n-grams of the vocabulary, some hundred
// times fewer than those of the documents, and to spread each term's product over its postings. N-grams are numbered
// by hash, into a table about as large as there are n-grams: there is no dictionary to build or to keep.
type gramIndex struct {
	mask   uint32
	starts []uint32  // the terms of bucket b are terms[starts[b]:starts[b+1]]
	terms  []uint32  // a term stands once per n-gram it has in the bucket
	square []float32 // idf² of each bucket
	mass   []float32 // per term: the sum of square over its n-grams; 0 for stems
}

// maxGramBits bounds the table at 2^18 buckets (2 MB).
const maxGramBits = 18

// newGramIndex indexes the raw tokens among terms; df is the document frequency of each term among docs documents.
func newGramIndex(terms []string, df []uint32, docs int) gramIndex {
	bits := 10
	for bits < maxGramBits && 1<<bits < 6*len(terms) {
		bits++
	}
	g := gramIndex{mask: 1<<bits - 1, mass: make([]float32, len(terms))}
	g.starts = make([]uint32, 1<<bits+1)
	g.square = make([]float32, 1<<bits)
	var word []rune
	frequency := make([]uint64, 1<<bits)
	for id, term := range terms {
		if term[0] == stemMark {
			continue
		}
		word = padded(word, term)
		eachGram(word, func(h uint32) {
			g.starts[h&g.mask+1]++
			frequency[h&g.mask] += uint64(df[id])
		})
	}
	for b, f := range frequency {
		g.starts[b+1] += g.starts[b]
		x := math.Log(1 + float64(docs)/(float64(f)+.5))
		g.square[b] = float32(x * x)
	}
	g.terms = make([]uint32, g.starts[len(frequency)])
	next := make([]uint32, len(frequency))
	copy(next, g.starts)
	for id, term := range terms {
		if term[0] == stemMark {
			continue
		}
		word = padded(word, term)
		eachGram(word, func(h uint32) {
			b := h & g.mask
			g.terms[next[b]] = uint32(id)
			next[b]++
			g.mass[id] += g.square[b]
		})
	}
	return g
}

// padded writes " term " over dst.
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
