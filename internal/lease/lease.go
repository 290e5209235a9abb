package lease

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// The times of a holder's document. An election of the store fits between two renewals and the end of
// the lease, and the lease ends before the document does.
const (
	RenewEvery = 3 * time.Second
	FenceAfter = 15 * time.Second // after the last acknowledged renewal was sent
	TTL        = 20 * time.Second
	RetryEvery = 500 * time.Millisecond // of a renewal that failed
	writeTime  = 5 * time.Second        // of one write, at most
	logEvery   = time.Minute            // of a store that does not answer
)

// Options configures a Holder. Docs, Name and Value must be set.
type Options struct {
	Docs store.Docs
	// Prefix and a name are the key of the document.
	Prefix string
	// Name returns a name that no holder has had, or "" if the holder ends. It is called at the start and
	// after each loss. It may wait, until ctx ends.
	Name func(ctx context.Context) string
	// Value returns the value of the document of a name. It is called for each write.
	Value func(name string) []byte
	// Held is called when the store has acknowledged a name. Nil is not called.
	Held func()
	// Tried is called after each attempt to renew, with the time before it. Nil is not called.
	Tried func(sent time.Time, err error)
	// Lost is called when the lease of a name is over, after Holder.Name has ceased to return it. Nil is
	// not called.
	Lost func(name string)
	// Logger gets renewals that fail; nil discards them.
	Logger *slog.Logger
}

// Holder holds a lease until Close. All methods may be called concurrently.
type Holder struct {
	o     Options
	log   *slog.Logger
	alone bool // no other process uses the store
	ctx   context.Context
	end   context.CancelFunc
	work  sync.WaitGroup
	wake  chan struct{} // capacity 1: renew now

	mu   sync.Mutex // guards below
	held string     // the name; "" while no lease is held

	name string // of the document; owned by the goroutine of run until it ends
	rev  uint64 // of the document, 0 if it was not written; owned likewise
}

// Hold returns a Holder that takes a lease as soon as the store answers.
func Hold(o Options) *Holder {
	h := &Holder{o: o, log: o.Logger, wake: make(chan struct{}, 1)}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	h.work.Go(func() {
		for h.ctx.Err() == nil && h.hold() {
		}
	})
	return h
}

// Sole returns a Holder of a store that no other process uses. It holds its lease at once and for good,
// and every other name is gone.
func Sole(name string) *Holder {
	h := &Holder{alone: true, held: name}
	h.ctx, h.end = context.WithCancel(context.Background())
	return h
}

// Name returns the name under which this process holds a lease, or "" while it holds none.
func (h *Holder) Name() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held
}

// Gone reports whether no process holds a lease of a name: its owner has ended, or has lost it.
func (h *Holder) Gone(ctx context.Context, name string) (bool, error) {
	if h.alone {
		return name != h.held, nil
	}
	doc, err := h.o.Docs.Get(ctx, h.o.Prefix+name)
	return err == nil && doc.Rev == 0, err
}

// Renew writes the document soon, because its value has changed.
func (h *Holder) Renew() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// hold holds one lease until it is lost. It returns false if the Holder ends.
func (h *Holder) hold() bool {
	name := h.o.Name(h.ctx)
	if name == "" {
		return false
	}
	h.name, h.rev = name, 0
	sent := time.Now()
	var silent time.Time // when the log was last told of it
	var cause error      // of the last renewal, if it failed
	for {
		now := time.Now()
		over, err := h.renew(sent)
		if h.o.Tried != nil {
			h.o.Tried(now, err)
		}
		wait := RenewEvery
		switch {
		case over:
			if cause == nil {
				cause = err
			}
			h.lose(cause)
			return true
		case err == nil:
			if !silent.IsZero() {
				h.log.Info("the store takes the renewals of this process again", "name", name, "after", now.Sub(sent).Round(time.Second))
			}
			sent, silent, cause = now, time.Time{}, nil
		case h.ctx.Err() == nil:
			cause = err
			if silent.IsZero() || now.Sub(silent) >= logEvery {
				silent = now
				h.log.Warn("the store did not take the renewal of this process, which tries again twice a second; operators look at the store", "name", name, "err", err)
			}
			wait = RetryEvery
			if left := FenceAfter - time.Since(sent); h.rev != 0 {
				wait = max(0, min(wait, left))
			}
		}
		select {
		case <-time.After(wait):
		case <-h.wake:
		case <-h.ctx.Done():
			return false
		}
	}
}

// renew writes the document. over reports that the lease has ended.
func (h *Holder) renew(sent time.Time) (over bool, err error) {
	limit := writeTime
	if h.rev != 0 {
		left := FenceAfter - time.Since(sent)
		if left <= 0 {
			return true, store.ErrUnavailable
		}
		limit = min(limit, left)
	}
	ctx, cancel := context.WithTimeout(h.ctx, limit)
	defer cancel()
	key := h.o.Prefix + h.name
	rev, err := h.o.Docs.Set(ctx, key, h.o.Value(h.name), h.rev, TTL)
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnavailable) {
		// An earlier write may have been made. Only this process writes the document; others delete it.
		doc, failed := h.o.Docs.Get(ctx, key)
		switch {
		case failed != nil:
			return false, err
		case doc.Rev == 0 && h.rev != 0:
			return true, err
		}
		h.rev = doc.Rev
		rev, err = h.o.Docs.Set(ctx, key, h.o.Value(h.name), doc.Rev, TTL)
	}
	if err != nil {
		return false, err
	}
	h.rev = rev
	h.mu.Lock()
	first := h.held == ""
	h.held = h.name
	h.mu.Unlock()
	if first && h.o.Held != nil {
		h.o.Held()
	}
	return false, nil
}

// lose ends the lease. The cause is the error of the last renewal.
func (h *Holder) lose(cause error) {
	h.log.Error("the store has not acknowledged this process in time: it gives up what it owned and goes on under another name", "name", h.name, "err", cause)
	h.mu.Lock()
	h.held = ""
	h.mu.Unlock()
	if h.o.Lost != nil {
		h.o.Lost(h.name)
	}
}

// Stop ends the renewals. The document stays until Close.
func (h *Holder) Stop() {
	h.end()
	h.work.Wait()
}

// Close ends the lease: other processes find the document gone when Close returns, if the store answers
// until ctx ends. Lost is not called.
func (h *Holder) Close(ctx context.Context) {
	h.Stop()
	h.mu.Lock()
	h.held = ""
	h.mu.Unlock()
	if h.rev == 0 {
		return
	}
	key := h.o.Prefix + h.name
	if err := h.o.Docs.Delete(ctx, key, h.rev); errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrUnavailable) {
		if doc, err := h.o.Docs.Get(ctx, key); err == nil && doc.Rev != 0 {
			_ = h.o.Docs.Delete(ctx, key, doc.Rev) // it ends by itself otherwise
		}
	}
}
