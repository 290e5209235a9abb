package search

// Only returns an index that finds only the documents for which keep returns true. It shares all
// data with ix, so it costs one call of keep for each document. How rare a word is counts over all
// documents of ix.
func (ix *Index) Only(keep func(upstream, id string) bool) *Index {
	ix.Prepare()
	out := ix.of(ix.segments)
	out.once.Do(func() { out.view = ix.view })
	out.left = make([]bool, 0, ix.view.docs)
	for i, s := range ix.view.segments {
		if ix.view.without(uint32(i)) {
			out.left = append(out.left, make([]bool, len(s.ids))...)
			continue
		}
		for _, id := range s.ids {
			left := !keep(s.upstream, id)
			if left {
				out.leftOut++
			}
			out.left = append(out.left, left)
		}
	}
	return out
}

// leaveOut removes the scores of documents that a search must not find.
func (s *scratch) leaveOut() {
	for d, left := range s.left {
		if left {
			s.docs[d] = docScore{}
		}
	}
}
