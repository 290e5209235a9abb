package search

import (
	"maps"
	"math"
	"slices"
	"strings"
)

// delta is the part that a view adds to an earlier view, which was made of all its segments, after
// a small change:
//
//	documents   0 … n-1    those of the earlier view; those of replaced segments are never found
//	            n …        those of new segments
//	terms       0 … m-1    those of the earlier view, with their idf
//	            m …        terms that only new segments have
//
// So the view costs only the new segments. How rare a word is counts over the documents of the
// earlier view, which differ in at most one of deltaShare.
type delta struct {
	whole *view
	gone  []bool           // per segment of whole: replaced or removed
	terms vocabulary       // those that whole does not have
	refs  map[uint32][]ref // postings in new segments, by term
	grams gramIndex        // of terms, which are numbered from 0 here
}

const (
	// deltaFrom is from how many documents a view may be a delta. Below, all statistics are exact, and
	// making them again costs less than a millisecond.
	deltaFrom = 4096
	// deltaShare bounds the documents in which a delta differs from the whole view: one of so many. A
	// view of all segments is made once for so many documents. Until then a word that few of the
	// earlier documents have counts as that rare, however many of the new ones have it.
	deltaShare = 32
)

// newDelta returns a view of segments that shares the data of whole, or nil if they differ by too
// much.
func newDelta(whole *view, segments []*segment) *view {
	if whole.docs < deltaFrom {
		return nil
	}
	limit := whole.docs / deltaShare
	var gone []int
	var added []*segment
	drop := func(i int) {
		gone = append(gone, i)
		limit -= len(whole.segments[i].ids)
	}
	old := 0
	for _, s := range segments {
		if old < len(whole.segments) && whole.segments[old] == s {
			old++
			continue
		}
		for old < len(whole.segments) && strings.Compare(whole.segments[old].upstream, s.upstream) <= 0 && whole.segments[old] != s {
			drop(old)
			old++
			if limit < 0 {
				return nil
			}
		}
		if old < len(whole.segments) && whole.segments[old] == s {
			old++
			continue
		}
		added = append(added, s)
		if limit -= len(s.ids); limit < 0 {
			return nil
		}
	}
	for ; old < len(whole.segments); old++ {
		if drop(old); limit < 0 {
			return nil
		}
	}
	if len(gone)+len(added) == 0 {
		return whole
	}
	return whole.with(gone, added)
}

// with returns a view without the segments at these places and with others.
func (v *view) with(gone []int, added []*segment) *view {
	d := &delta{whole: v, gone: make([]bool, len(v.segments), len(v.segments)+len(added)), terms: newVocabulary(64), refs: map[uint32][]ref{}}
	for _, i := range gone {
		d.gone[i] = true
	}
	next := *v
	next.delta = d
	next.segments = slices.Concat(v.segments, added)
	d.gone = d.gone[:len(next.segments)]
	next.base = slices.Grow(slices.Clip(v.base), len(added))
	var fresh []string // terms
	var df, numbers []uint32
	for i, s := range added {
		next.base = append(next.base, next.docs)
		next.docs += len(s.ids)
		for l, hash := range s.hashes {
			id, known := v.dict.find(hash)
			if !known {
				n, first := d.terms.number(hash)
				if first {
					fresh, df = append(fresh, s.terms[l]), append(df, 0)
				}
				df[n] += uint32(s.df(l))
				id = uint32(v.terms) + n
			}
			numbers = append(numbers, id)
			d.refs[id] = append(d.refs[id], ref{uint32(len(v.segments) + i), uint32(l)})
		}
	}
	next.idf = slices.Grow(slices.Clip(v.idf), len(df))
	for _, n := range df {
		next.idf = append(next.idf, idf(v.docs, n))
	}
	d.grams = newGramIndex(fresh, df, v.docs, &v.grams)
	next.norms = append(make([]float32, 0, next.docs), v.norms...)[:next.docs]
	for i, s := range added {
		next.measure(len(v.segments)+i, numbers[:len(s.terms)])
		numbers = numbers[len(s.terms):]
	}
	next.server = slices.Grow(slices.Clip(v.server), next.docs-v.docs)
	if slices.ContainsFunc(added, v.hasNewServer) {
		next.servers = maps.Clone(v.servers)
	}
	next.group(added)
	return &next
}

// hasNewServer reports whether a segment has documents of a server that the view has no number for.
func (v *view) hasNewServer(s *segment) bool {
	return slices.ContainsFunc(s.servers, func(name string) bool { _, known := v.servers[name]; return !known })
}

// idf returns the weight of a term that n of so many documents have.
func idf(docs int, n uint32) float32 {
	return float32(math.Log(1 + (float64(docs)-float64(n)+.5)/(float64(n)+.5)))
}

// find returns the number of the term with this hash.
func (v *view) find(hash uint64) (uint32, bool) {
	id, ok := v.dict.find(hash)
	if !ok && v.delta != nil {
		id, ok = v.delta.terms.find(hash)
		id += uint32(v.terms)
	}
	return id, ok
}

// lists returns the references to a term's postings, in two parts.
func (v *view) lists(term uint32) [2][]ref {
	var parts [2][]ref
	if int(term) < v.terms {
		parts[0] = v.refs[v.starts[term]:v.starts[term+1]]
	}
	if v.delta != nil {
		parts[1] = v.delta.refs[term]
	}
	return parts
}

// without reports whether the documents of a segment of the view are replaced or removed.
func (v *view) without(segment uint32) bool { return v.delta != nil && v.delta.gone[segment] }

// mass returns the sum of idf² over the n-grams of a term.
func (v *view) mass(term uint32) float32 {
	if int(term) >= v.terms {
		return v.delta.grams.mass[int(term)-v.terms]
	}
	return v.grams.mass[term]
}
