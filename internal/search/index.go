package search

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Doc is the searchable content of one catalog entry. All fields but ID may be empty. Long content
// is read to a limit: 16 KiB per text, 64 tags, 256 parameters.
type Doc struct {
	// ID identifies the entry in hits. It must be unique in an Index.
	ID string
	// Server is the entry's server. Empty means the upstream passed to With.
	Server      string
	Name        string
	Title       string // ignored if it equals Name
	Description string
	Tags        []string
	Params      []Param
	// ServerTitle is the server's name for people. It is the same for all entries of a server.
	ServerTitle string
	// About is the server's description of itself. It is the same for all entries of a server, so a
	// word of it counts little.
	About string
	// Effect is the effect of a call by the entry's annotations. Without annotations it is read
	// from the name.
	Effect Effect
}

// Param is one argument of an entry. Values are those that it may have, where they are listed.
type Param struct {
	Name, Description string
	Values            []string
}

// Hit is one result of a search.
type Hit struct {
	ID string
	// Score is above zero. Scores are comparable within one search only: the best hit of a bad
	// query scores as high as the best of a good one.
	Score float64
}

// Options configures an Index. The zero value is the measured default: lexical, without a network.
type Options struct {
	// Embedder, if not nil, lets [Index.Embed] and [Index.SearchContext] rank by meaning as well.
	// With and Search never call it.
	Embedder Embedder
	// Queries, if not nil, embeds the queries of SearchContext in place of Embedder. It must use
	// the same model, and should be fast, because the search waits for it.
	Queries Embedder

	tuning *tuning // nil: defaultTuning
}

// Index ranks the documents of any number of upstreams. It is immutable and safe for concurrent
// use. The zero value is not usable; see [New].
type Index struct {
	tuning   *tuning
	embedder Embedder   // nil: lexical only
	queries  Embedder   // nil: embedder
	segments []*segment // one per upstream
	once     sync.Once  // builds view
	view     *view
	whole    *atomic.Pointer[view] // that the view may share: the newest of the indexes that With and Without have made of each other
	left     []bool                // per document of view: not to be found; nil: all are. See Only
	leftOut  int                   // how many
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
	return &Index{tuning: t, embedder: o.Embedder, queries: queries, whole: new(atomic.Pointer[view])}
}

// With returns an index in which docs replace the documents of upstream. It shares the segments of
// other upstreams. It retains docs, which must not change, until the index is prepared. If two
// documents have the same ID, both are found. The order of docs and of calls does not affect the
// ranking of an index with fewer than 4,096 documents. In a larger one, how rare a word is may be
// counted over earlier documents, of which at most one in 32 differs from the documents of today.
func (ix *Index) With(upstream string, docs []Doc) *Index {
	ids := make([]string, len(docs))
	for i, d := range docs {
		ids[i] = d.ID
	}
	return ix.WithLater(upstream, ids, func() []Doc { return docs })
}

// WithLater returns the result of With for the documents of docs, which have these ids, in this
// order. An index of thousands of documents calls docs when it is prepared, others at once.
func (ix *Index) WithLater(upstream string, ids []string, docs func() []Doc) *Index {
	if len(ids) == 0 {
		return ix.Without(upstream)
	}
	now := len(ids) < buildLater || ix.embedder != nil
	if now {
		all := docs()
		docs = func() []Doc { return all }
	}
	s := newSegment(upstream, ids, docs)
	if now {
		s.build(ix.tuning)
		s.later = nil
	}
	segments := slices.Clone(ix.segments)
	at, found := ix.find(upstream)
	if ix.embedder != nil {
		s.passages = newPassages(docs())
	}
	if found {
		if ix.embedder != nil {
			s.keep(segments[at])
		}
		segments[at] = s
	} else {
		segments = slices.Insert(segments, at, s)
	}
	return ix.next(segments)
}

// Without returns an index without upstream's documents, or the receiver if it has none.
func (ix *Index) Without(upstream string) *Index {
	at, found := ix.find(upstream)
	if !found {
		return ix
	}
	return ix.next(slices.Delete(slices.Clone(ix.segments), at, at+1))
}

// Join returns an index with the documents of ix and of another index with the same options. The
// documents of other replace the documents of the same upstreams in ix. It shares all segments.
func (ix *Index) Join(other *Index) *Index {
	if len(other.segments) == 0 {
		return ix
	}
	segments := slices.Clone(ix.segments)
	out := ix.of(segments)
	for _, s := range other.segments {
		at, found := out.find(s.upstream)
		if found {
			out.segments[at] = s
		} else {
			out.segments = slices.Insert(out.segments, at, s)
		}
	}
	return out
}

// Empty returns an index with the options of ix and without documents.
func (ix *Index) Empty() *Index { return ix.of(nil) }

// of returns an index with the same options and other segments.
func (ix *Index) of(segments []*segment) *Index {
	out := &Index{tuning: ix.tuning, embedder: ix.embedder, queries: ix.queries, segments: segments, whole: new(atomic.Pointer[view])}
	if len(segments) > 0 {
		out.whole.Store(ix.whole.Load())
	}
	return out
}

// next is of, for an index that takes the place of ix. A whole view that one of them makes serves the other as
// well: otherwise each would make its own where the next change comes before the last one is prepared.
func (ix *Index) next(segments []*segment) *Index {
	out := ix.of(segments)
	if len(segments) > 0 {
		out.whole = ix.whole
	}
	return out
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
	return n - ix.leftOut
}

// Prepare computes the data shared by searches, which takes some milliseconds for 10,000 documents,
// and less after a small change of an index that was prepared. It also indexes the documents of
// upstreams with thousands of them, which takes ten times as long. Otherwise the first Search does
// this. After changing several upstreams, call it once on the last index. It may run concurrently
// with all other methods; a Search waits for its end.
func (ix *Index) Prepare() {
	ix.once.Do(func() {
		for _, s := range ix.segments {
			s.build(ix.tuning)
		}
		whole := ix.whole.Load()
		if whole != nil && ix.embedder == nil {
			ix.view = newDelta(whole, ix.segments)
		}
		if ix.view == nil {
			ix.view = newView(ix.tuning, ix.segments)
			ix.whole.Store(ix.view)
		}
	})
}

// Pending reports whether Prepare still has an upstream's thousands of documents to index.
func (ix *Index) Pending() bool {
	return slices.ContainsFunc(ix.segments, func(s *segment) bool { return s.later != nil && !s.later.built.Load() })
}

// Search returns the k best documents for the query, best first, equal scores by ascending ID. It
// returns fewer if fewer match: no hit scores zero. A query without a letter or digit has no hits,
// nor has k below one. Only the first 8 KiB and 96 distinct words of a query are used.
func (ix *Index) Search(query string, k int) []Hit {
	ix.Prepare()
	return ix.view.search(query, nil, nil, k, ix.left)
}
