package memory

import (
	"context"
	"time"
)

// Account is a Pool on behalf of one owner. It is safe for concurrent use.
type Account struct {
	p    *Pool
	name string
}

// Account returns the account of an owner, such as `upstream "files"`. Owners
// with one name share their part of the Pool. Of a nil Pool it is nil.
func (p *Pool) Account(name string) *Account {
	if p == nil {
		return nil
	}
	return &Account{p, name}
}

// try takes n bytes for an owner's message in reception if they are free.
func (p *Pool) try(name string, n int64) bool {
	p.sweep(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leaves(n, p.o.Limit/4) || p.waiting > 0 && p.arriving()+n > p.mostInQueue() || !p.own(name, n) {
		return false
	}
	p.used += n
	return true
}

// own counts n bytes for an owner, if they are within its share. The caller holds mu.
func (p *Pool) own(name string, n int64) bool {
	o := p.enter(name)
	if o.used+n > p.mostOwned() {
		p.leave(o)
		return false
	}
	if o.used > 0 {
		p.leave(o) // all held blocks have one reference together
	}
	o.used += n
	return true
}

func (p *Pool) give(name string, n int64) {
	p.discard(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drop(name, n)
}

// drop returns n bytes of an owner. The caller holds mu.
func (p *Pool) drop(name string, n int64) {
	o := p.owners[name]
	p.used -= n
	if o.used -= n; o.used == 0 {
		p.leave(o)
	}
	p.serve()
}

// Hold is room for bytes that arrive on the heap, such as a request's body. The zero value sets no
// bound. It is for one goroutine at a time.
type Hold struct {
	p          *Pool
	kind, name string // of the owner
	n          int64
}

// Hold returns an empty Hold for an owner of some kind, such as "principal ", "ann". It does not
// allocate.
func (p *Pool) Hold(kind, name string) Hold { return Hold{p: p, kind: kind, name: name} }

// Hold returns an empty Hold.
func (a *Account) Hold() Hold {
	if a == nil {
		return Hold{}
	}
	return a.p.Hold("", a.name)
}

func (h *Hold) owner() string { return h.kind + h.name }

// retryEvery is how often a waiting Hold looks for room. It keeps its bytes while it waits, so it
// must not block others.
const retryEvery = 20 * time.Millisecond

// Grow makes the Hold one of n bytes in total. Up to Free it costs nothing. If there is no room, it
// waits at most Options.Wait, and not for room that only others could free who wait as well. It returns an
// *Error or the error of ctx.
func (h *Hold) Grow(ctx context.Context, n int64) error { return h.grow(ctx, n, false) }

// grow is Grow. lost says that the answer of a server is lost without the bytes.
func (h *Hold) grow(ctx context.Context, n int64, lost bool) error {
	if h.TryGrow(n) {
		return nil
	}
	timer := time.NewTimer(h.p.o.Wait)
	defer timer.Stop()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	w := &waiter{n: n - h.n, room: roomToArrive, owner: h.owner(), lost: lost, has: FromContext(ctx).holding()}
	w.has.part = h.n
	w.has.all += h.n
	h.p.join(w)
	defer h.p.leaveQueue(w)
	for {
		select {
		case <-tick.C:
			if h.TryGrow(n) {
				return nil
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-w.giveUp:
		}
		return &Error{Size: n, Limit: h.p.o.Limit}
	}
}

// TryGrow is Grow without waiting.
func (h *Hold) TryGrow(n int64) bool {
	if h == nil || h.p == nil || n <= Free || n <= h.n {
		return true
	}
	if !h.p.try(h.owner(), n-h.n) {
		return false
	}
	h.n = n
	return true
}

// Take is Grow without waiting: it returns an *Error if there is no room now.
func (h *Hold) Take(n int64) error {
	if h.TryGrow(n) {
		return nil
	}
	return &Error{Size: n, Limit: h.p.o.Limit}
}

// Move returns a Hold with all bytes of this one, which is empty then.
func (h *Hold) Move() *Hold {
	out := *h
	h.n = 0
	return &out
}

// Len returns the number of counted bytes.
func (h *Hold) Len() int64 { return h.n }

// Release returns all bytes. It may be called more than once.
func (h *Hold) Release() {
	if h.n > 0 {
		h.p.give(h.owner(), h.n)
		h.n = 0
	}
}

// Keep takes n bytes for stored data, if they are free. The caller returns them with Drop. A nil
// Account always has room.
func (a *Account) Keep(n int64) bool {
	if a == nil {
		return true
	}
	p := a.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.leaves(n, p.toCalls()) || p.kept+n > p.mostKept() {
		return false
	}
	p.used += n
	p.kept += n
	p.resolve()
	return true
}

// Drop returns the bytes of Keep.
func (a *Account) Drop(n int64) {
	if a == nil {
		return
	}
	p := a.p
	p.discard(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
	p.kept -= n
	p.serve()
}
