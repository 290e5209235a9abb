package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/weir-mcp/weir/internal/testkit/leak"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/socketio/engineio"
)

func TestMain(m *testing.M) { leak.Main(m) }

// A stand is a server and what is needed to reach it.
type stand struct {
	t        *testing.T
	server   *Server
	url      string
	listener *memnet.Listener
}

// setup starts a server on a real port, after prepare has set it up.
func setup(t *testing.T, config Config, prepare func(*Server)) *stand {
	s := &stand{t: t, server: NewServer(config)}
	prepare(s.server)
	hs := httptest.NewServer(s.server)
	s.url = hs.URL + "/socket.io/"
	t.Cleanup(func() {
		s.shutdown()
		hs.Close()
	})
	return s
}

// setupInMemory starts a server for a synctest bubble.
func setupInMemory(t *testing.T, config Config, prepare func(*Server)) *stand {
	s := &stand{t: t, server: NewServer(config), url: "http://memory/socket.io/", listener: memnet.New()}
	prepare(s.server)
	hs := &http.Server{Handler: s.server, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = hs.Serve(s.listener)
	}()
	t.Cleanup(func() {
		s.shutdown()
		_ = hs.Close()
		<-done
	})
	return s
}

func (s *stand) shutdown() {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := s.server.Shutdown(ctx); err != nil && !errors.Is(err, engineio.ErrServerClosed) {
		s.t.Errorf("shutdown: %v", err)
	}
}

// client makes a client that is closed at the end of the test.
func (s *stand) client(config ClientConfig) *Client {
	if s.listener != nil {
		config.Engine.DialContext = s.listener.DialContext
	}
	if slices.Contains(config.Engine.Transports, TransportLocal) {
		config.Local = s.server.Local(&engineio.Handshake{Value: "this process"})
	}
	c := NewClient(s.url, config)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// connect makes a client and connects it.
func (s *stand) connect(config ClientConfig) *Client {
	s.t.Helper()
	c := s.client(config)
	if err := c.Connect(context.Background()); err != nil {
		s.t.Fatal(err)
	}
	return c
}

var websocketOnly = engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}

var ways = map[string]engineio.ClientConfig{
	"polling":   {Transports: []engineio.Transport{engineio.Polling}},
	"websocket": websocketOnly,
	"upgrade":   {},
	"local":     {Transports: []engineio.Transport{TransportLocal}},
}

func raw(texts ...string) []json.RawMessage {
	list := make([]json.RawMessage, len(texts))
	for i, text := range texts {
		list[i] = json.RawMessage(text)
	}
	return list
}

func joined(p Payload) string {
	texts := make([]string, len(p.Args))
	for i, arg := range p.Args {
		texts[i] = string(arg)
	}
	return strings.Join(texts, ",")
}

// next waits for something.
func next[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case value := <-from:
		return value
	case <-time.After(2 * time.Minute):
		t.Fatal("nothing came")
		panic("unreachable")
	}
}

func waitFor(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to that")
		}
	}
}

// A wire speaks to the server frame by frame.
type wire struct {
	t *testing.T
	*websocket.Conn
}

func (s *stand) wire() wire {
	s.t.Helper()
	ws, response, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.url, "http")+"?EIO=4&transport=websocket", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	response.Body.Close()
	s.t.Cleanup(func() { ws.Close() })
	_ = ws.SetReadDeadline(time.Now().Add(30 * time.Second))
	w := wire{s.t, ws}
	if open := w.read(); open[0] != '0' {
		s.t.Fatalf("open packet %q", open)
	}
	return w
}

func (w wire) send(frames ...any) {
	w.t.Helper()
	for _, frame := range frames {
		var err error
		switch f := frame.(type) {
		case string:
			err = w.WriteMessage(websocket.TextMessage, []byte(f))
		case []byte:
			err = w.WriteMessage(websocket.BinaryMessage, f)
		}
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

func (w wire) read() string {
	w.t.Helper()
	_, data, err := w.ReadMessage()
	if err != nil {
		w.t.Fatal(err)
	}
	return string(data)
}

// isClosed reads until the server closes.
func (w wire) isClosed() {
	w.t.Helper()
	for {
		if _, _, err := w.ReadMessage(); err != nil {
			if strings.Contains(err.Error(), "timeout") {
				w.t.Errorf("it was not closed: %v", err)
			}
			return
		}
	}
}
