package socketio

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/socketio/engineio"
)

// localTo connects a client to a server of this process.
func localTo(t *testing.T, server *Server, config ClientConfig) *Client {
	t.Helper()
	config.Local = server.Local(&engineio.Handshake{Value: "this process"})
	c := NewClient("", config)
	t.Cleanup(func() { _ = c.Close() })
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	return c
}

// A local connection has the handshake that its owner gives it, hands on bytes unchanged, and does
// not share them: the sender may use its buffer again.
func TestLocalPayload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(Config{})
		got := make(chan *Event, 10)
		server.Of("/").On("event", func(e *Event) { got <- e })
		c := localTo(t, server, ClientConfig{})
		arg, attachment := []byte(`{"n":1.0,"placeholder":0}`), []byte("bytes")
		if err := c.EmitPayload("event", Payload{Args: []json.RawMessage{arg, nil}, Attachments: [][]byte{attachment}}); err != nil {
			t.Fatal(err)
		}
		clear(arg)
		clear(attachment)
		e := <-got
		if joined(e.Payload) != `{"n":1.0,"placeholder":0},null` || string(e.Attachments[0]) != "bytes" || e.WantsAck() {
			t.Errorf("it is %s, %q", joined(e.Payload), e.Attachments)
		}
		if s := e.Socket(); s.Handshake().Value != "this process" || s.Transport() != TransportLocal || s.Probe(t.Context()) != nil || server.Connections() != 1 {
			t.Errorf("%v over %s, %d connections", s.Handshake().Value, s.Transport(), server.Connections())
		}
		if err := c.Emit("event"); err != nil {
			t.Fatal(err)
		}
		if e := <-got; joined(e.Payload) != "null" {
			t.Errorf("an event without arguments has %s", joined(e.Payload))
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A handler that blocks slows no caller of Emit; its queue is bounded and ordered, and one event
// more ends the connection as on a network.
func TestLocalQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(Config{MaxPending: 4})
		gone := make(chan Reason, 1)
		release := make(chan struct{})
		var got []string
		server.Of("/").On("event", func(e *Event) {
			<-release
			got = append(got, string(e.Arg(0)))
		})
		server.Of("/").OnDisconnect(func(_ *Socket, reason Reason) { gone <- reason })
		ended := make(chan Reason, 1)
		c := localTo(t, server, ClientConfig{
			Engine: engineio.ClientConfig{MaxQueueFrames: 10}, OnDisconnect: func(r Reason, _ error) { ended <- r },
			Retry: func(int, error) (time.Duration, bool) { return 0, false },
		})
		sent := 0
		var err error
		for ; err == nil && sent < 1000; sent++ {
			err = c.Emit("event", json.RawMessage{'0' + byte(sent%10)})
			synctest.Wait()
		}
		if !errors.Is(err, engineio.ErrSlowConsumer) || sent > 30 || sent < 10 {
			t.Errorf("%d events, then %v", sent, err)
		}
		if reason := <-ended; reason != engineio.ReasonSlowConsumer {
			t.Errorf("the client was told %q", reason)
		}
		close(release)
		if reason := <-gone; reason != engineio.ReasonTransportClose {
			t.Errorf("the server was told %q", reason)
		}
		synctest.Wait() // the handlers have ended
		for i, text := range got {
			if text != string('0'+rune(i%10)) {
				t.Fatalf("out of order: %q", got)
			}
		}
		if len(got) == 0 || server.Connections() != 0 {
			t.Errorf("%d events were handled, %d connections are left", len(got), server.Connections())
		}
		if err := server.Shutdown(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A message larger than the server takes is refused where it is sent.
func TestLocalMessageIsBounded(t *testing.T) {
	server := NewServer(Config{Engine: engineio.Config{MaxPayload: 1000}})
	c := localTo(t, server, ClientConfig{})
	big := json.RawMessage(`"` + string(slices.Repeat([]byte{'x'}, 1000)) + `"`)
	if err := c.Emit("event", big); !errors.Is(err, engineio.ErrTooLarge) {
		t.Errorf("got %v", err)
	}
	if err := c.Emit("event", big[:900]); err != nil {
		t.Errorf("the connection is of no use after that: %v", err)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
}

// What is emitted before a Close still arrives; an emit that waits for its ack is told.
func TestLocalClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := NewServer(Config{})
		got := make(chan string, 10)
		server.Of("/").On("event", func(e *Event) { got <- string(e.Arg(0)) })
		server.Of("/").On("hang up", func(e *Event) {
			_ = e.Socket().Emit("last", json.RawMessage("1"))
			e.Socket().Close()
		})
		last := make(chan struct{})
		c := NewClient("", ClientConfig{Local: server.Local(nil), Backoff: Backoff{Min: time.Second, Jitter: -1}})
		c.On("last", func(*Event) { close(last) })
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := c.EmitWithAck(t.Context(), "hang up"); !errors.Is(err, ErrDisconnected) {
			t.Errorf("the ack: %v", err)
		}
		<-last
		time.Sleep(2 * time.Second) // it connects again
		if err := c.Emit("event", json.RawMessage("2")); err != nil {
			t.Error(err)
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		if text := <-got; text != "2" {
			t.Errorf("got %s", text)
		}
		if err := server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		if err := NewClient("", ClientConfig{Local: server.Local(nil)}).Connect(t.Context()); !errors.Is(err, engineio.ErrServerClosed) {
			t.Errorf("after Shutdown: %v", err)
		}
	})
}
