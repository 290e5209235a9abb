//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/weir-mcp/weir/socketio"
)

// serve is the server under test, with the defaults of the package. On SIGUSR2 it collects its garbage. reference.mjs is the same for the reference.
func serve(ctx context.Context, stdout io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	sockets := socketio.NewServer(socketio.Config{})
	root := sockets.Of("/")
	root.On("echo", func(e *socketio.Event) { _ = e.AckPayload(e.Payload) })
	root.On("join", func(e *socketio.Event) {
		e.Socket().Join("room")
		_ = e.Ack(json.RawMessage("true"))
	})
	root.On("broadcast", func(e *socketio.Event) { _ = root.To("room").EmitPayload("news", e.Payload) })
	fmt.Fprintf(stdout, "http://%s\n", listener.Addr())
	return serveOn(ctx, listener, sockets, sockets.Shutdown)
}

// serveOn serves until ctx ends, and collects garbage on SIGUSR2.
func serveOn(ctx context.Context, listener net.Listener, h http.Handler, shutdown func(context.Context) error) error {
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: time.Minute}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	collect := make(chan os.Signal, 1)
	signal.Notify(collect, syscall.SIGUSR2)
	defer signal.Stop(collect)
	for {
		select {
		case <-collect:
			debug.FreeOSMemory()
		case err := <-failed:
			return err
		case <-ctx.Done():
			return errors.Join(server.Close(), ignoreDeadline(shutdown))
		}
	}
}

// ignoreDeadline shuts down without patience: the client is about to go anyway.
func ignoreDeadline(shutdown func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if err := shutdown(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return nil
}
