package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/address"
	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/guard"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// A dataPlane is where tables go from server to server (docs/s2sp.md): part of
// the HTTP listener where there is one, and else, for a gateway on standard input
// and output, a listener of its own on loopback that is opened for the first
// table.
//
//	POST /s2sp/data/{token}     rows; the token is all it takes, and it is spent
//	GET  /s2sp/health
//	POST /s2sp/offer/{handle}   a resource_url for a handle of the caller's; behind the bearer token
type dataPlane struct {
	store   *artifact.Local
	ttl     func() time.Duration // how long a resource_url works
	handler http.Handler         // of /s2sp/data and /s2sp/health
	log     *slog.Logger

	mu    sync.Mutex // guards below
	url   string     // under which it is reached; "" is not yet, or nowhere
	alone bool       // nobody else listens: open a listener when it is needed
	http  *http.Server
	ended chan struct{}
}

// newDataPlane is reached by nobody yet.
func newDataPlane(h *holdings, ttl func() time.Duration, log *slog.Logger) *dataPlane {
	return &dataPlane{store: h.store, ttl: ttl, log: log, handler: plane.Handler(h.store, plane.HandlerOptions{Memory: h.pool.Account("s2sp"), Logger: log})}
}

// at says under which URL the plane is reached.
func (p *dataPlane) at(base string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url = base
}

// standAlone has the plane listen itself.
func (p *dataPlane) standAlone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone = true
}

var errNoPlane = errors.New("no other server can fetch from a command that ends; use mode sync, or call a running weir serve with --url")

// base is the URL of the plane, and opens it if need be.
func (p *dataPlane) base() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.url != "" {
		return p.url, nil
	}
	if !p.alone {
		return "", errNoPlane
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("opening the data plane: %w", err)
	}
	open := guard.New(guard.Options{Logger: p.log})
	p.http = &http.Server{
		Handler:           open.Wrap(p.handler),
		ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
		ErrorLog: slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
	}
	p.ended = make(chan struct{})
	go func() {
		defer close(p.ended)
		if err := p.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("the data plane failed", "err", err)
		}
	}()
	p.url = "http://" + l.Addr().String()
	p.log.Info("data plane", "url", p.url)
	return p.url, nil
}

// close ends a listener of its own.
func (p *dataPlane) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.alone, p.url = false, ""
	if p.http != nil {
		_ = p.http.Close() // nobody is told more by an error
		<-p.ended
		p.http = nil
	}
}

// serveOffer makes a resource_url for an artifact of the caller's.
func (p *dataPlane) serveOffer(w http.ResponseWriter, r *http.Request) {
	refuse := func(code int, message string) { writeJSON(w, code, map[string]string{"error": message}) }
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		refuse(http.StatusMethodNotAllowed, "method not allowed")
		return
	}
	base, err := p.base()
	if err != nil {
		refuse(http.StatusServiceUnavailable, err.Error())
		return
	}
	handle := strings.TrimPrefix(r.URL.Path, offerPath)
	principal := guard.Principal(r.Context())
	lease, err := p.store.Open(r.Context(), principal, handle)
	if err == nil {
		_, err = lease.Table(table.DetectOptions{})
		lease.Close()
	}
	var token artifact.Token
	if err == nil {
		token, err = p.store.Offer(r.Context(), principal, handle, p.ttl())
	}
	var unknown *artifact.Error
	switch {
	case errors.Is(err, table.ErrNotTable):
		refuse(http.StatusUnprocessableEntity, handle+" is no table")
	case errors.As(err, &unknown):
		refuse(http.StatusNotFound, unknown.Error())
	case err != nil:
		p.log.Warn("a table cannot be offered", "err", err)
		refuse(http.StatusServiceUnavailable, "the table cannot be read now")
	default:
		writeJSON(w, http.StatusOK, map[string]any{"resource_url": plane.URL(base, token.Value), "expires": token.Expires})
	}
}

const offerPath = "/s2sp/offer/"

// tableOptions are S2SP under a configuration.
func (e *engine) tableOptions(c *config.Config) gateway.TableOptions {
	o := gateway.TableOptions{
		BaseURL: e.plane.base, TTL: c.Artifacts.TokenTTL, Reach: e.reach, Fetches: e.fetches,
		Detect: func(upstream string) table.DetectOptions {
			s, ok := c.Server(upstream)
			if !ok {
				return table.DetectOptions{}
			}
			return table.DetectOptions{Paths: s.Tables.Paths, CSV: s.Tables.CSV}
		},
	}
	fetch := plane.FetchOptions{Allow: slices.Clone(c.S2SP.Allow), Timeout: time.Minute}
	fetch.Private = privateNetworks(c)
	for _, s := range c.Enabled() {
		if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
			fetch.Allow = append(fetch.Allow, address.Server(u))
		}
	}
	fetch.Peers = e.agents.servers
	fetcher, err := plane.NewFetcher(fetch)
	if err != nil {
		e.log.Error("tables of other servers are not fetched", "err", err)
		return o
	}
	o.Fetch = fetcher
	return o
}

// privateNetworks are those into which names of servers may lead.
func privateNetworks(c *config.Config) []netip.Prefix {
	var list []netip.Prefix
	for _, network := range c.S2SP.Private {
		if p, err := netip.ParsePrefix(network); err == nil { // the configuration was checked
			list = append(list, p)
		}
	}
	return list
}

// reach is how other servers reach the data plane of an upstream: a program of
// this machine listens on loopback, and a Computer's server on a loopback that
// is not even this machine's.
func (e *engine) reach(name string) gateway.Reach {
	at := ""
	if s, ok := e.config.Load().Server(name); ok {
		if s.Type == config.TransportStdio {
			return gateway.ReachRelay
		}
		at = s.URL
	} else {
		for _, a := range e.agents.registry.Agents() {
			if a.Name == name {
				at = a.URL
			}
		}
		if at == "" {
			return gateway.ReachNever
		}
	}
	u, err := url.Parse(at)
	if err != nil {
		return gateway.ReachDirect
	}
	if address.Loopback(u.Hostname()) {
		return gateway.ReachRelay
	}
	return gateway.ReachDirect
}

// fetches reports whether an upstream reaches the data plane of this gateway: from
// this machine, or at an address that others reach.
func (e *engine) fetches(name string) bool {
	if e.reach(name) == gateway.ReachRelay {
		return true
	}
	base, err := e.plane.base()
	if err != nil {
		return false
	}
	u, err := url.Parse(base)
	return err == nil && !address.Loopback(u.Hostname())
}

// mountPlane routes the data plane. A token is a capability: whoever has one is
// let in without another. Offers are for those whose handle it is.
func (f *httpFace) mountPlane(mux *http.ServeMux, open, closed *guard.Guard) {
	mux.Handle("/s2sp/", open.Wrap(f.engine.plane.handler))
	mux.Handle(offerPath, closed.Wrap(f.engine.agents.unscoped(http.HandlerFunc(f.engine.plane.serveOffer))))
}

// planeURL is under which other servers reach the gateway.
func planeURL(c *config.Config, base string) string {
	if c.PublicURL != "" {
		return c.PublicURL
	}
	return base
}
