package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/socketio/engineio"
)

func TestBackoff(t *testing.T) {
	half := func() float64 { return 0.5 }
	tests := []struct {
		name    string
		backoff Backoff
		want    []time.Duration
	}{
		{"defaults", Backoff{Random: half}, []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 5 * time.Second, 5 * time.Second}},
		{"most jitter up", Backoff{Random: func() float64 { return 1 }}, []time.Duration{1500 * time.Millisecond, 3 * time.Second}},
		{"most jitter down", Backoff{Random: func() float64 { return 0 }}, []time.Duration{500 * time.Millisecond, time.Second}},
		{"no jitter", Backoff{Min: 10, Max: 30, Jitter: -1}, []time.Duration{10, 20, 30, 30}},
		{"after very long", Backoff{Min: time.Second, Max: time.Minute, Random: half}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			for i, want := range test.want {
				if got := test.backoff.Wait(i); got != want {
					t.Errorf("wait %d: %v, want %v", i, got, want)
				}
			}
			if got := test.backoff.Wait(10_000); got > time.Minute*3/2 || got <= 0 {
				t.Errorf("wait 10000: %v", got)
			}
		})
	}
}

// TestReconnect cuts the network, restarts the server, and expects the client back each time, with its auth asked anew.
func TestReconnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := memnet.New()
		var tokens []string
		start := func() (stop func()) {
			server := NewServer(Config{})
			server.Of("/").Use(func(_ context.Context, s *Socket) error {
				tokens = append(tokens, string(s.Auth()))
				return nil
			})
			hs := &http.Server{Handler: server, ReadHeaderTimeout: time.Minute}
			ended := make(chan struct{})
			go func() { defer close(ended); _ = hs.Serve(listener.Door()) }()
			return func() {
				if err := server.Shutdown(context.Background()); err != nil {
					t.Error(err)
				}
				_ = hs.Close()
				<-ended
			}
		}
		stop := start()
		var attempts, connects atomic.Int32
		left := make(chan Reason, 10)
		c := NewClient("http://memory/socket.io/", ClientConfig{
			Auth: func(context.Context) (json.RawMessage, error) {
				return json.RawMessage(fmt.Sprintf(`{"n":%d}`, attempts.Add(1))), nil
			},
			Engine:         engineio.ClientConfig{Transports: websocketOnly.Transports, DialContext: listener.DialContext, HandshakeTimeout: time.Second},
			Backoff:        Backoff{Jitter: -1},
			OnConnect:      func(*Socket) { connects.Add(1) },
			OnDisconnect:   func(reason Reason, _ error) { left <- reason },
			OnConnectError: func(error) {},
		})
		defer c.Close()
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		listener.Cut()
		if reason := <-left; reason != engineio.ReasonPingTimeout {
			t.Errorf("cut: %q", reason)
		}
		if err := c.Emit("x"); !errors.Is(err, ErrDisconnected) {
			t.Errorf("Emit without a connection: %v", err)
		}
		time.Sleep(10 * time.Second)
		if connects.Load() != 2 || c.Socket() == nil {
			t.Fatalf("%d connects", connects.Load())
		}
		stop()
		<-left
		before := attempts.Load()
		time.Sleep(time.Minute)
		// 1, 2, 4 and then 5 seconds apart, each with a handshake that takes up to a second.
		if tried := attempts.Load() - before; tried < 8 || tried > 14 {
			t.Errorf("%d attempts in a minute", tried)
		}
		stop = start()
		time.Sleep(10 * time.Second)
		if connects.Load() != 3 {
			t.Fatalf("%d connects", connects.Load())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if reason := <-left; reason != ReasonByClient {
			t.Errorf("closed: %q", reason)
		}
		if c.Err() == nil || c.Connect(t.Context()) == nil {
			t.Error("a closed client may be used")
		}
		stop()
		if tokens[0] != `{"n":1}` || tokens[1] != `{"n":2}` {
			t.Errorf("auth %v", tokens)
		}
	})
}

func TestRefusals(t *testing.T) {
	s := setup(t, Config{Engine: engineio.Config{Authenticate: func(r *http.Request) (any, *engineio.Refusal) {
		if r.URL.Query().Get("v") == "old" {
			return nil, &engineio.Refusal{Status: 400, Body: []byte(`{"code":4008}`)}
		}
		return nil, nil
	}}}, func(server *Server) {
		server.Of("/closed").Use(func(context.Context, *Socket) error {
			return &ConnectError{Message: "no", Data: json.RawMessage(`{"code":1}`)}
		})
	})
	for name, engine := range ways {
		t.Run(name, func(t *testing.T) {
			c := s.client(ClientConfig{Engine: engine, Namespace: "/closed"})
			err := c.Connect(t.Context())
			refusal, ok := errors.AsType[*ConnectError](err)
			if !ok || refusal.Message != "no" || string(refusal.Data) != `{"code":1}` {
				t.Errorf("by the namespace: %v", err)
			}
			<-c.Done()
			c = s.client(ClientConfig{Engine: engine, Namespace: "/nowhere"})
			if err := c.Connect(t.Context()); err == nil || err.Error() != "socketio: connection refused: Invalid namespace" {
				t.Errorf("by the server: %v", err)
			}
			if name == "local" {
				return // Authenticate judges HTTP requests.
			}
			c = NewClient(s.url+"?v=old", ClientConfig{Engine: engine})
			if handshake, ok := errors.AsType[*engineio.HandshakeError](c.Connect(t.Context())); !ok || string(handshake.Body) != `{"code":4008}` {
				t.Errorf("by HTTP: %v", handshake)
			}
		})
	}
}

