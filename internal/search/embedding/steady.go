package embedding

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/search"
)

const (
	maxQueries = 512              // vectors of queries that are kept
	pause      = 30 * time.Second // after a failure
)

// errPaused says that an endpoint has just failed and is not asked again yet.
var errPaused = errors.New("the embedding endpoint has just failed and is left alone for a while")

// Steady is an Embedder for queries, for which a caller waits: it waits for another one for a bounded time, asks it once for
// the same text, and does not use one that has failed for half a minute, during which queries are ranked by words at once.
// Its methods may run concurrently.
type Steady struct {
	next     search.Embedder
	patience time.Duration
	known    *bounded.Map[string, []float32] // vectors by query

	mu    sync.Mutex // guards below
	until time.Time  // when next may be asked again
}

var _ search.Embedder = (*Steady)(nil)

// NewSteady returns next as a Steady that waits for patience at most.
func NewSteady(next search.Embedder, patience time.Duration) *Steady {
	return &Steady{next: next, patience: patience,
		known: bounded.New(bounded.Options[string, []float32]{MaxCount: maxQueries, KeepUsed: true})}
}

// Embed implements search.Embedder. Vectors of one text at a time are remembered.
func (s *Steady) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	single := len(texts) == 1
	if single {
		if vector, ok := s.known.Get(texts[0]); ok {
			return [][]float32{vector}, nil
		}
	}
	s.mu.Lock()
	wait := time.Until(s.until)
	s.mu.Unlock()
	if wait > 0 {
		return nil, errPaused
	}
	waiting, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	out, err := s.next.Embed(waiting, texts)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // the caller's doing
	case err != nil && waiting.Err() != nil:
		err = fmt.Errorf("the embedding endpoint has not answered within %s", s.patience)
	}
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.until = time.Now().Add(pause)
		return nil, err
	}
	if single && len(out) == 1 {
		s.known.Put(texts[0], out[0], 0)
	}
	return out, nil
}
