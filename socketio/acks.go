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
	timer *time.Timer

	ready   chan struct{} // capacity 1: payload and err are set
	payload Payload
	err     error
}

func (w *waiter) settle(p Payload, err error) {
	if w.timer != nil {
		w.timer.Stop()
	}
	if w.done != nil {
		w.done(p, err)
		return
	}
	w.payload, w.err = p, err
	w.ready <- struct{}{}
}

// acks holds the emits of one socket that wait for their ack.
type acks struct {
	mu      sync.Mutex // guards below
	over    bool       // the socket is disconnected
	waiting map[uint64]*waiter
	last    uint64
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
	return id, nil
}

// setTimer sets the timer of a waiter. It stops the timer if the ack has arrived already.
func (a *acks) setTimer(id uint64, w *waiter, timer *time.Timer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.waiting[id] == w {
		w.timer = timer
	} else {
		timer.Stop()
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
func (a *acks) settle(id []byte, p Payload) {
	n, err := strconv.ParseUint(string(id), 10, 64)
	if err != nil {
		return // not an id of this side
	}
	if w := a.take(n); w != nil {
		w.settle(p, nil)
	}
}

// end tells all waiters that the socket is disconnected.
func (a *acks) end() {
	a.mu.Lock()
	waiting := a.waiting
	a.over, a.waiting = true, nil
	a.mu.Unlock()
	for _, w := range waiting {
		w.settle(Payload{}, ErrDisconnected)
	}
}
