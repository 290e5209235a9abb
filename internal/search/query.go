package search

import (
	"math"
	"slices"
)

// Limits on the part of a query that is read.
const (
	maxQuery = 8 << 10 // bytes
	maxWords = 96      // distinct words
)

// word is one distinct word of a query.
type word struct {
	raw    []byte
	stem   []byte // dictionary form
	weight float32
	at     int // place in the query
}

// parse fills s.words with the distinct words of the query in order. It drops stop words unless
// there are no others; framing words, numbers and the story around a request count less.
func (s *scratch) parse(query string) {
	query = cut(query, maxQuery)
	s.words, s.letters = s.words[:0], s.letters[:0]
	s.keepStops, s.telling, s.scale, s.at = false, false, 1, 0
	s.reader.reset()
	if all := clauses(query); all != nil {
		s.request(all)
	} else {
		s.an.text(query)
	}
	if len(s.words) == 0 {
		s.keepStops = true
		s.an.text(query)
	}
}

// word adds one token of the query.
func (s *scratch) word(tok []byte) {
	if !s.keepStops && !s.an.whole && !s.telling {
		if verb := s.reader.word(tok); verb != "" {
			s.phrasal(verb)
			return
		}
	}
	if len(s.words) == maxWords || !s.keepStops && stopWords()[string(tok)] {
		return
	}
	if n := len(s.words); digits(tok) && n > 0 && arithmetic()[string(s.words[n-1].raw)] {
		s.words[n-1].weight = s.v.t.faint * s.v.t.faint
		s.add([]byte("calculate"))
		s.add([]byte("sum"))
	}
	s.add(tok)
}

// arithmetic are words that mean a calculation before a number: "add 2 and 3" adds nothing to a sheet.
var arithmetic = lazySet(wordSet, "add divide minus multiply plus subtract sum times")

// digits reports whether a token is a number. A number is an argument of a request, seldom its subject.
func digits(tok []byte) bool {
	for _, c := range tok {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(tok) > 0
}

// phrasal adds a verb of two words, the second of which is at hand: the verb with the same meaning
// counts, the first of the two next to nothing.
func (s *scratch) phrasal(verb string) {
	if n := len(s.words); n > 0 && string(s.words[n-1].raw) == string(s.reader.last) {
		s.words[n-1].weight = s.v.t.faint * s.v.t.faint
	}
	if len(s.words) < maxWords {
		s.add([]byte(verb))
	}
}

// add adds a word to the query's, once.
func (s *scratch) add(tok []byte) {
	for i := range s.words {
		if string(s.words[i].raw) == string(tok) {
			return
		}
	}
	start := len(s.letters)
	s.letters = append(s.letters, tok...)
	mid := len(s.letters)
	s.letters = appendStem(s.letters, tok)
	w := word{raw: s.letters[start:mid:mid], stem: slices.Clip(s.letters[mid:]), weight: 1, at: s.at}
	s.at++
	if faintWords()[string(w.stem)] {
		w.weight = s.v.t.faint
	}
	if digits(tok) {
		w.weight = s.v.t.number
	}
	w.weight *= s.scale
	s.words = append(s.words, w)
}

// weigh sets the BM25 weights of all terms for the query's words.
func (s *scratch) weigh() {
	t, v := s.v.t, s.v
	for i := range s.words {
		s.spelled(&s.words[i])
		w := s.words[i]
		wantTerm(s, w.raw, t.raw*w.weight, unlimited)
		wantTerm(s, w.stem, w.weight, unlimited)
		// A synonym that is rarer in this catalog must not count more than the word itself.
		limit := unlimited
		if id, ok := v.find(termHash(w.stem)); ok {
			limit = v.idf[id]
		}
		for _, other := range verbSynonyms()[string(w.stem)] {
			wantTerm(s, other, t.verb*w.weight, limit)
		}
		for _, other := range nounSynonyms()[string(w.stem)] {
			wantTerm(s, other, t.noun*w.weight, limit)
		}
		for _, other := range productWords()[string(w.stem)] {
			wantTerm(s, other, t.product*w.weight, limit)
		}
		s.related(w, limit)
	}
}

// unlimited bounds no idf.
const unlimited float32 = math.MaxFloat32

// wantTerm raises the weight of a term to x times its idf; limit bounds the idf.
func wantTerm[T string | []byte](s *scratch, term T, x, limit float32) {
	id, ok := s.v.find(termHash(term))
	if !ok {
		return
	}
	s.term(id).lexical = max(s.terms[id].lexical, x*min(s.v.idf[id], limit))
}

// term returns the weight of a term and records that it is in use.
func (s *scratch) term(id uint32) *termWeight {
	w := &s.terms[id]
	if !w.touched {
		w.touched = true
		s.touched = append(s.touched, id)
	}
	return w
}

// spread sets the n-gram product of every term that is similar enough to the query.
func (s *scratch) spread() {
	add := func(g *gramIndex, first int, h uint32, weight float32) {
		terms, square := g.find(h)
		x := square * weight
		for _, id := range terms {
			s.term(uint32(first) + id).gram += x
		}
	}
	for _, w := range s.words {
		s.padded = padded(s.padded, w.raw)
		eachGram(s.padded, func(h uint32) {
			add(&s.v.grams, 0, h, w.weight)
			if s.v.delta != nil {
				add(&s.v.delta.grams, s.v.terms, h, w.weight)
			}
		})
	}
	for _, id := range s.touched {
		if w := &s.terms[id]; w.gram < s.v.t.cover*s.v.mass(id) {
			w.gram = 0
		}
	}
}
