package listings

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// stuckDocs is a store in which one document can never be written.
type stuckDocs struct {
	store.Docs
	key string
	err error
}

func (s stuckDocs) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if key == s.key {
		return 0, s.err
	}
	return s.Docs.Set(ctx, key, value, rev, ttl)
}

// TestWriterAroundAFailure: a document that can never be written does not delay the others.
func TestWriterAroundAFailure(t *testing.T) {
	for _, failure := range []error{store.ErrFull, store.ErrUnavailable} {
		synctest.Test(t, func(t *testing.T) {
			docs := store.NewMemory(store.MemoryOptions{})
			p := newWriter(stuckDocs{docs, "l.bad", failure}, slog.New(slog.DiscardHandler))
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() { defer close(done); p.run(ctx) }()
			for i := range 50 {
				key := "l.a" + string(rune('a'+i%26)) + string(rune('a'+i/26))
				p.write("l.bad", []byte("x"), 0)
				p.write(key, []byte("x"), 0)
				time.Sleep(time.Second)
				if doc, err := docs.Get(t.Context(), key); err != nil || doc.Rev == 0 {
					t.Errorf("%v: %s is not written, %v", failure, key, err)
				}
			}
			cancel()
			<-done
		})
	}
}
