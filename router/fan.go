package router

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
)

// maxWaiting bounds the notifications that wait for one agent. What is the same
// as one that waits adds none.
const maxWaiting = 256

// notice is a notification on its way to an agent.
type notice struct {
	method string
	params json.RawMessage
}

// mailbox keeps the notifications that an upstream sends beside calls until its
// agent takes them, so that the upstream's reader never waits for an agent.
type mailbox struct {
	ready chan struct{} // capacity 1: there are notices

	mu      sync.Mutex // guards below
	notices []notice
	dropped int
}

func newMailbox() *mailbox { return &mailbox{ready: make(chan struct{}, 1)} }

// put keeps a copy of a notification. list_changed and resources/updated say
// the same however often they come, so one that waits already is enough.
func (m *mailbox) put(method string, params json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.notices {
		if n.method == method && bytes.Equal(n.params, params) && method != "notifications/message" {
			return
		}
	}
	if len(m.notices) >= maxWaiting {
		m.notices = append(m.notices[:0], m.notices[1:]...)
		m.dropped++
	}
	m.notices = append(m.notices, notice{method, bytes.Clone(params)})
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// updated keeps an update of a resource.
func (m *mailbox) updated(params json.RawMessage) { m.put("notifications/resources/updated", params) }

func (m *mailbox) take() []notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.notices
	m.notices = nil
	return out
}

// deliver hands notices to send in order until ctx ends.
func (m *mailbox) deliver(ctx context.Context, send func(notice)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-m.ready:
			for _, n := range m.take() {
				if ctx.Err() != nil {
					return
				}
				send(n)
			}
		}
	}
}

// fan owns the goroutines that deliver to agents.
type fan struct {
	mu     sync.Mutex // guards below
	closed bool
	stops  map[int]context.CancelFunc
	next   int
	wg     sync.WaitGroup // Add under mu
}

// run calls f in a goroutine until stop is called or the fan is closed.
func (f *fan) run(work func(ctx context.Context)) (stop func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	n := f.next
	f.next++
	if f.stops == nil {
		f.stops = map[int]context.CancelFunc{}
	}
	f.stops[n] = cancel
	f.wg.Go(func() { work(ctx) })
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		cancel()
		delete(f.stops, n)
	}
}

// close ends all goroutines and waits for them.
func (f *fan) close() {
	f.mu.Lock()
	f.closed = true
	for _, cancel := range f.stops {
		cancel()
	}
	f.mu.Unlock()
	f.wg.Wait()
}
