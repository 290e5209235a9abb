package search

import (
	"math"

	"github.com/weir-mcp/weir/internal/search/thesaurus"
)

// related adds the words whose meaning is near w's, so that "folder" finds directories. Their
// weight falls with the distance. If w itself is no term of the catalog, its nearest words have to
// answer for it, and the weight falls more slowly.
func (s *scratch) related(w word, limit float32) {
	t := s.v.t
	absent := limit == unlimited
	thesaurus.Near(w.stem[1:], func(stem string, similarity float32) {
		s.near = append(append(s.near[:0], stemMark), stem...)
		x := (similarity - t.distant) / (1 - t.distant)
		if x <= 0 {
			return
		}
		if absent {
			x = float32(math.Sqrt(float64(x)))
		}
		wantTerm(s, s.near, t.related*x*w.weight, limit)
	})
}
