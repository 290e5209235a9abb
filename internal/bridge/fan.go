package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"sync"
)

// maxWaiting bounds the notifications that wait for one agent. Equal ones count once.
const maxWaiting = 256

// Notifications that weir itself sends.
const (
	ToolsChanged     = "notifications/tools/list_changed"
	PromptsChanged   = "notifications/prompts/list_changed"
	ResourcesChanged = "notifications/resources/list_changed"
	ResourceUpdated  = "notifications/resources/updated"
	logMessage       = "notifications/message"
	progressMade     = "notifications/progress"
)

// Notice is a notification for an agent.
type Notice struct {
	Method string
	Params json.RawMessage
}

// Mailbox stores notifications that belong to no call until their agent takes them, so that a
// server's reader never waits for an agent. It is safe for concurrent use, except that only one
// goroutine may deliver.
type Mailbox struct {
	ready chan struct{} // capacity 1: there are notices

	mu      sync.Mutex // guards below
	notices []Notice
	dropped int
}

// NewMailbox returns an empty Mailbox.
func NewMailbox() *Mailbox { return &Mailbox{ready: make(chan struct{}, 1)} }

// Put stores a copy of a notification and does not block. It skips a list_changed or
// resources/updated if an equal one waits, because repetitions add nothing. If too many wait, Put
// drops the oldest.
func (m *Mailbox) Put(method string, params json.RawMessage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, n := range m.notices {
		if n.Method == method && bytes.Equal(n.Params, params) && method != logMessage {
			return
		}
	}
	if len(m.notices) >= maxWaiting {
		m.notices = append(m.notices[:0], m.notices[1:]...)
		m.dropped++
	}
	m.notices = append(m.notices, Notice{method, bytes.Clone(params)})
	select {
	case m.ready <- struct{}{}:
	default:
	}
}

// Updated stores an update of a resource.
func (m *Mailbox) Updated(params json.RawMessage) { m.Put(ResourceUpdated, params) }

// Dropped returns how many notices were dropped.
func (m *Mailbox) Dropped() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dropped
}

func (m *Mailbox) take() []Notice {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := m.notices
	m.notices = nil
	return out
}

// Deliver hands notices to send in order until ctx ends.
func (m *Mailbox) Deliver(ctx context.Context, send func(Notice)) {
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

// Fan owns the goroutines that deliver to agents. The zero value is ready to use.
type Fan struct {
	mu     sync.Mutex // guards below
	closed bool
	stops  map[int]context.CancelFunc
	next   int
	wg     sync.WaitGroup // Add under mu
}

// Run calls work in a goroutine until stop is called or the Fan is closed. stop
// does not wait.
func (f *Fan) Run(work func(ctx context.Context)) (stop func()) {
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
	stop = func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		cancel()
		delete(f.stops, n)
	}
	f.stops[n] = cancel
	f.wg.Go(func() {
		defer stop()
		work(ctx)
	})
	return stop
}

// Close ends all goroutines and waits for them.
func (f *Fan) Close() {
	f.mu.Lock()
	f.closed = true
	for _, cancel := range f.stops {
		cancel()
	}
	f.mu.Unlock()
	f.wg.Wait()
}

// Post delivers notices to one agent. It has a goroutine of a Fan only while notices wait, so
// thousands of sessions without notices cost nothing. It is safe for concurrent use.
type Post struct {
	fan  *Fan
	box  *Mailbox
	send func(ctx context.Context, n Notice)

	mu      sync.Mutex // guards below
	running bool
	stop    func() // of the goroutine
	ended   bool
}

// NewPost returns a Post that hands notices to send, one at a time and in order.
// send must return when its context ends.
func NewPost(fan *Fan, send func(ctx context.Context, n Notice)) *Post {
	return &Post{fan: fan, box: NewMailbox(), send: send}
}

// Put sends a notification in the background. It does not block and copies params.
func (p *Post) Put(method string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return
	}
	p.box.Put(method, params)
	if !p.running {
		p.running = true
		p.stop = p.fan.Run(p.work)
	}
}

func (p *Post) work(ctx context.Context) {
	for {
		p.mu.Lock()
		notices := p.box.take()
		if len(notices) == 0 || ctx.Err() != nil {
			p.running = false
			p.mu.Unlock()
			return
		}
		p.mu.Unlock()
		for _, n := range notices {
			if ctx.Err() != nil {
				break
			}
			p.send(ctx, n)
		}
	}
}

// End drops waiting notices and accepts no more. It ends the context of a send in progress and does
// not wait for it.
func (p *Post) End() {
	p.mu.Lock()
	p.ended = true
	stop := p.stop
	p.mu.Unlock()
	p.box.take()
	if stop != nil {
		stop()
	}
}
