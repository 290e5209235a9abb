// Socketio-suite is a server for test suites of the Engine.IO and Socket.IO protocols. It has the configuration that the public
// suites expect, short heartbeats above all, and knows nothing of what weir does with Socket.IO.
//
//	go run ./examples/socketio-suite -addr 127.0.0.1:3000
//
//	/socket.io/   Socket.IO: "/" and "/custom" emit "auth" with what the client sent at CONNECT;
//	              "/" answers "message" with "message-back" and "message-with-ack" with an ack, each with the same arguments
//	/engine.io/   Engine.IO: every message comes back
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "socketio-suite:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("socketio-suite", flag.ContinueOnError)
	flags.SetOutput(stderr)
	addr := flags.String("addr", "127.0.0.1:3000", "`address` to listen on")
	verbose := flags.Bool("v", false, "log what is refused and closed")
	if err := flags.Parse(args); err != nil {
		return err
	}
	logger := slog.New(slog.DiscardHandler)
	if *verbose {
		logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelDebug}))
	}
	listener, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	sockets, echo := newSocketServer(logger), newEchoServer(logger)
	mux := http.NewServeMux()
	mux.Handle("/socket.io/", sockets)
	mux.Handle("/engine.io/", echo)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: time.Minute, IdleTimeout: time.Minute}
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
	return errors.Join(sockets.Shutdown(ending), echo.Shutdown(ending), server.Shutdown(ending))
}

// suite is what the suites expect of the layer below, on both paths.
func suite(logger *slog.Logger) engineio.Config {
	return engineio.Config{
		PingInterval: 300 * time.Millisecond,
		PingTimeout:  200 * time.Millisecond,
		MaxPayload:   1_000_000,
		CORS:         &engineio.CORS{Origins: []string{"*"}},
		Logger:       logger,
	}
}

func newSocketServer(logger *slog.Logger) *socketio.Server {
	server := socketio.NewServer(socketio.Config{Engine: suite(logger), ConnectTimeout: time.Second})
	root := server.Of("/")
	root.OnConnect(emitAuth)
	root.On("message", func(e *socketio.Event) {
		_ = e.Socket().EmitPayload("message-back", e.Payload) // Who has left needs no echo.
	})
	root.On("message-with-ack", func(e *socketio.Event) {
		_ = e.AckPayload(e.Payload)
	})
	server.Of("/custom").OnConnect(emitAuth)
	return server
}

// gap keeps the first event apart from the answer to CONNECT. The public suites listen for one message at a time, and where two
// arrive in one read, their WebSocket client delivers the second before they listen again.
const gap = 10 * time.Millisecond

func emitAuth(s *socketio.Socket) {
	select {
	case <-time.After(gap):
		_ = s.Emit("auth", s.Auth())
	case <-s.Context().Done():
	}
}

func newEchoServer(logger *slog.Logger) *engineio.Server {
	config := suite(logger)
	config.Accept = func(s *engineio.Session) engineio.Receiver { return echo{s} }
	return engineio.NewServer(config)
}

// echo sends every message back.
type echo struct{ session *engineio.Session }

func (e echo) Message(data []byte, binary bool) {
	frame := engineio.Text(data)
	if binary {
		frame = engineio.Binary(data)
	}
	_ = e.session.Send(frame)
}

func (e echo) Pause() {}

func (e echo) Closed(engineio.Reason, error) {}
