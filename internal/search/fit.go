package search

import (
	"slices"

	"github.com/weir-mcp/weir/internal/search/thesaurus"
)

// Fit says how well a document meets a query. Scores compare hits of one search with each other; a Fit
// distinguishes a good best hit from a bad one.
type Fit struct {
	// Share is the share of the query's words, by their weight, that the document has: 0 to 1. A
	// related word counts by how near it is.
	Share float64
	// Known is the number of words that a document of the index has, itself or in a related word.
	Known int
	// Unmet are the words that no document of the index has, in reading order.
	Unmet []string
	// Lacking are the words that others have, and this document has not.
	Lacking []string
	// English says that the query has a function word of English.
	English bool
	// Deletes says that the document's name is an act that deletes, Contrary that it is an act of another
	// kind than the query asks for.
	Deletes, Contrary bool
}

// Fit returns how well the document of upstream with this id meets the query. An unknown document meets
// nothing, and a query without words has the zero Fit.
func (ix *Index) Fit(query, upstream, id string) Fit {
	ix.Prepare()
	at, doc := -1, -1
	if i, found := ix.find(upstream); found {
		at, doc = i, slices.Index(ix.segments[i].ids, id)
	}
	s := ix.view.borrow()
	defer s.giveBack()
	s.left = ix.left
	s.parse(query)
	out := Fit{English: s.reader.english}
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
		share := float32(0)
		if doc >= 0 {
			share = s.meets(w, func(term []byte) bool { return ix.segments[at].has(string(term), doc) })
		}
		met += weight * share
		switch known := share > 0 || s.meets(w, s.knows) > 0; {
		case !known:
			out.Unmet = append(out.Unmet, string(w.raw))
			continue
		case share == 0:
			out.Lacking = append(out.Lacking, string(w.raw))
		}
		out.Known++
	}
	if doc >= 0 {
		kinds := ix.segments[at].labels[doc].kinds
		out.Deletes = kinds&kindDelete != 0
		out.Contrary = s.reader.intent() == intentAct && kinds != 0 && s.reader.kinds&kinds == 0
	}
	if all > 0 {
		out.Share = float64(met / all)
	}
	return out
}

// meets returns how well terms meet a word: 1 if the word itself is one.
func (s *scratch) meets(w word, has func(term []byte) bool) float32 {
	if has(w.stem) || has(w.raw) {
		return 1
	}
	best := float32(0)
	for _, synonyms := range []synonyms{verbSynonyms(), nounSynonyms()} {
		for _, other := range synonyms[string(w.stem)] {
			if s.near = append(s.near[:0], other...); has(s.near) {
				best = synonymFit
			}
		}
	}
	thesaurus.Near(w.stem[1:], func(stem string, similarity float32) {
		if similarity <= best || similarity < s.v.t.distant {
			return
		}
		if s.near = append(append(s.near[:0], stemMark), stem...); has(s.near) {
			best = similarity
		}
	})
	return best
}

// synonymFit is how well a synonym meets a word.
const synonymFit = .7

// knows reports whether a document that may be found has a term.
func (s *scratch) knows(term []byte) bool {
	id, ok := s.v.find(termHash(term))
	if !ok {
		return false
	}
	for _, refs := range s.v.lists(id) {
		for _, r := range refs {
			if s.v.without(r.segment) {
				continue
			}
			for _, p := range s.v.segments[r.segment].list(int(r.term)) {
				if s.left == nil || !s.left[s.v.base[r.segment]+int(p.doc)] {
					return true
				}
			}
		}
	}
	return false
}

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
