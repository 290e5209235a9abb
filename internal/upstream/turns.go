package upstream

import (
	"context"
	"sync"
	"time"
)

// startPatience is how long a program that starts keeps its place. Without it, a dozen servers that
// never answer would keep the rest waiting for the whole time of a start.
const startPatience = 5 * time.Second

// turns bounds the programs that start at the same time. A nil turns sets no bound.
type turns struct {
	places chan struct{}
}

// newTurns returns turns with n places, nil for none.
func newTurns(n int) *turns {
	if n <= 0 {
		return nil
	}
	return &turns{places: make(chan struct{}, n)}
}

// take waits for a place until ctx ends. The place is free again after startPatience, or as soon as
// the caller leaves it. leave may be called more than once.
func (t *turns) take(ctx context.Context) (leave func(), err error) {
	if t == nil {
		return func() {}, nil
	}
	select {
	case t.places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var once sync.Once
	free := func() { once.Do(func() { <-t.places }) }
	late := time.AfterFunc(startPatience, free)
	return func() { late.Stop(); free() }, nil
}
