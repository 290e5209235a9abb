package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	maxBody         = 1 << 20          // bytes of one request; these tools take small arguments
	readTimeout     = 30 * time.Second // for the headers, and again for the body
	idleTimeout     = 2 * time.Minute  // of a kept connection without a request
	sessionTimeout  = 30 * time.Minute // of a session without a request
	shutdownTimeout = 2 * time.Second  // for requests that run when the server is told to end
)

// serveStdio speaks newline-delimited JSON-RPC until stdin or ctx ends.
func serveStdio(ctx context.Context, server *mcp.Server, stdin io.Reader, stdout io.Writer) error {
	in, ok := stdin.(io.ReadCloser)
	if !ok {
		in = io.NopCloser(stdin)
	}
	session, err := server.Connect(ctx, &mcp.IOTransport{Reader: in, Writer: keepOpen{stdout}}, nil)
	if err != nil {
		return fmt.Errorf("starting the session on stdin and stdout: %w", err)
	}
	ended := make(chan error, 1)
	go func() { ended <- session.Wait() }()
	select {
	case <-ctx.Done():
		// The stream is going away with the process: an error of Close is of no use.
		_ = session.Close()
		<-ended
		return nil
	case err := <-ended:
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("session on stdin and stdout: %w", err)
		}
		return nil
	}
}

// keepOpen makes a writer that survives the session it was lent to.
type keepOpen struct{ io.Writer }

func (keepOpen) Close() error { return nil }

// serveHTTP speaks streamable HTTP at /mcp until ctx ends.
func serveHTTP(ctx context.Context, server *mcp.Server, opts Options, logger *slog.Logger) error {
	address := opts.Listen
	if address == "" {
		address = DefaultListen
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the demo server: %w", err)
	}
	streamable := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return server }, &mcp.StreamableHTTPOptions{
		Logger:                       logger,
		SessionTimeout:               sessionTimeout,
		MaxRequestBodyBytes:          maxBody,
		PropagateRequestCancellation: true,
	})
	mux := http.NewServeMux()
	mux.Handle("/mcp", http.NewCrossOriginProtection().Handler(readBody(streamable)))
	httpServer := &http.Server{
		Handler:           mux,
		ReadHeaderTimeout: readTimeout,
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
	// Event streams stay open for as long as their session does, so sessions go first.
	for session := range server.Sessions() {
		if err := session.Close(); err != nil {
			logger.Debug("closing a session", "error", err)
		}
	}
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := httpServer.Shutdown(limited); err != nil {
		logger.Warn("requests were still running and are cut off", "after", shutdownTimeout)
		_ = httpServer.Close()
	}
	<-ended
	return nil
}

// readBody takes a request's body in, within a deadline of its own, before next sees it.
// http.Server.ReadTimeout cannot do this: it would end long event streams as well.
func readBody(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			next.ServeHTTP(w, r)
			return
		}
		control := http.NewResponseController(w)
		if err := control.SetReadDeadline(time.Now().Add(readTimeout)); err != nil {
			http.Error(w, "no read deadline on this connection", http.StatusInternalServerError)
			return
		}
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
		if err != nil {
			status := http.StatusBadRequest
			if tooLarge := (*http.MaxBytesError)(nil); errors.As(err, &tooLarge) {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "reading the request: "+err.Error(), status)
			return
		}
		if err := control.SetReadDeadline(time.Time{}); err != nil {
			http.Error(w, "no read deadline on this connection", http.StatusInternalServerError)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}
