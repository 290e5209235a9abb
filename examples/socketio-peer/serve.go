package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/socketio"
)

func serve(ctx context.Context, addr string, stdout io.Writer) error {
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	sockets := newServer()
	server := &http.Server{Handler: sockets, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	fmt.Fprintf(stdout, "listening on http://%s\n", listener.Addr())
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return errors.Join(sockets.Shutdown(ending), server.Shutdown(ending))
}

func newServer() *socketio.Server {
	server := socketio.NewServer(socketio.Config{})
	root := server.Of("/")
	root.Use(func(_ context.Context, s *socketio.Socket) error {
		var auth struct {
			Token string `json:"token"`
		}
		if err := json.Unmarshal(s.Auth(), &auth); err != nil || auth.Token != "secret" {
			return &socketio.ConnectError{Message: "bad token", Data: json.RawMessage(`{"code":401}`)}
		}
		return nil
	})
	root.OnConnect(func(s *socketio.Socket) {
		_ = s.Emit("hello", json.RawMessage(`{"sid":`+strconv.Quote(s.ID())+`}`)) // Who has left needs no greeting.
	})
	root.On("echo", func(e *socketio.Event) { answer(e, e.Payload) })
	root.OnConcurrent("ask-me", askMe)
	root.On("join", func(e *socketio.Event) {
		if room, ok := text(e, 0); ok {
			e.Socket().Join(room)
			answer(e, yes)
		}
	})
	root.On("say", func(e *socketio.Event) {
		if room, ok := text(e, 0); ok {
			_ = e.Socket().To(room).Emit("said", e.Arg(1))
			answer(e, yes)
		}
	})
	root.On("shout", func(e *socketio.Event) {
		if room, ok := text(e, 0); ok {
			_ = root.To(room).Emit("said", e.Arg(1))
			answer(e, yes)
		}
	})
	root.On("burst", func(e *socketio.Event) {
		var n int
		if e.Decode(0, &n) != nil {
			return
		}
		for i := range min(n, 1000) {
			_ = e.Socket().Emit("tick", json.RawMessage(strconv.Itoa(i)))
		}
	})
	root.On("kick", func(e *socketio.Event) { e.Socket().Disconnect() })
	root.On("cut", func(e *socketio.Event) { e.Socket().Close() })
	return server
}

// askMe asks the client back during its own event.
func askMe(e *socketio.Event) {
	ctx, cancel := context.WithTimeout(e.Socket().Context(), 5*time.Second)
	defer cancel()
	if reply, err := e.Socket().EmitWithAck(ctx, "question", e.Args...); err == nil {
		answer(e, reply)
	}
}

var yes = socketio.Payload{Args: []json.RawMessage{json.RawMessage("true")}}

func answer(e *socketio.Event, p socketio.Payload) {
	if e.WantsAck() {
		_ = e.AckPayload(p) // Who has left waits for nothing.
	}
}

func text(e *socketio.Event, n int) (string, bool) {
	var s string
	err := e.Decode(n, &s)
	return s, err == nil
}
