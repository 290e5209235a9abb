package engineio

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A recorder is a receiver that keeps what it gets.
type recorder struct {
	messages chan string // text as it is, binary in hexadecimal behind "0x"
	closed   chan Reason
	on       func(data []byte, binary bool) // called first, if set
}

func newRecorder() *recorder {
	return &recorder{messages: make(chan string, 10_000), closed: make(chan Reason, 1)}
}

func (r *recorder) Message(data []byte, binary bool) {
	if r.on != nil {
		r.on(data, binary)
	}
	if binary {
		r.messages <- fmt.Sprintf("0x%x", data)
		return
	}
	r.messages <- string(data)
}

func (r *recorder) Pause() {}

func (r *recorder) Closed(reason Reason, _ error) { r.closed <- reason }

// next waits for a message.
func (r *recorder) next(t *testing.T) string {
	t.Helper()
	select {
	case m := <-r.messages:
		return m
	case <-time.After(30 * time.Second):
		t.Fatal("no message came")
		return ""
	}
}

func (r *recorder) reason(t *testing.T) Reason {
	t.Helper()
	select {
	case reason := <-r.closed:
		return reason
	case <-time.After(2 * time.Minute):
		t.Fatal("the session did not end")
		return ""
	}
}

// A pair is a server whose sessions are recorded.
type pair struct {
	t        *testing.T
	server   *Server
	url      string
	listener *memnet.Listener

	mu       sync.Mutex
	sessions []*Session
	received []*recorder
	opened   chan struct{}
}

// setup starts a server on a real port.
func setup(t *testing.T, config Config) *pair {
	p := newPair(t, config)
	hs := httptest.NewServer(p.server)
	p.url = hs.URL + "/engine.io/"
	t.Cleanup(func() {
		p.shutdown()
		hs.Close()
	})
	return p
}

// setupInMemory starts a server for a synctest bubble.
func setupInMemory(t *testing.T, config Config) *pair {
	p := newPair(t, config)
	p.listener = memnet.New()
	hs := &http.Server{Handler: p.server, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = hs.Serve(p.listener)
	}()
	p.url = "http://memory/engine.io/"
	t.Cleanup(func() {
		p.shutdown()
		_ = hs.Close()
		<-done
	})
	return p
}

func newPair(t *testing.T, config Config) *pair {
	p := &pair{t: t, opened: make(chan struct{}, 10_000)}
	if config.Accept == nil {
		config.Accept = func(s *Session) Receiver {
			r := newRecorder()
			p.mu.Lock()
			p.sessions, p.received = append(p.sessions, s), append(p.received, r)
			p.mu.Unlock()
			p.opened <- struct{}{}
			return r
		}
	}
	p.server = NewServer(config)
	return p
}

func (p *pair) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := p.server.Shutdown(ctx); err != nil {
		p.t.Errorf("shutdown: %v", err)
	}
}

// dial opens a session and returns both ends of it.
func (p *pair) dial(config ClientConfig) (near *Session, nearSide *recorder, far *Session, farSide *recorder) {
	p.t.Helper()
	if p.listener != nil {
		config.DialContext = p.listener.DialContext
	}
	nearSide = newRecorder()
	near, err := Dial(context.Background(), p.url, config, func(*Session) Receiver { return nearSide })
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		near.Close()
		near.Wait()
	})
	<-p.opened
	p.mu.Lock()
	defer p.mu.Unlock()
	return near, nearSide, p.sessions[len(p.sessions)-1], p.received[len(p.received)-1]
}

// ways are the transports a client may use.
var ways = map[string][]Transport{
	"polling":   {Polling},
	"websocket": {WebSocket},
	"upgrade":   {Polling, WebSocket},
}

func eachWay(t *testing.T, test func(t *testing.T, config ClientConfig)) {
	for name, transports := range ways {
		t.Run(name, func(t *testing.T) { test(t, ClientConfig{Transports: transports}) })
	}
}

func repeat(s string, n int) []byte { return []byte(strings.Repeat(s, n)) }
