package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/attach"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// maxAttached bounds the clients of weir attach at one time.
const maxAttached = 256

// attached serves clients of weir attach: an HTTP upgrade turns a request to /mcp into a connection
// that carries one message a line, in both directions and eras, as standard input and output do.
type attached struct {
	handler mcp.Handler
	log     *slog.Logger
	max     int
	memory  *memory.Pool

	draining atomic.Bool

	mu    sync.Mutex // guards below
	conns map[*mcp.Conn]bool
}

// wrap serves upgrades and passes other requests on.
func (a *attached) wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.EqualFold(r.Header.Get("Upgrade"), attach.Protocol) {
			next.ServeHTTP(w, r)
			return
		}
		a.serve(w, r)
	})
}

// serve serves one client until it or the gateway ends.
func (a *attached) serve(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	full := len(a.conns) >= maxAttached
	a.mu.Unlock()
	if full || a.draining.Load() {
		guard.WriteError(w, http.StatusServiceUnavailable, "", mcp.Errorf(mcp.KindShuttingDown, "the gateway ends, or %d clients are attached", maxAttached))
		return
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		guard.WriteError(w, http.StatusInternalServerError, "", err)
		return
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return
	}
	if _, err := conn.Write([]byte("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + attach.Protocol + "\r\n\r\n")); err != nil {
		return
	}
	stream := stdio.NewStream(buffered.Reader, conn, a.max, conn.Close)
	principal := guard.Principal(r.Context())
	stream.Count(a.memory.Account(principal))
	client := text.Line(r.Header.Get(attach.ClientHeader), 64)
	c := mcp.NewConn(stream, mcp.ConnOptions{
		Name: "the client", Handler: a.with(r.Context()), Session: mcp.NewSession("", principal), Logger: a.log,
	})
	a.mu.Lock()
	a.conns[c] = true
	a.mu.Unlock()
	a.log.Debug("a client is attached", "client", client)
	<-c.Done()
	_ = c.Close()
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
	a.log.Debug("a client has left", "client", client)
}

// with returns the handler of one client. Its requests see the mode and the identity of the upgrade,
// until the credential of that identity expires.
func (a *attached) with(upgrade context.Context) mcp.Handler {
	values := context.WithoutCancel(upgrade)
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if ends := identity.From(values).Expires; !ends.IsZero() && time.Now().After(ends) && !r.IsNotification() {
			return nil, mcp.Errorf(mcp.KindUnauthorized, "the token of this connection has expired; connect again with a new one")
		}
		if a.draining.Load() && !r.IsNotification() {
			return nil, mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down; try again when it is back")
		}
		return a.handler.Serve(inherited{ctx, values}, r)
	})
}

// inherited is a context with the values of another one, too.
type inherited struct {
	context.Context
	values context.Context
}

// Value implements context.Context.
func (i inherited) Value(key any) any {
	if v := i.Context.Value(key); v != nil {
		return v
	}
	return i.values.Value(key)
}

// Shutdown refuses new requests, waits for those in flight until ctx ends, and closes all
// connections.
func (a *attached) Shutdown(ctx context.Context) error {
	a.draining.Store(true)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for a.busy() && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	for _, c := range a.all() {
		_ = c.Close()
	}
	return nil
}

// all returns the connections.
func (a *attached) all() (list []*mcp.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for c := range a.conns {
		list = append(list, c)
	}
	return list
}

// busy reports whether a request of a client is being served.
func (a *attached) busy() bool {
	for _, c := range a.all() {
		if _, serving := c.InFlight(); serving > 0 {
			return true
		}
	}
	return false
}
