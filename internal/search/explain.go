package search

import (
	"context"
	"math"
	"slices"
)

// Explanation lists the parts of one document's score for a query. Shares add up to nearly the
// score of the hit.
type Explanation struct {
	// Rank counts from 1 among all documents that fit the query; 0 says that the document does not.
	Rank  int
	Score float64
	// Words are the query's words in reading order, stop words left out.
	Words []WordShare
	// Embedded says that vectors took part in the ranking. Cosine is then the cosine of the document
	// and the query, from -1 to 1.
	Embedded bool
	Cosine   float64
	// Chosen is the document's share of the choices that a Preference knows for the query, from 0 to 1.
	Chosen float64
}

// WordShare is the share of one word of a query in the lexical score of a document, next to its
// share in the score of the best one.
type WordShare struct {
	Word string
	// Through is the term of the document that the word met: itself, its stem or a related word. Empty: none.
	Through string
	// Share is the word's part of the document's lexical score, in units of the best document's: 0 to 1.
	Share float64
	// Match says how Through is related to the word.
	Match Match
	// Fields says where the document has the terms that the word met: the largest share first. The
	// shares add up to Share. Only ExplainDoc fills it.
	Fields []FieldShare
}

// FieldShare is the part of a word's share that one field of a document has.
type FieldShare struct {
	// Field is server, name, title, description, tags, argument, argument text, server title or about.
	Field string
	// Weight is the weight of one occurrence in this field, next to 1 in the description.
	Weight float64
	Share  float64
}

// Match says how a term of a document meets a word of a query.
type Match string

// The values of Match.
const (
	matchNone    Match = ""        // it does not
	matchWord    Match = "word"    // the same word
	matchForm    Match = "form"    // another form of it
	matchSynonym Match = "synonym" // a verb or a noun that stands for it
	matchRelated Match = "related" // a word of the same meaning, by the thesaurus
)

// matchOf returns how a term is related to a word.
func matchOf(w word, through string) Match {
	switch {
	case through == "":
		return matchNone
	case through == string(w.raw):
		return matchWord
	}
	term := string(stemMark) + through
	switch {
	case term == string(w.stem):
		return matchForm
	case slices.Contains(verbSynonyms()[string(w.stem)], term) || slices.Contains(nounSynonyms()[string(w.stem)], term):
		return matchSynonym
	}
	return matchRelated
}

// ExplainDoc explains as Explain does, of the ranking of SearchContext, and names the fields of a
// document that have the words. d is the Doc that With got for the document. If the query cannot be
// embedded, it explains the ranking by words. p may be nil.
func (ix *Index) ExplainDoc(ctx context.Context, query string, p Preference, d Doc) Explanation {
	ix.Prepare()
	vector, err := ix.vectorOf(ctx, query)
	if err != nil {
		vector = nil
	}
	x := ix.explain(query, d.ID, vector, p)
	segment, doc, ok := ix.view.locateID(d.ID)
	if !ok {
		return x
	}
	at := ix.view.segments[segment]
	if vector != nil {
		x.Embedded = true
		for j, y := range at.passages.vectors.of(doc) {
			x.Cosine += float64(y) * float64(vector[j])
		}
	}
	d.Server = at.servers[doc]
	where := newPlaces(ix.tuning, d)
	for i := range x.Words {
		x.Words[i].Fields = where.split(&x.Words[i])
		x.Words[i].Through = where.word(x.Words[i].Through)
	}
	return x
}

// places returns the fields of one document that have its terms.
type places struct {
	b     *builder
	scale [fields]float32
	t     *tuning
}

func newPlaces(t *tuning, d Doc) *places {
	b := newBuilder(t, 1)
	b.read(d)
	return &places{b: b, scale: b.scale(), t: t}
}

// word returns the word of the document that stands behind a term, which may be a stem: the first of
// several.
func (p *places) word(term string) string {
	if _, ok := p.b.ids[term]; ok || term == "" {
		return term
	}
	found, stem := "", string(stemMark)+term
	for one := range p.b.ids {
		if one[0] != stemMark && (found == "" || one < found) && string(appendStem(nil, []byte(one))) == stem {
			found = one
		}
	}
	if found == "" {
		return term
	}
	return found
}

var fieldNames = [fields]string{"server", "name", "title", "description", "tags", "argument", "argument text", "server title", "about"}

// split divides the share of a word among the fields that have its best term.
func (p *places) split(w *WordShare) []FieldShare {
	id, ok := p.b.ids[string(stemMark)+w.Through]
	if !ok {
		if id, ok = p.b.ids[w.Through]; !ok {
			return nil
		}
	}
	all := float32(0)
	for f, n := range p.b.counts[id] {
		all += p.scale[f] * n
	}
	var out []FieldShare
	for f, n := range p.b.counts[id] {
		if n > 0 && all > 0 {
			out = append(out, FieldShare{fieldNames[f], math.Round(1000*float64(p.t.fields[f].weight)) / 1000, w.Share * float64(p.scale[f]*n/all)})
		}
	}
	slices.SortStableFunc(out, func(a, b FieldShare) int {
		switch {
		case a.Share > b.Share:
			return -1
		case a.Share < b.Share:
			return 1
		}
		return 0
	})
	return out
}

// Explain says why the document with this id stands where it does for the query. It repeats the search once for each
// word, so it is for people who tune texts or a ranking and not for a hot path.
func (ix *Index) Explain(query, id string) Explanation {
	ix.Prepare()
	return ix.explain(query, id, nil, nil)
}

// explain explains the ranking with the vector of the query, or nil, and with p, or nil.
func (ix *Index) explain(query, id string, vector []float32, p Preference) Explanation {
	var x Explanation
	if p != nil {
		p = observed{p, id, &x.Chosen}
	}
	hits := ix.view.search(query, vector, p, ix.Len(), ix.left)
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
			share.Match = matchOf(w, share.Through)
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
