package storetest

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// BusFaults is a bus between a room and another bus. Its faults are those that Next says, one for each message
// that is sent; a nil Next has none. With Delay, an answer comes Wait later. ConflictFalsely is none. While the bus
// is cut, no message goes out or comes in.
type BusFaults struct {
	store.Bus
	Next func() Fault
	Wait time.Duration

	mu  sync.Mutex // guards cut
	cut bool
}

var _ store.Bus = (*BusFaults)(nil)

// Cut separates the bus, or connects it again.
func (b *BusFaults) Cut(cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.cut = cut
}

func (b *BusFaults) isCut() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.cut
}

func (b *BusFaults) fault() Fault {
	if b.Next == nil {
		return None
	}
	return b.Next()
}

// Tell implements store.Bus.
func (b *BusFaults) Tell(subject string, h store.Header, body []byte) error {
	if b.isCut() {
		return store.ErrUnavailable
	}
	switch b.fault() {
	case Drop:
		return nil // a message may be lost in silence
	case ApplyThenFail:
		_ = b.Bus.Tell(subject, h, body)
		return store.ErrUnavailable
	}
	return b.Bus.Tell(subject, h, body)
}

// Ask implements store.Bus.
func (b *BusFaults) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if b.isCut() {
		go f(store.Message{}, store.ErrUnavailable)
		return
	}
	fault := b.fault()
	if fault == Drop {
		time.AfterFunc(timeout, func() { f(store.Message{}, store.ErrUnavailable) })
		return
	}
	b.Bus.Ask(subject, h, body, timeout, func(m store.Message, err error) {
		switch {
		case fault == ApplyThenFail || b.isCut():
			f(store.Message{}, store.ErrUnavailable)
		case fault == Delay:
			time.AfterFunc(b.Wait, func() { f(m, err) })
		default:
			f(m, err)
		}
	})
}

// Listen implements store.Bus.
func (b *BusFaults) Listen(subject string, f func(store.Message)) (stop func(), err error) {
	return b.Bus.Listen(subject, func(m store.Message) {
		if !b.isCut() {
			f(m)
		}
	})
}

// BlobFaults is blobs between a room and others. Its faults are those that Next says, one for each request; a nil
// Next has none. With ApplyThenFail, a blob that is read breaks off in the middle. ConflictFalsely is none.
type BlobFaults struct {
	store.Blobs
	Next func() Fault
	Wait time.Duration
}

var _ store.Blobs = (*BlobFaults)(nil)

// before returns the fault of a request that is to be done, or the error of one that is not.
func (b *BlobFaults) before(ctx context.Context) (Fault, error) {
	if b.Next == nil {
		return None, nil
	}
	fault := b.Next()
	switch fault {
	case Drop:
		return fault, store.ErrUnavailable
	case Delay:
		select {
		case <-time.After(b.Wait):
		case <-ctx.Done():
			return fault, store.ErrUnavailable
		}
	}
	return fault, nil
}

// Put implements store.Blobs.
func (b *BlobFaults) Put(ctx context.Context, name string, r io.Reader, ttl time.Duration) error {
	fault, err := b.before(ctx)
	if err != nil {
		return err
	}
	if err := b.Blobs.Put(ctx, name, r, ttl); err != nil || fault != ApplyThenFail {
		return err
	}
	return store.ErrUnavailable
}

// Open implements store.Blobs.
func (b *BlobFaults) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	fault, err := b.before(ctx)
	if err != nil {
		return nil, err
	}
	r, err := b.Blobs.Open(ctx, name)
	if err != nil || fault != ApplyThenFail {
		return r, err
	}
	return &broken{r}, nil
}

// Delete implements store.Blobs.
func (b *BlobFaults) Delete(ctx context.Context, name string) error {
	fault, err := b.before(ctx)
	if err != nil {
		return err
	}
	if err := b.Blobs.Delete(ctx, name); err != nil || fault != ApplyThenFail {
		return err
	}
	return store.ErrUnavailable
}

// broken gives one byte and fails.
type broken struct{ io.ReadCloser }

// Read implements io.Reader.
func (b *broken) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p[:min(1, len(p))])
	if err == nil {
		err = store.ErrUnavailable
	}
	return n, err
}
