package search

import (
	"slices"
	"strings"
	"sync"
)

// Doc is what is known of one catalog entry. All strings may be empty but ID. Long texts are read to a bound only:
// 16 KiB of each, 64 tags, 256 parameters.
type Doc struct {
	// ID names the entry in hits. It must be unique in an Index; search gives it no other meaning.
	ID string
	// Server is the name of the server that the entry belongs to. Empty means the upstream that is given to With.
	Server      string
	Name        string
	Title       string // shown beside the name; not read when it equals Name
	Description string
	Tags        []string
	Params      []Param
}

// Param is one argument of an entry.
type Param struct{ Name, Description string }

// Hit is one result of a search.
type Hit struct {
	ID string
	// Score is above zero. It compares the hits of one search and of no other: the best hit of a bad query scores as
	// high as the best of a good one.
	Score float64
}

// Options configures an Index. The zero value is the ranking the package was measured with: lexical, without a network.
type Options struct {
	// Embedder, if not nil, lets [Index.Embed] and [Index.SearchContext] rank by meaning too. With and Search never
	// call it.
	Embedder Embedder
	// Queries, if not nil, embeds the queries of SearchContext in place of Embedder, with the same model: whoever asks a query
	// waits for it.
	Queries Embedder

	tuning *tuning // nil: defaultTuning
}

// Index ranks the documents of any number of upstreams. It is immutable and all of its methods may run concurrently.
// The zero value is not usable; see [New].
type Index struct {
	tuning   *tuning
	embedder Embedder   // nil: lexical only
	queries  Embedder   // likewise
	segments []*segment // by upstream, each of another
	once     sync.Once  // makes view
	view     *view
}

// New returns an index without documents.
func New(o Options) *Index {
	t := o.tuning
	if t == nil {
		t = defaultTuning()
	}
	queries := o.Queries
	if queries == nil {
		queries = o.Embedder
	}
	return &Index{tuning: t, embedder: o.Embedder, queries: queries}
}

// With returns an index in which docs are the documents of upstream, in place of any it had. The receiver and the
// segments of other upstreams are untouched; nothing of docs is kept or changed, so it is the caller's again on return.
// Of two documents with one ID both are found. The order of docs and of calls changes no ranking.
func (ix *Index) With(upstream string, docs []Doc) *Index {
	if len(docs) == 0 {
		return ix.Without(upstream)
	}
	s := newSegment(ix.tuning, upstream, docs)
	segments := slices.Clone(ix.segments)
	at, found := ix.find(upstream)
	if ix.embedder != nil {
		s.passages = newPassages(docs)
	}
	if found {
		if ix.embedder != nil {
			s.keep(segments[at])
		}
		segments[at] = s
	} else {
		segments = slices.Insert(segments, at, s)
	}
	return ix.of(segments)
}

// Without returns an index that lacks upstream's documents: the receiver itself if it has none.
func (ix *Index) Without(upstream string) *Index {
	at, found := ix.find(upstream)
	if !found {
		return ix
	}
	return ix.of(slices.Delete(slices.Clone(ix.segments), at, at+1))
}

// of is an index of the same kind over other segments.
func (ix *Index) of(segments []*segment) *Index {
	return &Index{tuning: ix.tuning, embedder: ix.embedder, queries: ix.queries, segments: segments}
}

func (ix *Index) find(upstream string) (at int, found bool) {
	return slices.BinarySearchFunc(ix.segments, upstream, func(s *segment, name string) int {
		return strings.Compare(s.upstream, name)
	})
}

// Len returns the number of documents.
func (ix *Index) Len() int {
	n := 0
	for _, s := range ix.segments {
		n += len(s.ids)
	}
	return n
}

// Prepare computes what searches share, which the first Search does otherwise: some milliseconds for 10,000 documents.
// Whoever changes several upstreams in a row calls it once, on the last index, before handing that out.
func (ix *Index) Prepare() {
	ix.once.Do(func() { ix.view = newView(ix.tuning, ix.segments) })
}

// Search returns the k documents that fit the query best, best first, equal scores by ascending ID. There are fewer than
// k where fewer fit: no hit scores zero. A query without a letter or digit, and k below one, have no hits.
// Only the first 8 KiB and the first 96 distinct words of a query count.
func (ix *Index) Search(query string, k int) []Hit {
	ix.Prepare()
	return ix.view.search(query, nil, k)
}
