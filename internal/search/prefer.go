package search

import "slices"

// A Preference knows which documents were chosen after earlier searches with the same words. One that
// is passed to several searches at a time must be safe for concurrent use.
type Preference interface {
	// Shares sets shares[i] to the share of the choices, from 0 to 1, that the document ids[i] had among
	// ids. words are the words of the query that count in full, as dictionary forms. The words and ids
	// are valid until Shares returns; all shares are 0 before.
	Shares(words [][]byte, ids []string, shares []float32)
}

// preferring is the memory of prefer.
type preferring struct {
	words  [][]byte
	ids    []string
	shares []float32
}

// prefer raises the found documents by their shares of earlier choices: so little that it decides only
// between documents that match about equally. It precedes exact, whose lead is smaller than that.
func (s *scratch) prefer(p Preference) {
	if p == nil {
		return
	}
	m, found := &s.prefers, s.found[:min(len(s.found), shortlist)]
	m.words, m.ids = m.words[:0], m.ids[:0]
	for _, w := range s.words {
		if w.weight == 1 {
			m.words = append(m.words, w.stem)
		}
	}
	for _, c := range found {
		m.ids = append(m.ids, s.v.segments[c.segment].ids[c.doc])
	}
	m.shares = slices.Grow(m.shares[:0], len(found))[:len(found)]
	clear(m.shares)
	p.Shares(m.words, m.ids, m.shares)
	for i, share := range m.shares {
		found[i].score *= 1 + s.v.t.chosen*min(max(share, 0), 1)
	}
	clear(m.ids) // a replaced view can be freed
}

// observed is a Preference that notes the share of one document.
type observed struct {
	Preference
	id    string
	share *float64
}

// Shares implements Preference.
func (o observed) Shares(words [][]byte, ids []string, shares []float32) {
	o.Preference.Shares(words, ids, shares)
	if at := slices.Index(ids, o.id); at >= 0 {
		*o.share = float64(shares[at])
	}
}
