package web

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/web/attach"
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
	// identify finds out again who made an upgrade, by the configuration of now.
	identify atomic.Pointer[func(upgrade *http.Request) (*identity.Identity, error)]

	mu    sync.Mutex // guards below
	conns map[*mcp.Conn]bool
}

// pass is the gate that serves upgrades itself.
func (a *attached) pass(w http.ResponseWriter, r *http.Request) (*http.Request, bool) {
	if strings.EqualFold(r.Header.Get("Upgrade"), attach.Protocol) {
		a.serve(w, r)
		return nil, false
	}
	return r, true
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
	m := &mutable{Stream: stream, heard: make(chan struct{}, 1)}
	c := mcp.NewConn(m, mcp.ConnOptions{
		Name: "the client", Handler: a.with(r, m), Session: mcp.NewSession("", principal), Logger: a.log,
	})
	a.mu.Lock()
	a.conns[c] = true
	a.mu.Unlock()
	a.log.Debug("a client is attached", "client", client)
	m.await(r.Context(), c)
	_ = c.Close()
	a.mu.Lock()
	delete(a.conns, c)
	a.mu.Unlock()
	a.log.Debug("a client has left", "client", client)
}

// mutable is the stream of one client. While it is mute, the client gets no notifications.
type mutable struct {
	*stdio.Stream
	mute  atomic.Bool
	heard chan struct{} // capacity 1: a request has passed the check
}

// Write implements mcp.Stream.
func (m *mutable) Write(msg []byte) error {
	if m.mute.Load() && rawjson.Get(msg, "id") == nil {
		return nil
	}
	return m.Stream.Write(msg)
}

// WriteAll is Write of several messages; see stdio.Stream.
func (m *mutable) WriteAll(msgs [][]byte, wait bool) (bool, error) {
	if m.mute.Load() {
		msgs = slices.DeleteFunc(slices.Clone(msgs), func(msg []byte) bool { return rawjson.Get(msg, "id") == nil })
	}
	return m.Stream.WriteAll(msgs, wait)
}

// await waits for the end of a connection. It mutes the stream while the credential of the upgrade
// does not admit the client. Requests are checked one by one, and the next one that passes, after a
// change of the configuration, makes the client hear again.
func (m *mutable) await(ctx context.Context, c *mcp.Conn) {
	for {
		lasting, end := guard.Lasting(ctx)
		select {
		case <-c.Done():
			end()
			return
		case <-lasting.Done():
			end()
		}
		select {
		case <-m.heard: // before the end
		default:
		}
		m.mute.Store(true)
		select {
		case <-c.Done():
			return
		case <-m.heard:
			m.mute.Store(false)
		}
	}
}

// passed says that a request has passed the check.
func (m *mutable) passed() {
	if m.mute.Load() {
		select {
		case m.heard <- struct{}{}:
		default:
		}
	}
}

// with returns the handler of one client. Its requests see the values of the upgrade. Each is
// checked like a request over HTTP: the token may have expired, and the configuration may have
// changed.
func (a *attached) with(upgrade *http.Request, m *mutable) mcp.Handler {
	values := context.WithoutCancel(upgrade.Context())
	principal := guard.Principal(values)
	return mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		id, err := (*a.identify.Load())(upgrade.WithContext(ctx))
		switch {
		case err == nil && id.Principal != principal:
			err = mcp.Errorf(mcp.KindUnauthorized, "the credential of this connection names another principal now; connect again")
		case err == nil && a.draining.Load() && !r.IsNotification():
			err = mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down; try again when it is back")
		case err == nil:
			m.passed()
			return a.handler.Serve(identity.With(inherited{ctx, values}, id), r)
		}
		if r.IsNotification() {
			a.log.Debug("a notification of an attached client was left out", "method", text.Line(r.Method, 80), "err", err)
			return nil, nil
		}
		return nil, err
	})
}

// follow makes later requests of all clients pass the checks of a guard and a configuration.
func (a *attached) follow(g *guard.Guard, auth config.Auth) {
	identify := func(upgrade *http.Request) (*identity.Identity, error) {
		id, err := g.Identify(upgrade)
		if err == nil && auth.Scoped(id.Principal) {
			return nil, errScoped(id.Principal, upgrade.URL.Path)
		}
		return id, err
	}
	a.identify.Store(&identify)
}

// inherited is a context that also has the values of another one.
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
