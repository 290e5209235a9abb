package web

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/web/api"
)

// presence counts the requests in flight and says when there have been none for a time. A client
// that is attached, or listens, has one in flight.
type presence struct {
	mu    sync.Mutex // guards below
	open  int
	last  time.Time     // when a request started or ended
	after time.Duration // 0: never
	timer *time.Timer
	idle  chan struct{}
}

// watched are paths that programs ask which watch the gateway; they are no clients.
var watched = []string{"/healthz", "/health", "/metrics", api.Path + "logs"}

// start counts a request until end is called.
func (p *presence) start(r *http.Request) (end func()) {
	if slices.Contains(watched, r.URL.Path) {
		return func() {}
	}
	p.add(1)
	return func() { p.add(-1) }
}

func (p *presence) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open += n
	p.last = time.Now()
	if p.timer == nil {
		return
	}
	if p.open == 0 {
		p.timer.Reset(p.after)
	} else {
		p.timer.Stop()
	}
}

// busy reports whether a request is in flight, or was a moment ago.
func (p *presence) busy() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.open > 0 || time.Since(p.last) < lingerBusy
}

// wait returns a channel that is closed once no request has been in flight for a time. It may be
// called once.
func (p *presence) wait(after time.Duration) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.after, p.idle = after, make(chan struct{})
	p.timer = time.AfterFunc(after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.open == 0 && p.after > 0 {
			p.after = 0
			close(p.idle)
		}
	})
	if p.open > 0 {
		p.timer.Stop()
	}
	return p.idle
}

// Idle returns a channel that is closed once no client has been there for a time. It may be called
// once.
func (f *Server) Idle(after time.Duration) <-chan struct{} { return f.presence.wait(after) }
