package search

import (
	"math"
	"sync"
)

// view joins the segments of one Index: it numbers their documents, terms and servers through and holds the statistics
// that need all of them. It reads dictionaries and document frequencies, never a document's text, so that making a new
// one after one upstream changed costs little. It is immutable and safe for concurrent searches.
type view struct {
	t        *tuning
	segments []*segment
	base     []int      // number of each segment's first document
	local    [][]uint32 // per segment: the number in the view of each of its terms
	dict     map[string]uint32
	idf      []float32
	grams    gramIndex
	norms    []float32 // per document: length of its n-gram vector
	server   []uint32  // per document
	servers  int
	docs     int
	scratch  sync.Pool // of *scratch made for this view
}

func newView(t *tuning, segments []*segment) *view {
	v := &view{t: t, segments: segments, base: make([]int, len(segments)), local: make([][]uint32, len(segments))}
	most := 0
	for i, s := range segments {
		v.base[i] = v.docs
		v.docs += len(s.ids)
		most = max(most, len(s.terms))
	}
	v.dict = make(map[string]uint32, most)
	v.server = make([]uint32, 0, v.docs)
	servers := map[string]uint32{}
	terms := make([]string, 0, most)
	df := make([]uint32, 0, most)
	for i, s := range segments {
		local := make([]uint32, len(s.terms))
		for l, term := range s.terms {
			id, ok := v.dict[term]
			if !ok {
				id = uint32(len(terms))
				v.dict[term] = id
				terms = append(terms, term)
				df = append(df, 0)
			}
			local[l] = id
			df[id] += uint32(s.df(l))
		}
		v.local[i] = local
		for _, name := range s.servers {
			id, ok := servers[name]
			if !ok {
				id = uint32(len(servers))
				servers[name] = id
			}
			v.server = append(v.server, id)
		}
	}
	v.servers = len(servers)
	v.idf = make([]float32, len(df))
	for id, n := range df {
		v.idf[id] = float32(math.Log(1 + (float64(v.docs)-float64(n)+.5)/(float64(n)+.5)))
	}
	v.grams = newGramIndex(terms, df, v.docs)
	v.measure()
	v.scratch.New = func() any { return newScratch(v) }
	return v
}

// measure computes the norms. N-grams that two terms of a document share are counted apart, which changes no ranking
// that the development sets can tell and saves building every document's vector.
func (v *view) measure() {
	v.norms = make([]float32, v.docs)
	for i, s := range v.segments {
		norms := v.norms[v.base[i]:]
		for l, id := range v.local[i] {
			mass := v.grams.mass[id]
			if mass == 0 {
				continue
			}
			for _, p := range s.list(l) {
				norms[p.doc] += p.weight * p.weight * mass
			}
		}
	}
	for d, x := range v.norms {
		v.norms[d] = float32(math.Sqrt(float64(x)))
	}
}
