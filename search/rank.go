package search

import (
	"cmp"
	"slices"
	"strings"
)

// termWeight is what one posting of a term adds to its document, per unit of the posting's weight.
type termWeight struct{ lexical, gram float32 }

// docScore gathers one document's scores.
type docScore struct{ lexical, gram float32 }

// scratch is the working memory of one search, made for one view and used by one search at a time.
type scratch struct {
	v         *view
	an        analyzer
	keepStops bool
	words     []word
	letters   []byte // behind words
	padded    []rune
	terms     []termWeight
	docs      []docScore
	total     []float32
	best      []float32 // per server: its best totals, siblings of them, best first
	found     []candidate
}

// candidate is one document that may be returned.
type candidate struct {
	segment, doc int
	score        float32
}

// shortlist is how many documents are looked at for neighbouring words.
const shortlist = 64

func newScratch(v *view) *scratch {
	s := &scratch{
		v:     v,
		terms: make([]termWeight, len(v.idf)),
		docs:  make([]docScore, v.docs),
		total: make([]float32, v.docs),
		best:  make([]float32, v.servers*v.t.siblings),
	}
	s.an.emit = s.word
	return s
}

// search ranks all documents for the query and returns the best k.
func (v *view) search(query string, k int) []Hit {
	if k <= 0 || v.docs == 0 {
		return nil
	}
	s := v.scratch.Get().(*scratch)
	defer v.scratch.Put(s)
	s.parse(query)
	if len(s.words) == 0 {
		return nil
	}
	clear(s.terms)
	s.weigh()
	s.spread()
	s.accumulate()
	top := s.fuse()
	s.prior()
	s.pick(max(k, shortlist))
	s.neighbours(top)
	if len(s.found) > k {
		s.found = s.found[:k]
	}
	hits := make([]Hit, len(s.found))
	for i, c := range s.found {
		hits[i] = Hit{ID: v.segments[c.segment].ids[c.doc], Score: float64(c.score)}
	}
	return hits
}

// accumulate adds up the postings of every weighted term.
func (s *scratch) accumulate() {
	clear(s.docs)
	for i, seg := range s.v.segments {
		docs := s.docs[s.v.base[i]:][:len(seg.ids)]
		for l, id := range s.v.local[i] {
			w := s.terms[id]
			if w.lexical == 0 && w.gram == 0 {
				continue
			}
			for _, p := range seg.list(l) {
				d := &docs[p.doc]
				d.lexical += w.lexical * p.weight
				d.gram += w.gram * p.weight
			}
		}
	}
}

// fuse fills total with the sum of both scores, each divided by its best, and returns the best lexical score.
func (s *scratch) fuse() float32 {
	var lexical, gram float32
	for d := range s.docs {
		x := &s.docs[d]
		if x.gram > 0 {
			x.gram /= s.v.norms[d]
		}
		lexical, gram = max(lexical, x.lexical), max(gram, x.gram)
	}
	var a, b float32
	if lexical > 0 {
		a = 1 / lexical
	}
	if gram > 0 {
		b = s.v.t.grams / gram
	}
	for d, x := range s.docs {
		s.total[d] = a*x.lexical + b*x.gram
	}
	return lexical
}

// prior lifts the documents of servers whose best tools score well. It lifts no document that scored nothing.
func (s *scratch) prior() {
	n := s.v.t.siblings
	clear(s.best)
	for d, x := range s.total {
		if x == 0 {
			continue
		}
		best := s.best[int(s.v.server[d])*n:][:n]
		for i, y := range best {
			if x > y {
				best[i], x = x, y
			}
		}
	}
	top := float32(0)
	for i := 0; i < len(s.best); i += n {
		sum := float32(0)
		for _, x := range s.best[i : i+n] {
			sum += x
		}
		s.best[i] = sum
		top = max(top, sum)
	}
	if top == 0 {
		return
	}
	for d, x := range s.total {
		if x > 0 {
			s.total[d] += s.v.t.server * s.best[int(s.v.server[d])*n] / top
		}
	}
}

// pick leaves the best n documents with a score in found, best first.
func (s *scratch) pick(n int) {
	s.found = s.found[:0]
	floor := float32(0)
	for i, seg := range s.v.segments {
		for d, x := range s.total[s.v.base[i]:][:len(seg.ids)] {
			if x <= 0 || x < floor {
				continue
			}
			s.found = append(s.found, candidate{i, d, x})
			if len(s.found) == 4*n {
				s.sort()
				s.found = s.found[:n]
				floor = s.found[n-1].score
			}
		}
	}
	s.sort()
	if len(s.found) > n {
		s.found = s.found[:n]
	}
}

// neighbours lifts the found documents in which neighbours of the query are neighbours too, and sorts again.
// top is the score that the lexical part was divided by.
func (s *scratch) neighbours(top float32) {
	if top == 0 {
		return
	}
	for i := range len(s.words) - 1 {
		a, b := s.words[i].stem, s.words[i+1].stem
		ia, oka := s.v.dict[string(a)]
		ib, okb := s.v.dict[string(b)]
		if !oka || !okb {
			continue
		}
		h := pairHash(a, b)
		bonus := s.v.t.pair * (s.v.idf[ia] + s.v.idf[ib]) / top
		for j := range s.found[:min(len(s.found), shortlist)] {
			c := &s.found[j]
			if s.v.segments[c.segment].hasPair(c.doc, h) {
				c.score += bonus
			}
		}
	}
	s.sort()
}

// sort orders found by score, then by ID: the order never depends on how the index was put together.
func (s *scratch) sort() {
	slices.SortFunc(s.found, func(a, b candidate) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		return strings.Compare(s.v.segments[a.segment].ids[a.doc], s.v.segments[b.segment].ids[b.doc])
	})
}
