package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/internal/signin/vault"
)

// maxRefreshes bounds the refreshes in progress. Callers may have left them.
const maxRefreshes = 1000

// Errors of refreshes that are not started.
var (
	errTooManyRefreshes = fmt.Errorf("weir refreshes %d tokens already; try again in a moment", maxRefreshes)
	errClosed           = errors.New("weir stops, and refreshes no more tokens")
)

// refreshes are the refreshes in progress, one of each credential. A refresh goes on if its callers
// leave: the issuer may have rotated the token, and the new one has to be stored.
//
//	caller ─▶ do ──▶ a goroutine, up to refreshTime ─▶ outcome of all callers
//	close: waits for the goroutines, and cuts them off if its context ends first
type refreshes struct {
	ctx context.Context // ends when close cuts off
	cut context.CancelFunc

	mu      sync.Mutex // guards below
	running map[vault.ID]*refreshing
	closed  bool
}

// refreshing is a refresh in progress, with its outcome once done is closed.
type refreshing struct {
	done  chan struct{}
	grant *grant
	err   error
}

func newRefreshes() *refreshes {
	r := &refreshes{running: map[vault.ID]*refreshing{}}
	r.ctx, r.cut = context.WithCancel(context.Background())
	return r
}

// do returns the outcome of the refresh of a credential that is in progress, else starts one. It
// returns early if ctx ends.
func (r *refreshes) do(ctx context.Context, id vault.ID, refresh func(ctx context.Context) (*grant, error)) (*grant, error) {
	one, err := r.join(ctx, id, refresh)
	if err != nil {
		return nil, err
	}
	select {
	case <-one.done:
		return one.grant, one.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// join returns the refresh of a credential, which it starts if there is none.
func (r *refreshes) join(ctx context.Context, id vault.ID, refresh func(ctx context.Context) (*grant, error)) (*refreshing, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.running[id]; one != nil {
		return one, nil
	}
	switch {
	case r.closed:
		return nil, errClosed
	case len(r.running) >= maxRefreshes:
		return nil, errTooManyRefreshes
	}
	one := &refreshing{done: make(chan struct{})}
	r.running[id] = one
	alone, cancel := context.WithTimeout(context.WithoutCancel(ctx), refreshTime)
	stop := context.AfterFunc(r.ctx, cancel)
	go func() {
		defer cancel()
		defer stop()
		one.grant, one.err = refresh(alone)
		r.mu.Lock()
		delete(r.running, id)
		r.mu.Unlock()
		close(one.done)
	}()
	return one, nil
}

// any reports whether a refresh is in progress.
func (r *refreshes) any() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.running) > 0
}

// close waits for the refreshes in progress, and starts no more. If ctx ends first, it cuts them off,
// and the error names their servers.
func (r *refreshes) close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	left := maps.Clone(r.running)
	r.mu.Unlock()
	defer r.cut()
	var names []string
	for id, one := range left {
		select {
		case <-one.done:
			continue
		default:
		}
		select {
		case <-one.done:
		case <-ctx.Done():
			names = append(names, ServerName(id))
		}
	}
	if names == nil {
		return nil
	}
	slices.Sort(names)
	return fmt.Errorf("the refresh of tokens for %s was cut off: %w", strings.Join(slices.Compact(names), ", "), ctx.Err())
}
