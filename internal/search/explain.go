package search

import "slices"

// Explanation tells what one document's score for a query is made of. Shares add up to nearly the score of the hit.
type Explanation struct {
	// Rank counts from 1 among all documents that fit the query; 0 says that the document does not.
	Rank  int
	Score float64
	// Words are the query's words in reading order, stop words left out.
	Words []WordShare
}

// WordShare is what one word of a query adds to the lexical score of a document, next to what it adds to the best one.
type WordShare struct {
	Word string
	// Through is the term of the document that the word met: itself, its stem or a related word. Empty: none.
	Through string
	// Share is the word's part of the document's lexical score, in units of the best document's: 0 to 1.
	Share float64
}

// Explain tells why the document with this id stands where it does for the query. It repeats the search once for each
// word, so it is for people who tune texts or a ranking and not for a hot path.
func (ix *Index) Explain(query, id string) Explanation {
	hits := ix.Search(query, ix.Len())
	var x Explanation
	if at := slices.IndexFunc(hits, func(h Hit) bool { return h.ID == id }); at >= 0 {
		x.Rank, x.Score = at+1, hits[at].Score
	}
	s := ix.view.borrow()
	defer s.giveBack()
	s.parse(query)
	s.weigh()
	s.accumulate()
	top := int64(0)
	for _, d := range s.docs {
		top = max(top, d.lexical)
	}
	s.forget()
	segment, doc, ok := ix.view.locateID(id)
	words := slices.Clone(s.words)
	for _, w := range words {
		share := WordShare{Word: string(w.raw)}
		if ok && top > 0 {
			share.Share, share.Through = s.explainWord(w, segment, doc, top)
		}
		x.Words = append(x.Words, share)
	}
	return x
}

// explainWord scores one word against one document.
func (s *scratch) explainWord(w word, segment, doc int, top int64) (share float64, through string) {
	s.words = append(s.words[:0], w)
	s.weigh()
	var sum, best float64
	for _, id := range s.touched {
		for _, r := range slices.Concat(s.v.lists(id)[0], s.v.lists(id)[1]) {
			if int(r.segment) != segment {
				continue
			}
			list := s.v.segments[segment].list(int(r.term))
			at, found := slices.BinarySearchFunc(list, uint32(doc), func(p posting, d uint32) int { return int(p.doc) - int(d) })
			if !found {
				continue
			}
			x := float64(s.terms[id].lexical * list[at].weight)
			sum += x
			if x > best {
				best, through = x, s.v.segments[segment].terms[r.term]
			}
		}
	}
	s.forget()
	if len(through) > 0 && through[0] == stemMark {
		through = through[1:]
	}
	return sum * fraction / float64(top), through
}

// locateID finds a document by its id.
func (v *view) locateID(id string) (segment, doc int, ok bool) {
	for i, s := range v.segments {
		if d := slices.Index(s.ids, id); d >= 0 && !v.without(uint32(i)) {
			return i, d, true
		}
	}
	return 0, 0, false
}
