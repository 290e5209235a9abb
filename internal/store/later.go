package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// errLate is the error of a store that is not there yet.
var errLate = fmt.Errorf("%w: it has not answered since this node started; operators check the servers of the key store, and the log of this node", ErrUnavailable)

// LateDocs are Docs that come later: until Come, all methods fail with ErrUnavailable. The zero value is ready to use.
type LateDocs struct{ docs atomic.Pointer[Docs] }

var _ Docs = (*LateDocs)(nil)

// Come says that the documents are there.
func (l *LateDocs) Come(d Docs) { l.docs.Store(&d) }

func (l *LateDocs) get() (Docs, error) {
	if d := l.docs.Load(); d != nil {
		return *d, nil
	}
	return nil, errLate
}

// Get implements Docs.
func (l *LateDocs) Get(ctx context.Context, key string) (Doc, error) {
	d, err := l.get()
	if err != nil {
		return Doc{}, err
	}
	return d.Get(ctx, key)
}

// Set implements Docs.
func (l *LateDocs) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	d, err := l.get()
	if err != nil {
		return 0, err
	}
	return d.Set(ctx, key, value, rev, ttl)
}

// Delete implements Docs.
func (l *LateDocs) Delete(ctx context.Context, key string, rev uint64) error {
	d, err := l.get()
	if err != nil {
		return err
	}
	return d.Delete(ctx, key, rev)
}

// List implements Docs.
func (l *LateDocs) List(ctx context.Context, prefix string) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		d, err := l.get()
		if err != nil {
			yield(Doc{}, err)
			return
		}
		d.List(ctx, prefix)(yield)
	}
}

// Follow implements Docs.
func (l *LateDocs) Follow(keyOrPrefix string, f func(Doc)) (stop func(), err error) {
	d, err := l.get()
	if err != nil {
		return nil, err
	}
	return d.Follow(keyOrPrefix, f)
}

// LateBlobs are Blobs that come later, as LateDocs do.
type LateBlobs struct{ blobs atomic.Pointer[Blobs] }

var _ Blobs = (*LateBlobs)(nil)

// Come says that the blobs are there.
func (l *LateBlobs) Come(b Blobs) { l.blobs.Store(&b) }

// Put implements Blobs.
func (l *LateBlobs) Put(ctx context.Context, name string, r io.Reader, ttl time.Duration) error {
	if b := l.blobs.Load(); b != nil {
		return (*b).Put(ctx, name, r, ttl)
	}
	return errLate
}

// Open implements Blobs.
func (l *LateBlobs) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	if b := l.blobs.Load(); b != nil {
		return (*b).Open(ctx, name)
	}
	return nil, errLate
}

// Delete implements Blobs.
func (l *LateBlobs) Delete(ctx context.Context, name string) error {
	if b := l.blobs.Load(); b != nil {
		return (*b).Delete(ctx, name)
	}
	return errLate
}

// followAgain is the wait between attempts of FollowLater.
const followAgain = 500 * time.Millisecond

// FollowLater is Docs.Follow for a caller that can start without the documents. While the store does not answer, it tries
// again until stop is called, and f is not called. The channel is closed when f has heard of the state at the beginning:
// before FollowLater returns, if the store answers. Other errors of the first attempt are returned.
func FollowLater(d Docs, keyOrPrefix string, f func(Doc)) (stop func(), began <-chan struct{}, err error) {
	whole := make(chan struct{})
	end, err := followWhole(d, keyOrPrefix, f)
	if err == nil {
		close(whole)
		return end, whole, nil
	}
	if !errors.Is(err, ErrUnavailable) {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var tries sync.WaitGroup
	tries.Go(func() {
		for {
			select {
			case <-time.After(followAgain):
			case <-ctx.Done():
				return
			}
			// After stop, an attempt that succeeds is ended below, and nothing waits for f to be told.
			if stop, err := followWhole(d, keyOrPrefix, func(doc Doc) {
				if ctx.Err() == nil {
					f(doc)
				}
			}); err == nil {
				end = stop
				close(whole)
				return
			}
		}
	})
	return func() {
		cancel()
		tries.Wait()
		if end != nil {
			end()
		}
	}, whole, nil
}

// followWhole is Docs.Follow that calls f only if it succeeds. Otherwise the documents that an attempt tells of before it
// fails could end before the next attempt, and f would not hear of that.
func followWhole(d Docs, keyOrPrefix string, f func(Doc)) (stop func(), err error) {
	var mu sync.Mutex // guards below, and is held during calls of f
	var early []Doc
	whole := false
	stop, err = d.Follow(keyOrPrefix, func(doc Doc) {
		mu.Lock()
		defer mu.Unlock()
		if whole {
			f(doc)
			return
		}
		early = append(early, doc)
	})
	if err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	for _, doc := range early {
		f(doc)
	}
	whole, early = true, nil
	return stop, nil
}
