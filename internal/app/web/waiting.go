package web

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/app"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// waitingHeader bounds the time in which a client of a node without its store sends the header of a request, and
	// waitingWrite that in which it reads the answer.
	waitingHeader = 2 * time.Second
	waitingWrite  = 5 * time.Second
	// waitingEnd is how long the last answers may take when the store is there.
	waitingEnd = time.Second
)

// Waiting answers the requests at a Listener while the node starts and its store does not answer: without the
// store, a node does not know what it may serve. All of them get store_unavailable, and /readyz the reason.
// The Listener then serves a Server.
type Waiting struct {
	listener *Listener
	server   *http.Server
	serves   sync.WaitGroup
}

// waitingText is what clients are told. The operator has the cause in the log.
const waitingText = "this node has just started and the store of its cluster does not answer: try again, at another node if there is one; operators look at the NATS servers of the key store"

// Wait begins to answer. The caller calls End before the Listener is served by another one.
func Wait(l *Listener, log *slog.Logger) *Waiting {
	w := &Waiting{listener: l}
	w.server = &http.Server{
		Handler: http.HandlerFunc(serveWaiting), ReadHeaderTimeout: waitingHeader, WriteTimeout: waitingWrite, MaxHeaderBytes: 256 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	w.server.SetKeepAlivesEnabled(false) // the next request of a client may be for the Server
	at := net.Listener(lent{l.TCPListener})
	if l.secured != nil {
		at = tls.NewListener(at, l.secured.config())
	}
	w.serves.Go(func() { _ = w.server.Serve(at) })
	if l.door != nil {
		w.serves.Go(func() { _ = w.server.Serve(lent{l.door.TCPListener}) })
	}
	return w
}

// lent is a listener that an http.Server must not close. It ends with its deadline.
type lent struct{ *net.TCPListener }

// Accept implements net.Listener.
func (l lent) Accept() (net.Conn, error) {
	conn, err := l.TCPListener.Accept()
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = net.ErrClosed // the server would try again
	}
	return conn, err
}

// Close implements net.Listener.
func (lent) Close() error { return nil }

// End stops accepting connections, and waits a moment for the last answers.
func (w *Waiting) End() {
	now := time.Now()
	for _, l := range []*Listener{w.listener, w.listener.door} {
		if l != nil {
			_ = l.SetDeadline(now) // wakes Accept; fails only if closed already
		}
	}
	w.serves.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), waitingEnd)
	defer cancel()
	if w.server.Shutdown(ctx) != nil {
		_ = w.server.Close()
	}
	for _, l := range []*Listener{w.listener, w.listener.door} {
		if l != nil {
			_ = l.SetDeadline(time.Time{})
		}
	}
}

func serveWaiting(w http.ResponseWriter, r *http.Request) {
	err := mcp.Errorf(mcp.KindStoreUnavailable, waitingText)
	if r.URL.Path == "/readyz" {
		w.Header().Set("Retry-After", "2")
		app.WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"status": app.StatusStarting, "reason": waitingText})
		return
	}
	guard.Refuse(w, r, http.StatusServiceUnavailable, err)
}
