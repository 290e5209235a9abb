package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	maxLine         = 256 << 20        // bytes of one message on stdin, which may hold a table
	maxBody         = 1 << 20          // bytes of one request; these tools take small arguments
	readTimeout     = 30 * time.Second // of a request, whole
	idleTimeout     = 2 * time.Minute  // of a kept connection without a request
	shutdownTimeout = 2 * time.Second  // for requests that run when the server has to end
)

// serveStdio speaks newline-delimited JSON-RPC until stdin or ctx ends.
func serveStdio(ctx context.Context, handler mcp.Handler, stdin io.Reader, stdout io.Writer, logger *slog.Logger) error {
	in := &input{Reader: stdin}
	closeInput := func() error { return nil }
	if c, ok := stdin.(io.Closer); ok {
		closeInput = c.Close
	}
	conn := mcp.NewConn(stdio.NewStream(in, stdout, maxLine, closeInput), mcp.ConnOptions{Name: "the client", Handler: handler, Logger: logger})
	select {
	case <-ctx.Done():
		_ = conn.Close() // the stream ends with the process, so its error is of no use
		return nil
	case <-conn.Done():
	}
	err := conn.Err()
	_ = conn.Close() // the stream has ended already
	if in.ended {
		return nil
	}
	return fmt.Errorf("session on stdin and stdout: %w", err)
}

// input is a reader that notes its end. ended may be read once the reading goroutine has ended.
type input struct {
	io.Reader
	ended bool
}

// Read implements io.Reader.
func (in *input) Read(p []byte) (int, error) {
	n, err := in.Reader.Read(p)
	in.ended = in.ended || errors.Is(err, io.EOF)
	return n, err
}

// serveHTTP speaks streamable HTTP at /mcp until ctx ends.
func serveHTTP(ctx context.Context, handler mcp.Handler, opts Options, logger *slog.Logger) error {
	address := opts.Listen
	if address == "" {
		address = DefaultListen
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the demo server: %w", err)
	}
	face := streamable.NewServer(streamable.ServerOptions{Handler: handler, Name: "the demo server", MaxBody: maxBody, Logger: logger})
	mux := http.NewServeMux()
	mux.Handle("/mcp", guard.New(guard.Options{Logger: logger}).Wrap(face))
	httpServer := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readTimeout,
		ReadTimeout:       readTimeout, // face lifts it while a call or a stream lasts
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelWarn),
	}
	if opts.Ready != nil {
		opts.Ready(listener.Addr())
	}
	logger.Info("listening", "url", "http://"+listener.Addr().String()+"/mcp")

	ended := make(chan error, 1)
	go func() { ended <- httpServer.Serve(listener) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving on %s: %w", listener.Addr(), err)
	case <-ctx.Done():
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	// Event streams stay open for as long as their session does, so sessions go first.
	if err := face.Shutdown(limited); err != nil {
		logger.Debug("closing the sessions", "error", err)
	}
	if err := httpServer.Shutdown(limited); err != nil {
		logger.Warn("requests were still running and are cut off", "after", shutdownTimeout)
		_ = httpServer.Close()
	}
	<-ended
	return nil
}
