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
	retryEvery = 500 * time.Millisecond // of a renewal that failed
	writeTime  = 5 * time.Second        // of one write, at most
)

// Options configures a Holder. Docs, Name and Value must be set.
type Options struct {
	Docs store.Docs
	// Prefix and a name are the key of the document.
	Prefix string
	// Name returns a name that no holder has had. It is called at the start and after each loss.
	Name func() string
	// Value returns the value of the document of a name. It is called for each write.
	Value func(name string) []byte
	// Held is called when the store has acknowledged a name. Nil is not called.
	Held func()
	// Lost is called when the lease of a name is over, after Name has ceased to return it. It must not
	// block. Nil is not called.
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

	mu   sync.Mutex // guards below
	held string     // the name; "" while no lease is held

	name string // of the document; owned by the goroutine of run until it ends
	rev  uint64 // of the document, 0 if it was not written; owned likewise
}

// Hold returns a Holder that takes a lease as soon as the store answers.
func Hold(o Options) *Holder {
	h := &Holder{o: o, log: o.Logger}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.end = context.WithCancel(context.Background())
	h.work.Go(func() {
		for h.ctx.Err() == nil {
			h.hold()
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

// hold holds one lease until it is lost or the Holder closes.
func (h *Holder) hold() {
	h.name, h.rev = h.o.Name(), 0
	sent, silent := time.Now(), false
	for {
		now := time.Now()
		over, err := h.renew(sent)
		wait := RenewEvery
		switch {
		case over:
			h.lose()
			return
		case err == nil:
			sent = now
			if silent {
				h.log.Info("the store takes the renewals of this process again", "name", h.name)
			}
			silent = false
		case h.ctx.Err() == nil:
			if !silent {
				h.log.Warn("the store did not take the renewal of this process, which tries again twice a second", "name", h.name, "err", err)
			}
			silent, wait = true, retryEvery
			if left := FenceAfter - time.Since(sent); h.rev != 0 {
				wait = max(0, min(wait, left))
			}
		}
		select {
		case <-time.After(wait):
		case <-h.ctx.Done():
			return
		}
	}
}

// renew writes the document. over reports that the lease has ended.
func (h *Holder) renew(sent time.Time) (over bool, err error) {
	limit := writeTime
	if h.rev != 0 {
		left := FenceAfter - time.Since(sent)
		if left <= 0 {
			return true, nil
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
			return true, nil
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

// lose ends the lease.
func (h *Holder) lose() {
	h.log.Error("the store has not acknowledged this process in time: it gives up what it owned and goes on under another name", "name", h.name)
	h.mu.Lock()
	h.held = ""
	h.mu.Unlock()
	if h.o.Lost != nil {
		h.o.Lost(h.name)
	}
}

// Close ends the lease: other processes find the document gone when Close returns, if the store answers
// until ctx ends. Lost is not called.
func (h *Holder) Close(ctx context.Context) {
	h.end()
	h.work.Wait()
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