// TestForeignServer takes what other servers send: a string for CONNECT_ERROR, a payload with DISCONNECT, acks without one.
func TestForeignServer(t *testing.T) {
	next := make(chan func(*engineio.Session, string), 1)
	server := engineio.NewServer(engineio.Config{Accept: func(s *engineio.Session) engineio.Receiver {
		return &script{session: s, answer: <-next}
	}})
	hs := httptest.NewServer(server)
	defer hs.Close()
	s := &stand{t: t, url: hs.URL}
	refuse := func(reply string) func(*engineio.Session, string) {
		return func(s *engineio.Session, _ string) { _ = s.Send(engineio.Text([]byte(reply))) }
	}
	for reply, want := range map[string]string{
		`4"Unauthorized"`: "Unauthorized", `4{"message":"no","data":1}`: "no", `4`: "", `4[1]`: "[1]",
	} {
		next <- refuse(reply)
		c := s.client(ClientConfig{Engine: websocketOnly})
		refusal, ok := errors.AsType[*ConnectError](c.Connect(t.Context()))
		if !ok || refusal.Message != want {
			t.Errorf("%s: %v", reply, refusal)
		}
	}
	next <- func(s *engineio.Session, text string) {
		switch text {
		case "0":
			_ = s.Send(engineio.Text([]byte(`0{"sid":"abc","pid":"recovery"}`)))
		case `20["ask",null]`:
			_ = s.Send(engineio.Text([]byte("30")))
		case `2["leave",null]`:
			_ = s.Send(engineio.Text([]byte(`1{"reason":"because"}`)))
		}
	}
	left := make(chan Reason, 1)
	c := s.client(ClientConfig{
		Engine: websocketOnly, Retry: func(int, error) (time.Duration, bool) { return 0, false },
		OnDisconnect: func(reason Reason, _ error) { left <- reason },
	})
	if err := c.Connect(t.Context()); err != nil || c.Socket().ID() != "abc" {
		t.Fatalf("CONNECT with more than a sid: %v", err)
	}
	if reply, err := c.EmitWithAck(t.Context(), "ask"); err != nil || len(reply.Args) != 0 {
		t.Errorf("ack without a payload: %v, %v", reply, err)
	}
	if err := c.Emit("leave"); err != nil {
		t.Fatal(err)
	}
	if reason := <-left; reason != ReasonByServer {
		t.Errorf("reason %q", reason)
	}
	<-c.Done()
}

// A script is a server that answers each packet.
type script struct {
	session *engineio.Session
	answer  func(*engineio.Session, string)
}

func (s *script) Message(data []byte, _ bool) { s.answer(s.session, string(data)) }
func (*script) Pause()                        {}
func (*script) Closed(engineio.Reason, error) {}

func TestStartTriesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var refused atomic.Int32
		s := setupInMemory(t, Config{}, func(server *Server) {
			server.Of("/").Use(func(context.Context, *Socket) error {
				if refused.Add(1) <= 3 {
					return errors.New("not yet")
				}
				return nil
			})
		})
		connected := make(chan struct{})
		var failures atomic.Int32
		c := s.client(ClientConfig{
			Engine: websocketOnly, OnConnect: func(*Socket) { close(connected) },
			OnConnectError: func(error) { failures.Add(1) },
		})
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		<-connected
		if failures.Load() != 3 {
			t.Errorf("%d failures", failures.Load())
		}
	})
}

func TestCloseBeforeConnect(t *testing.T) {
	c := NewClient("http://127.0.0.1:1/", ClientConfig{})
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	<-c.Done()
	if err := c.Connect(t.Context()); err == nil {
		t.Error("a closed client connects")
	}
}

func TestCloseDuringConnect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := setupInMemory(t, Config{}, func(server *Server) {
			server.Of("/").Use(func(ctx context.Context, _ *Socket) error {
				<-ctx.Done()
				return ctx.Err()
			})
		})
		c := s.client(ClientConfig{Engine: websocketOnly})
		failed := make(chan error, 1)
		go func() { failed <- c.Connect(t.Context()) }()
		synctest.Wait()
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if err := <-failed; err == nil {
			t.Error("Connect succeeded")
		}
	})
}
