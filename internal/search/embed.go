package search

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// Embedder turns texts into vectors: one per text, in order, all of the same length, with any norm.
// It must not retain the texts. It may be called concurrently.
type Embedder interface {
	Embed(ctx context.Context, texts []string) ([][]float32, error)
}

// ErrEmbedding reports that an [Embedder] failed or returned something other than one vector per
// text.
var ErrEmbedding = errors.New("embedding failed")

const (
	embedBatch = 64      // texts per call
	embedText  = 2 << 10 // embedded bytes per document
)

// vectors are the unit vectors of a segment's documents, concatenated.
type vectors struct {
	dim  int
	flat []float32
}

func (v *vectors) of(d int) []float32 { return v.flat[d*v.dim : (d+1)*v.dim] }

// passages are the texts and vectors of a segment for an Embedder.
type passages struct {
	texts   []string // until they are embedded
	digests [][sha256.Size]byte
	vectors *vectors // nil until computed
}

func newPassages(docs []Doc) *passages {
	p := &passages{texts: make([]string, len(docs)), digests: make([][sha256.Size]byte, len(docs))}
	for i, d := range docs {
		title := d.Title
		if title == "" {
			title = d.Name
		}
		p.texts[i] = strings.Clone(cut(fmt.Sprintf("%s: %s. %s", d.Server, title, d.Description), embedText))
		p.digests[i] = sha256.Sum256([]byte(p.texts[i]))
	}
	return p
}

// keep copies the vectors of old for documents with the same text. If old was not embedded yet, it
// passes on the vectors that it had received.
func (s *segment) keep(old *segment) {
	s.known = map[[sha256.Size]byte][]float32{}
	wanted := map[[sha256.Size]byte]bool{}
	for _, d := range s.passages.digests {
		wanted[d] = true
	}
	for d, v := range old.known {
		if wanted[d] {
			s.known[d] = v
		}
	}
	if old.passages.vectors == nil {
		return
	}
	for i, d := range old.passages.digests {
		if wanted[d] {
			s.known[d] = slices.Clone(old.passages.vectors.of(i))
		}
	}
}

// Embed returns an index with vectors for all documents, for [Index.SearchContext]. It embeds only
// texts without vectors: With keeps the vectors of unchanged documents. Without an Embedder in
// [Options], or with nothing to do, it returns the receiver. On an error, which wraps
// [ErrEmbedding] or is ctx's, it returns the vectors computed so far. Searches use words only until
// all documents have vectors.
func (ix *Index) Embed(ctx context.Context) (*Index, error) {
	if ix.embedder == nil {
		return ix, nil
	}
	out := ix.of(slices.Clone(ix.segments))
	changed, dim := false, 0
	for _, s := range out.segments {
		if s.passages.vectors != nil {
			dim = s.passages.vectors.dim
			break
		}
	}
	for i, s := range out.segments {
		if s.passages.vectors != nil {
			continue
		}
		v, err := embedPassages(ctx, ix.embedder, s.passages, s.known)
		if err == nil && dim != 0 && v.dim != dim {
			err = fmt.Errorf("%w: vectors of %d numbers, those of others have %d", ErrEmbedding, v.dim, dim)
		}
		if err != nil {
			err = fmt.Errorf("embed the documents of %q: %w", s.upstream, err)
			if !changed {
				return ix, err
			}
			return out, err
		}
		dim = v.dim
		out.segments[i] = s.embedded(&passages{digests: s.passages.digests, vectors: v})
		changed = true
	}
	if !changed {
		return ix, nil
	}
	return out, nil
}

// embedded returns the segment with the vectors of p.
func (s *segment) embedded(p *passages) *segment {
	done := *s
	done.known, done.passages = nil, p
	return &done
}

// Adopt returns an index that takes vectors from another index for the same texts of the same
// upstream. It saves an Embed that ran while other documents changed. If there is nothing to take,
// it returns the receiver.
func (ix *Index) Adopt(from *Index) *Index {
	if ix.embedder == nil {
		return ix
	}
	var segments []*segment
	for i, s := range ix.segments {
		if s.passages.vectors != nil {
			continue
		}
		at, found := from.find(s.upstream)
		if !found {
			continue
		}
		p := from.segments[at].passages
		if p == nil || p.vectors == nil || !slices.Equal(p.digests, s.passages.digests) {
			continue
		}
		if segments == nil {
			segments = slices.Clone(ix.segments)
		}
		segments[i] = s.embedded(p)
	}
	if segments == nil {
		return ix
	}
	return ix.of(segments)
}

