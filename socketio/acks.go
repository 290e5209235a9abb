package socketio

import (
	"strconv"
	"sync"
	"time"
)

// waiter is a pending emit: it gets the ack or the error. Only the goroutine that removes it from
// acks settles it.
type waiter struct {
	done  func(Payload, error) // nil: EmitPayloadWithAck waits for ready
	until time.Time            // when the emit has waited long enough; zero: never

	ready   chan struct{} // capacity 1: payload and err are set
	payload Payload
	own     releases // of the bytes of payload
	err     error
}

// settle passes a result on. own is called when its bytes are with the caller.
func (w *waiter) settle(p Payload, err error, own releases) {
	if w.done != nil {
		w.done(p, err)
		own.run()
		return
	}
	w.payload, w.own, w.err = p, own, err
	w.ready <- struct{}{}
}

// acks holds the emits of one socket that wait for their ack.
type acks struct {
	mu      sync.Mutex // guards below
	over    bool       // the socket is disconnected
	waiting map[uint64]*waiter
	last    uint64
	timer   *time.Timer // calls expire; nil: not set
	fires   time.Time   // when timer does, at the latest when the next waiter expires
	spare   *waiter     // with a channel, for the next EmitPayloadWithAck; nil: none
}

// waiter returns a waiter with a channel. It is the last one of the socket, if that is free again.
func (a *acks) waiter() *waiter {
	a.mu.Lock()
	w := a.spare
	a.spare = nil
	a.mu.Unlock()
	if w == nil {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	return w
}

// result returns the value that settled a waiter, and keeps the waiter for the next emit. The
// caller has received from ready, so no other goroutine knows the waiter.
func (a *acks) result(w *waiter) (Payload, error) {
	p, err := w.payload, w.err
	w.own.run()
	w.payload, w.own, w.err = Payload{}, nil, nil
	a.mu.Lock()
	a.spare = w
	a.mu.Unlock()
	return p, err
}

// add registers a waiter. It fails if limit waiters are registered already.
func (a *acks) add(w *waiter, limit int) (uint64, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.over:
		return 0, ErrDisconnected
	case len(a.waiting) >= limit:
		return 0, ErrTooManyAcks
	}
	if a.waiting == nil {
		a.waiting = map[uint64]*waiter{}
	}
	id := a.last
	a.last++
	a.waiting[id] = w
	if !w.until.IsZero() {
		a.wakeLocked(w.until)
	}
	return id, nil
}

// wakeLocked sets the timer to fire at a time, unless it fires earlier. Acks do not stop the timer:
// most come long before it fires, and one timer for all emits of the socket costs a call nothing.
func (a *acks) wakeLocked(at time.Time) {
	switch {
	case a.timer == nil:
		a.timer = time.AfterFunc(time.Until(at), a.expire)
	case a.fires.IsZero() || at.Before(a.fires):
		a.timer.Reset(time.Until(at))
	default:
		return
	}
	a.fires = at
}

// expire settles the waiters whose time is over, and sets the timer for the next one.
func (a *acks) expire() {
	now := time.Now()
	var late []*waiter
	var next time.Time
	a.mu.Lock()
	a.fires = time.Time{}
	for id, w := range a.waiting {
		switch {
		case w.until.IsZero():
		case !w.until.After(now):
			late = append(late, w)
			delete(a.waiting, id)
		case next.IsZero() || w.until.Before(next):
			next = w.until
		}
	}
	if !next.IsZero() {
		a.wakeLocked(next)
	}
	a.mu.Unlock()
	for _, w := range late {
		w.settle(Payload{}, ErrAckTimeout, nil)
	}
}

// take removes and returns the waiter of an ack, nil if there is none.
func (a *acks) take(id uint64) *waiter {
	a.mu.Lock()
	defer a.mu.Unlock()
	w := a.waiting[id]
	delete(a.waiting, id)
	return w
}

// settle passes an ack to its waiter. It drops late and duplicate acks.
func (a *acks) settle(id []byte, p Payload, own releases) {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err == nil { // else it is not an id of this side
		if w := a.take(n); w != nil {
			w.settle(p, nil, own)
			return
		}
	}
	own.run()
}

// settleWaiting is settle for a goroutine that may run no callback. It returns false if the waiter has
// one, and leaves that waiter waiting.
func (a *acks) settleWaiting(id []byte, p Payload, own releases) bool {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		own.run()
		return true
	}
	a.mu.Lock()
	w := a.waiting[n]
	if w != nil && w.done != nil {
		a.mu.Unlock()
		return false
	}
	delete(a.waiting, n)
	a.mu.Unlock()
	if w == nil {
		own.run()
		return true
	}
	w.settle(p, nil, own)
	return true
}

// end settles all waiters: the socket is disconnected.
func (a *acks) end() {
	a.mu.Lock()
	waiting := a.waiting
	if a.timer != nil {
		a.timer.Stop()
	}
	a.over, a.waiting = true, nil
	a.mu.Unlock()
	for _, w := range waiting {
		w.settle(Payload{}, ErrDisconnected, nil)
	}
}
