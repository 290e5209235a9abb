package gateway

import (
	"crypto/sha256"
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
