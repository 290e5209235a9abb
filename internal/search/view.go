package search

import (
	"math"
	"slices"
	"sync"
)

// view combines the segments of one Index. It numbers all documents, terms and servers and holds
// the statistics over all of them. It reads dictionaries and document frequencies, not texts, so
// that a new view after a change of one upstream is cheap. It is immutable and safe for concurrent
// searches.
//
// A view after a small change shares all of this with an earlier one; see newDelta.
type view struct {
	t        *tuning
	segments []*segment
	base     []int // number of each segment's first document
	dict     vocabulary
	terms    int // of dict
	idf      []float32
	refs     []ref    // references to postings; term i has refs[starts[i]:starts[i+1]]
	starts   []uint32 // number of terms + 1
	grams    gramIndex
	norms    []float32 // per document: length of its n-gram vector
	server   []uint32  // per document
	servers  map[string]uint32
	docs     int
	embedded bool       // every document has a vector
	scratch  *sync.Pool // of *scratch
	delta    *delta     // nil in a view that was made of all its segments
}

// ref names a term of a segment.
type ref struct{ segment, term uint32 }

func newView(t *tuning, segments []*segment) *view {
	v := &view{t: t, segments: segments, base: make([]int, len(segments))}
	all, most := 0, 0
	for i, s := range segments {
		v.base[i] = v.docs
		v.docs += len(s.ids)
		all += len(s.terms)
		most = max(most, len(s.terms))
	}
	v.dict = newVocabulary(most)
	terms := make([]string, 0, most)
	df := make([]uint32, 0, most)
	counts := make([]uint32, 0, most)
	numbers := make([]uint32, 0, all) // of the terms of all segments, one segment after the other
	for _, s := range segments {
		for l, hash := range s.hashes {
			id, fresh := v.dict.number(hash)
			if fresh {
				terms = append(terms, s.terms[l])
				df = append(df, 0)
				counts = append(counts, 0)
			}
			numbers = append(numbers, id)
			df[id] += uint32(s.df(l))
			counts[id]++
		}
	}
	v.locate(numbers, counts)
	v.idf = make([]float32, len(df))
	for id, n := range df {
		v.idf[id] = idf(v.docs, n)
	}
	v.terms = len(terms)
	v.grams = newGramIndex(terms, df, v.docs, nil)
	v.norms = make([]float32, v.docs)
	for i, s := range segments {
		v.measure(i, numbers[:len(s.terms)])
		numbers = numbers[len(s.terms):]
	}
	v.servers = map[string]uint32{}
	v.server = make([]uint32, 0, v.docs)
	v.group(segments)
	v.embedded = len(segments) > 0 && !slices.ContainsFunc(segments, func(s *segment) bool {
		return s.passages == nil || s.passages.vectors == nil
	})
	v.scratch = &sync.Pool{New: func() any { return newScratch() }}
	return v
}

// locate fills refs and starts.
func (v *view) locate(numbers, counts []uint32) {
	v.starts = make([]uint32, len(counts)+1)
	for id, n := range counts {
		v.starts[id+1] = v.starts[id] + n
	}
	v.refs = make([]ref, len(numbers))
	next := counts
	copy(next, v.starts)
	for i, s := range v.segments {
		for l := range s.terms {
			id := numbers[l]
			v.refs[next[id]] = ref{uint32(i), uint32(l)}
			next[id]++
		}
		numbers = numbers[len(s.terms):]
	}
}

// measure computes the norms of the documents of a segment; numbers are the numbers of its terms. N-grams that two
// terms of a document share are counted apart, which moves means over public sets by less than a third of a point, up
// or down, and saves building every document's vector.
func (v *view) measure(segment int, numbers []uint32) {
	s := v.segments[segment]
	norms := v.norms[v.base[segment]:][:len(s.ids)]
	for l := range s.terms {
		mass := v.mass(numbers[l])
		if mass == 0 {
			continue
		}
		for _, p := range s.list(l) {
			norms[p.doc] += p.weight * p.weight * mass
		}
	}
	for d, x := range norms {
		norms[d] = float32(math.Sqrt(float64(x)))
	}
}

// group numbers the servers of the documents of further segments.
func (v *view) group(segments []*segment) {
	number := func(name string) uint32 {
		id, ok := v.servers[name]
		if !ok {
			id = uint32(len(v.servers))
			v.servers[name] = id
		}
		return id
	}
	for _, s := range segments {
		if s.single {
			id := number(s.servers[0])
			for range s.servers {
				v.server = append(v.server, id)
			}
			continue
		}
		for _, name := range s.servers {
			v.server = append(v.server, number(name))
		}
	}
}
