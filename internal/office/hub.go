package office

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/access/callers"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/text/visible"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// A Hub is an A2C-SMCP hub without a gateway, on an address of its own.
type Hub struct {
	log      *slog.Logger
	config   atomic.Pointer[config.Config]
	hub      *hub.Hub
	trace    *trace.Tracer
	issued   *issuedPeers
	listener net.Listener
	server   *http.Server
	ended    chan struct{}
	failed   error // may be read after ended is closed
}

// OpenHub listens at hub.listen and serves until Shutdown. version is the version of the program.
func OpenHub(ctx context.Context, c *config.Config, version string, log *slog.Logger) (*Hub, error) {
	h := &Hub{log: log, issued: newIssuedPeers(log), ended: make(chan struct{})}
	h.config.Store(c)
	// A hub holds messages only while it forwards them, so none are written to files.
	pool := memory.NewPool(memory.Options{Limit: memory.PoolLimit(int64(c.Limits.Memory)), Logger: log})
	opts, err := hubOptions(c, h.auth, h.issued, pool, log)
	if err != nil {
		h.issued.close()
		return nil, err
	}
	if h.listener, err = hubListener(ctx, c.Hub.Listen, c.Hub.TLS); err != nil {
		h.issued.close()
		return nil, err
	}
	h.trace = trace.New(trace.Options{Version: version, Instance: h.listener.Addr().String(), Redact: visible.Text, Logger: log})
	h.sendSpans(c)
	opts.Trace = hubSpans(h.trace)
	h.hub = hub.New(opts)
	h.server = httpserver.New(hubMux(h.hub, h.hub, c, log), log)
	go func() {
		defer close(h.ended)
		h.failed = h.server.Serve(h.listener)
	}()
	return h, nil
}

// auth returns the gateway's current tokens.
func (h *Hub) auth() *config.Auth { return &h.config.Load().Auth }

// Addr returns the listener's address.
func (h *Hub) Addr() net.Addr { return h.listener.Addr() }

// Done returns a channel that is closed when the hub has stopped serving.
func (h *Hub) Done() <-chan struct{} { return h.ended }

// Apply applies changed hub tokens, keys and otlp, and logs that other hub settings need a restart. If
// Apply returns an error, nothing has changed.
func (h *Hub) Apply(next *config.Config) error {
	auth, err := hubAccess(next, h.auth, h.issued)
	if err != nil {
		return err
	}
	h.issued.apply(next)
	if _, waits := HubKey.Counts(h.config.Load(), next); waits {
		h.log.Warn("of hub, only tokens, issuers and computers are applied; the rest keeps its old values until weir is restarted")
	}
	h.config.Store(next)
	h.sendSpans(next)
	h.hub.SetAccess(auth, auth.Devices)
	h.log.Info("the configuration has changed and is applied", "tokens", len(auth.Tokens), "computers", len(auth.Devices))
	return nil
}

// sendSpans applies the key otlp.
func (h *Hub) sendSpans(c *config.Config) {
	if err := h.trace.Configure(c.OTLP.Settings()); err != nil {
		h.log.Error("spans cannot be sent", "err", err)
	}
}

// HubKey is the key of weir's own hub, of which some settings apply at once.
var HubKey = part.Key{Name: "hub", Late: "hub, except its tokens, issuers and computers", Split: func(c *config.Config) (live, late any) {
	rest := c.Hub
	rest.Tokens, rest.Issuers, rest.Computers = nil, nil, nil
	return []any{c.Hub.Tokens, c.Hub.Issuers, c.Hub.Computers}, rest
}}

// lastSpans bounds how long the last spans of a hub may take: a hub ends within a second even if
// the collector does not answer.
const lastSpans = 500 * time.Millisecond

// Shutdown tells all peers that the hub is ending and waits for them until ctx ends. It returns the
// error of the listener, if that failed earlier.
func (h *Hub) Shutdown(ctx context.Context) error {
	if err := h.hub.Shutdown(ctx); err != nil && !errors.Is(err, engineio.ErrServerClosed) {
		h.log.Warn("some peers did not end", "err", err)
	}
	_ = h.server.Close() // all peers were told
	h.issued.close()
	sending, cancel := context.WithTimeout(ctx, lastSpans)
	defer cancel()
	h.trace.Close(sending)
	<-h.ended
	if !errors.Is(h.failed, http.ErrServerClosed) {
		return fmt.Errorf("the hub's listener failed: %w", h.failed)
	}
	return nil
}

// hubMux routes the paths of a hub that has its own listener. peers serves Computers and agents.
func hubMux(h *hub.Hub, peers http.Handler, c *config.Config, log *slog.Logger) http.Handler {
	open := guard.New(callers.Guard(c, log))
	mux := http.NewServeMux()
	mux.Handle("/socket.io/", open.Wrap(peers))
	mux.Handle("/smcp/", open.Wrap(peers))
	mux.Handle("/healthz", open.Wrap(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		health := map[string]any{"status": "ok"}
		if h.Trusts(r) {
			health["connections"], health["members"] = h.Connections(), append([]hub.Member{}, h.Members()...)
		}
		httpserver.WriteJSON(w, http.StatusOK, health)
	})))
	return mux
}
