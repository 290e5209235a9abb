package search

import (
	"cmp"
	"slices"
	"strings"
)

// termWeight is the score that a posting of a term adds to its document, per unit of the posting's
// weight.
type termWeight struct {
	lexical, gram float32
	touched       bool // listed in scratch.touched
}

// docScore collects one document's scores, in units of 1/fraction. Integer sums do not depend on
// the order of terms, which depends on how the index was built.
type docScore struct{ lexical, gram int64 }

// fraction resolves scores to a millionth. The highest possible sum for maxWords words stays below
// 2^50.
const fraction = 1 << 20

// scratch is the working memory of one search at a time. Views that share their data share it.
type scratch struct {
	v         *view
	an        analyzer
	keepStops bool
	words     []word
	telling   bool    // the words at hand are of the story around a request
	scale     float32 // of the weights of the words at hand
	at        int     // place of the next word
	reader    reader
	near      []byte // dictionary form of a related word
	letters   []byte // bytes of words
	edit      []byte // of spelled
	padded    []rune
	terms     []termWeight
	touched   []uint32 // terms with a weight
	docs      []docScore
	total     []float32
	best      []float32 // per server, its best totals, at most siblings of them, best first
	found     []candidate
	left      []bool // per document: not to be found; nil: all are
	prefers   preferring
}

// candidate is one document that may be returned.
type candidate struct {
	segment, doc int
	score        float32
}

// shortlist is the number of documents whose names and neighbouring words are examined.
const shortlist = 64

func newScratch() *scratch {
	s := &scratch{}
	s.an.emit = s.word
	return s
}

// borrow returns working memory for the view, to be given back.
func (v *view) borrow() *scratch {
	s := v.scratch.Get().(*scratch)
	s.v = v
	s.terms = sized(s.terms, len(v.idf))
	s.docs = sized(s.docs, v.docs)
	s.total = sized(s.total, v.docs)
	s.best = sized(s.best, len(v.servers)*v.t.siblings)
	return s
}

func (s *scratch) giveBack() {
	pool := s.v.scratch
	s.v, s.left = nil, nil // a replaced view can be freed
	pool.Put(s)
}

// sized returns room, or new memory, with so many elements. The elements are zero if the elements
// of room are zero.
func sized[T any](room []T, n int) []T {
	if cap(room) < n {
		return make([]T, n, n+n/deltaShare)
	}
	return room[:n]
}

// search ranks all documents for the query, without those that are left out, and returns the best k.
// vector is the query's, or nil; so is p.
func (v *view) search(query string, vector []float32, p Preference, k int, left []bool) []Hit {
	if k <= 0 || v.docs == 0 {
		return nil
	}
	s := v.borrow()
	defer s.giveBack()
	s.left = left
	s.parse(query)
	if len(s.words) == 0 && vector == nil {
		return nil
	}
	s.weigh()
	if len(s.touched) == 0 && s.reader.asks {
		// Of "who is Bob" nothing is known but that it asks: tools that search may know Bob.
		s.add([]byte("search"))
		s.add([]byte("find"))
		s.weigh()
	}
	s.spread()
	s.accumulate()
	s.leaveOut()
	top := s.fuse()
	if vector != nil {
		s.meaning(vector)
	}
	s.prior()
	s.pick(max(k, shortlist))
	s.named()
	s.neighbours(top)
	s.agree()
	s.prefer(p)
	s.exact()
	s.outdated()
	s.sort()
	s.collapse()
	s.forget()
	if len(s.found) > k {
		s.found = s.found[:k]
	}
	hits := make([]Hit, len(s.found))
	for i, c := range s.found {
		hits[i] = Hit{ID: v.segments[c.segment].ids[c.doc], Score: float64(c.score)}
	}
	return hits
}

// accumulate sums up the postings of all weighted terms.
func (s *scratch) accumulate() {
	clear(s.docs)
	for _, id := range s.touched {
		w := s.terms[id]
		if w.lexical == 0 && w.gram == 0 {
			continue
		}
		lexical, gram := w.lexical*fraction, w.gram*fraction
		for _, refs := range s.v.lists(id) {
			for _, r := range refs {
				if s.v.without(r.segment) {
					continue
				}
				docs := s.docs[s.v.base[r.segment]:]
				for _, p := range s.v.segments[r.segment].list(int(r.term)) {
					d := &docs[p.doc]
					d.lexical += int64(lexical * p.weight)
					d.gram += int64(gram * p.weight)
				}
			}
		}
	}
}

// forget resets the weights for the next search.
func (s *scratch) forget() {
	for _, id := range s.touched {
		s.terms[id] = termWeight{}
	}
	s.touched = s.touched[:0]
}

// fuse sets total to the sum of both scores, each divided by its maximum, and returns the maximum
// lexical score.
func (s *scratch) fuse() float32 {
	var lexical, gram float32
	for d, x := range s.docs {
		lexical = max(lexical, float32(x.lexical))
		if x.gram > 0 {
			gram = max(gram, float32(x.gram)/s.v.norms[d])
		}
	}
	var a, b float32
	if lexical > 0 {
		a = 1 / lexical
	}
	if gram > 0 {
		b = s.v.t.grams / gram
	}
	for d, x := range s.docs {
		total := a * float32(x.lexical)
		if x.gram > 0 {
			total += b * float32(x.gram) / s.v.norms[d]
		}
		s.total[d] = total
	}
	return lexical / fraction
}

// prior raises the documents of servers whose best tools score well. Documents with score zero stay
// at zero.
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

// pick selects the best n documents with a score into found, best first.
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

// named raises the found documents by the share of their name that is in the query. Of two tools
// that match equally, the one whose name has no other words is preferred.
func (s *scratch) named() {
	for i := range s.found[:min(len(s.found), shortlist)] {
		c := &s.found[i]
		seg := s.v.segments[c.segment]
		var asked, all float32
		for _, l := range seg.name(c.doc) {
			id, _ := s.v.find(seg.hashes[l])
			asked += s.terms[id].lexical
			all += s.v.idf[id]
		}
		if all > 0 {
			c.score += s.v.t.named * asked / all
		}
	}
}

// neighbours raises the found documents in which neighbouring words of the query are neighbours as
// well. top is the maximum lexical score.
func (s *scratch) neighbours(top float32) {
	if top == 0 {
		return
	}
	for i := range max(0, len(s.words)-1) {
		a, b := s.words[i].stem, s.words[i+1].stem
		ia, oka := s.v.find(termHash(a))
		ib, okb := s.v.find(termHash(b))
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
}

// sort sorts found by score, then by ID, so that the order does not depend on how the index was
// built.
func (s *scratch) sort() {
	slices.SortFunc(s.found, func(a, b candidate) int {
		if c := cmp.Compare(b.score, a.score); c != 0 {
			return c
		}
		return strings.Compare(s.v.segments[a.segment].ids[a.doc], s.v.segments[b.segment].ids[b.doc])
	})
}
