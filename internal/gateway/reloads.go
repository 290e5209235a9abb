package gateway

import (
	"context"
	"crypto/sha256"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/config"
)

// Reloads tell of each reading of a changed configuration. The zero value is ready. They are safe for
// concurrent use.
type Reloads struct {
	mu   sync.Mutex        // guards below
	next chan struct{}     // closed at the next reading; nil until a caller waits
	sum  [sha256.Size]byte // of the last configuration that is used
	err  error             // of the last reading
}

// read tells of a reading: of a configuration that is used, or why none is.
func (r *Reloads) read(c *config.Config, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err = err; err == nil {
		r.sum = c.Sum()
	}
	if r.next != nil {
		close(r.next)
		r.next = nil
	}
}

// Next returns a channel that is closed at the next reading.
func (r *Reloads) Next() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next == nil {
		r.next = make(chan struct{})
	}
	return r.next
}

// last returns the sum of the configuration that is used, or why the last one that was read is not.
func (r *Reloads) last() ([sha256.Size]byte, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sum, r.err
}

// Edited waits until the gateway uses the configuration with a sum, or refuses one, and then until the
// named servers have been listed or have failed. next is what Reloads.Next returned before the edit. It
// returns their states, without those that are gone.
func (o *Operator) Edited(ctx context.Context, next <-chan struct{}, sum [sha256.Size]byte, names []string) ([]UpstreamHealth, error) {
	reloads := o.reloads
	for {
		select {
		case <-next:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		next = reloads.Next() // before the look, so that no reading is missed
		used, err := reloads.last()
		if err != nil {
			return nil, err
		}
		if used == sum {
			break
		}
	}
	for _, name := range names {
		if u, ok := o.manager.Upstream(name); ok {
			select {
			case <-u.Settled():
			case <-ctx.Done():
			}
		}
	}
	return slices.DeleteFunc(o.Servers(), func(u UpstreamHealth) bool { return !slices.Contains(names, u.Name) }), nil
}
