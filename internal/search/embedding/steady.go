package embedding

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/search"
)

const (
	maxQueries = 512              // vectors of queries that are kept
	pause      = 30 * time.Second // after a failure
)

// errPaused says that an endpoint has just failed and is not asked again yet.
var errPaused = errors.New("the embedding endpoint has just failed and is left alone for a while")

// Steady is an Embedder for queries, for which a caller waits: it waits for another one for a bounded time, asks it once for
// the same text, and leaves one that has failed alone for half a minute, in which queries are ranked by words at once. Its
// methods may run concurrently.
type Steady struct {
	next     search.Embedder
	patience time.Duration

	mu    sync.Mutex // guards below
	until time.Time  // when next may be asked again
	known map[string]*list.Element
	used  list.List // of query, the latest in front
}

type query struct {
	text   string
	vector []float32
}

var _ search.Embedder = (*Steady)(nil)

// NewSteady returns next as a Steady that waits for patience at most.
func NewSteady(next search.Embedder, patience time.Duration) *Steady {
	return &Steady{next: next, patience: patience, known: map[string]*list.Element{}}
}

// Embed implements search.Embedder. Vectors of one text at a time are remembered.
func (s *Steady) Embed(ctx context.Context, texts []string) ([][]float32, error) {
	single := len(texts) == 1
	s.mu.Lock()
	if single {
		if e := s.known[texts[0]]; e != nil {
			s.used.MoveToFront(e)
			s.mu.Unlock()
			return [][]float32{e.Value.(query).vector}, nil
		}
	}
	wait := time.Until(s.until)
	s.mu.Unlock()
	if wait > 0 {
		return nil, errPaused
	}
	bounded, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	out, err := s.next.Embed(bounded, texts)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, ctx.Err() // the caller's doing
	case err != nil && bounded.Err() != nil:
		err = fmt.Errorf("the embedding endpoint has not answered within %s", s.patience)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.until = time.Now().Add(pause)
		return nil, err
	}
	if single && len(out) == 1 {
		s.keep(texts[0], out[0])
	}
	return out, nil
}

// keep remembers a query. It is called under mu.
func (s *Steady) keep(text string, vector []float32) {
	if s.known[text] != nil {
		return
	}
	if s.used.Len() >= maxQueries {
		oldest := s.used.Back()
		delete(s.known, oldest.Value.(query).text)
		s.used.Remove(oldest)
	}
	s.known[text] = s.used.PushFront(query{text, vector})
}