func embedPassages(ctx context.Context, e Embedder, p *passages, known map[[sha256.Size]byte][]float32) (*vectors, error) {
	rows := make([][]float32, len(p.texts))
	var missing []int
	for i, d := range p.digests {
		if rows[i] = known[d]; rows[i] == nil {
			missing = append(missing, i)
		}
	}
	for batch := range slices.Chunk(missing, embedBatch) {
		texts := make([]string, len(batch))
		for i, at := range batch {
			texts[i] = p.texts[at]
		}
		got, err := embed(ctx, e, texts)
		if err != nil {
			return nil, err
		}
		for i, at := range batch {
			rows[at] = got[i]
		}
	}
	v := &vectors{dim: len(rows[0])}
	v.flat = make([]float32, 0, len(rows)*v.dim)
	for _, row := range rows {
		if len(row) != v.dim {
			return nil, fmt.Errorf("%w: vectors of %d and of %d numbers", ErrEmbedding, v.dim, len(row))
		}
		v.flat = append(v.flat, row...)
	}
	return v, nil
}

// embed calls e and returns unit vectors in newly allocated memory.
func embed(ctx context.Context, e Embedder, texts []string) ([][]float32, error) {
	got, err := e.Embed(ctx, texts)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%w: %w", ErrEmbedding, err)
	}
	if len(got) != len(texts) {
		return nil, fmt.Errorf("%w: %d vectors for %d texts", ErrEmbedding, len(got), len(texts))
	}
	out := make([][]float32, len(got))
	for i, row := range got {
		sum := 0.0
		for _, x := range row {
			sum += float64(x) * float64(x)
		}
		if !(sum > 0) || math.IsInf(sum, 0) {
			return nil, fmt.Errorf("%w: a vector of %d numbers has no direction", ErrEmbedding, len(row))
		}
		unit := float32(1 / math.Sqrt(sum))
		out[i] = make([]float32, len(row))
		for j, x := range row {
			out[i][j] = x * unit
		}
	}
	return out, nil
}

// SearchContext searches as [Index.Search] does and includes the embedding score, if [Index.Embed]
// has been called, and the Preference, if it is not nil. If the query cannot be embedded, it returns
// the hits of the words together with the error: the caller may log the error and use the hits. ctx
// bounds the Embedder's call.
func (ix *Index) SearchContext(ctx context.Context, query string, p Preference, k int) ([]Hit, error) {
	ix.Prepare()
	if k <= 0 {
		return nil, nil
	}
	vector, err := ix.vectorOf(ctx, query)
	return ix.view.search(query, vector, p, k, ix.left), err
}

// vectorOf returns the vector of a query; nil if the index ranks only by words.
func (ix *Index) vectorOf(ctx context.Context, query string) ([]float32, error) {
	if ix.embedder == nil || !ix.view.embedded || strings.TrimSpace(query) == "" {
		return nil, nil
	}
	rows, err := embed(ctx, ix.queries, []string{cut(query, maxQuery)})
	if err == nil && len(rows[0]) != ix.view.segments[0].passages.vectors.dim {
		err = fmt.Errorf("%w: the query's vector has %d numbers, those of documents %d", ErrEmbedding, len(rows[0]),
			ix.view.segments[0].passages.vectors.dim)
	}
	if err != nil {
		return nil, fmt.Errorf("embed a query: %w", err)
	}
	return rows[0], nil
}

// meaning adds the cosines with the query's vector to total: 0 for a document at the mean of all,
// full weight for the best. Of the documents that share no word with the query, only the best take
// part.
func (s *scratch) meaning(query []float32) {
	cosines := make([]float32, s.v.docs)
	var sum, best float64
	for i, seg := range s.v.segments {
		for d := range seg.ids {
			x := float32(0)
			for j, y := range seg.passages.vectors.of(d) {
				x += y * query[j]
			}
			cosines[s.v.base[i]+d] = x
			sum += float64(x)
			best = max(best, float64(x))
		}
	}
	mean := sum / float64(len(cosines))
	if best <= mean {
		return
	}
	sorted := slices.Clone(cosines)
	slices.Sort(sorted)
	floor := sorted[max(0, len(sorted)-shortlist)]
	scale := float64(s.v.t.meaning) / (best - mean)
	for d, x := range cosines {
		if (s.total[d] > 0 || x >= floor) && (s.left == nil || !s.left[d]) {
			s.total[d] += float32(max(0, (float64(x)-mean)*scale))
		}
	}
}
