package search

import (
	"slices"

	"github.com/weir-mcp/weir/internal/search/thesaurus"
)

// Fit returns how much of the query the document of upstream with this id meets, from 0 to 1: the
// share of the query's words, by their weight, that the document has. A related word counts by how
// near it is. Scores compare hits of one search with each other; Fit distinguishes a good best hit
// from a bad one. It is 0 for an unknown document and for a query without words.
func (ix *Index) Fit(query, upstream, id string) float64 {
	at, found := ix.find(upstream)
	if !found {
		return 0
	}
	ix.Prepare()
	seg := ix.segments[at]
	doc := slices.Index(seg.ids, id)
	if doc < 0 {
		return 0
	}
	s := ix.view.borrow()
	defer s.giveBack()
	s.parse(query)
	rarest := float32(0)
	for _, idf := range ix.view.idf {
		rarest = max(rarest, idf)
	}
	var met, all float32
	for _, w := range s.words {
		weight := w.weight * rarest
		if id, ok := ix.view.find(termHash(w.stem)); ok {
			weight = w.weight * ix.view.idf[id]
		}
		all += weight
		met += weight * s.meets(seg, doc, w)
	}
	if all == 0 {
		return 0
	}
	return float64(met / all)
}

// meets returns how well document doc of seg meets a word: 1 if it has the word.
func (s *scratch) meets(seg *segment, doc int, w word) float32 {
	if seg.has(string(w.stem), doc) || seg.has(string(w.raw), doc) {
		return 1
	}
	best := float32(0)
	for _, synonyms := range []synonyms{verbSynonyms(), nounSynonyms()} {
		for _, other := range synonyms[string(w.stem)] {
			if seg.has(other, doc) {
				best = synonymFit
			}
		}
	}
	thesaurus.Near(w.stem[1:], func(stem string, similarity float32) {
		if similarity > best && seg.has(string(append(append(s.near[:0], stemMark), stem...)), doc) {
			best = similarity
		}
	})
	return best
}

// synonymFit is how well a synonym meets a word.
const synonymFit = .7

// has reports whether document doc has a term.
func (s *segment) has(term string, doc int) bool {
	at, found := slices.BinarySearch(s.terms, term)
	if !found {
		return false
	}
	_, found = slices.BinarySearchFunc(s.list(at), uint32(doc), func(p posting, d uint32) int {
		return int(p.doc) - int(d)
	})
	return found
}
