package dataplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/tables"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

// A Plane serves tables to other servers (docs/s2sp.md). It is part of the HTTP listener. A gateway
// on standard input and output has no such listener, so its Plane opens its own on loopback for the
// first table.
//
//	POST /s2sp/data/{token}     rows; the token is all it takes, and it is spent
//	GET  /s2sp/health
//	POST /s2sp/offer/{handle}   a resource_url for a handle of the caller's; behind the bearer token
type Plane struct {
	store   *artifact.Local
	config  func() *config.Config
	agents  func() []plane.Peer       // that are registered now
	at      func(agent string) string // the URL of an agent, "" for none
	refused *tables.Refusals
	handler http.Handler // serves /s2sp/data and /s2sp/health
	log     *slog.Logger

	mu         sync.Mutex // guards below
	url        string     // base URL; "" if not known yet, or never
	standalone bool       // no other listener exists: open one when needed
	http       *http.Server
	ended      chan struct{}
}

// newPlane returns a plane without a URL.
func newPlane(d *Data, n *Needs) *Plane {
	refused := new(tables.Refusals)
	handler := n.Audited(d.Results, plane.Handler(d.Results, plane.HandlerOptions{Refused: refused.Tell, Logger: n.Log}))
	return &Plane{store: d.Results, config: n.Config, agents: n.Agents, at: n.AgentURL, refused: refused, log: n.Log, handler: guard.Counted(d.Memory, "s2sp", handler)}
}

// Handler serves /s2sp/data and /s2sp/health.
func (p *Plane) Handler() http.Handler { return p.handler }

// SetBase sets the URL at which other servers reach the plane.
func (p *Plane) SetBase(base string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.url = base
}

// StandAlone makes the plane open its own loopback listener when it serves the first table.
func (p *Plane) StandAlone() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standalone = true
}

var errNoPlane = errors.New("no other server can fetch from a command that ends; use mode sync, or call a running weir serve with --url")

// Base returns the URL of the plane. It opens the plane's own listener if that is needed.
func (p *Plane) Base() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.url != "" {
		return p.url, nil
	}
	if !p.standalone {
		return "", errNoPlane
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("opening the data plane: %w", err)
	}
	open := guard.New(guard.Options{Logger: p.log})
	p.http = httpserver.New(open.Wrap(p.handler), p.log)
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

// Close closes the plane's own listener.
func (p *Plane) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.standalone, p.url = false, ""
	if p.http != nil {
		_ = p.http.Close() // no caller can act on the error
		<-p.ended
		p.http = nil
	}
}

// errUnreadable reports that a table cannot be read now; the log has the reason.
var errUnreadable = errors.New("the table cannot be read now")

// Offer returns a resource_url for a principal's artifact. The error is table.ErrNotTable,
// errUnreadable, the error of mcp.NoRoom, or an *artifact.Error if the principal has no such artifact.
func (p *Plane) Offer(ctx context.Context, principal, handle string) (resourceURL string, expires time.Time, err error) {
	base, err := p.Base()
	if err != nil {
		return "", time.Time{}, err
	}
	lease, err := p.store.Open(ctx, principal, handle)
	if err == nil {
		_, err = lease.Table(table.DetectOptions{Options: table.Options{Grow: memory.Taker(ctx)}})
		lease.Close()
	}
	var token artifact.Token
	if err == nil {
		token, err = p.store.Offer(ctx, principal, handle, p.config().Artifacts.TokenTTL)
	}
	var unknown *artifact.Error
	var full *memory.Error
	switch {
	case errors.Is(err, table.ErrNotTable), errors.As(err, &unknown):
		return "", time.Time{}, err
	case errors.As(err, &full):
		return "", time.Time{}, mcp.NoRoom("the table", err)
	case err != nil:
		p.log.Warn("a table cannot be offered", "err", err)
		return "", time.Time{}, errUnreadable
	}
	return plane.URL(base, token.Value), token.Expires, nil
}

// Options returns the S2SP options for a configuration.
func (p *Plane) Options(c *config.Config) tables.Options {
	o := tables.Options{
		BaseURL: p.Base, TTL: c.Artifacts.TokenTTL, Reach: p.reach, Fetches: p.fetches, Refusals: p.refused,
		Detect: func(upstream string) table.DetectOptions {
			s, ok := c.Server(upstream)
			if !ok {
				return table.DetectOptions{}
			}
			return table.DetectOptions{Paths: s.Tables.Paths, CSV: s.Tables.CSV}
		},
	}
	fetch := plane.FetchOptions{Allow: slices.Clone(c.S2SP.Allow), Timeout: time.Minute}
	fetch.Private = c.S2SP.Networks()
	for _, s := range c.Enabled() {
		if u, err := url.Parse(s.URL); err == nil && u.Host != "" {
			fetch.Allow = append(fetch.Allow, address.Server(u))
		}
	}
	fetch.Peers = p.agents
	fetcher, err := plane.NewFetcher(fetch)
	if err != nil {
		p.log.Error("tables of other servers are not fetched", "err", err)
		return o
	}
	o.Fetch = fetcher
	return o
}

// reach says how an upstream reaches data planes. A program on this machine reaches its loopback; a
// server on a Computer has a loopback of another machine.
func (p *Plane) reach(name string) tables.Reach {
	at, local := "", tables.ReachKeep
	if s, ok := p.config().Server(name); ok {
		if s.Tables.Relay {
			local = tables.ReachRelay
		}
		if s.Type == mcpserver.TransportStdio {
			return local
		}
		at = s.URL
	} else {
		if at = p.at(name); at == "" {
			return tables.ReachNever
		}
	}
	u, err := url.Parse(at)
	if err != nil {
		return tables.ReachDirect
	}
	if address.Loopback(u.Hostname()) {
		return local
	}
	return tables.ReachDirect
}

// fetches reports whether an upstream can reach this gateway's data plane: it is on this machine,
// or the plane has a public address.
func (p *Plane) fetches(name string) bool {
	if p.reach(name).Local() {
		return true
	}
	base, err := p.Base()
	if err != nil {
		return false
	}
	u, err := url.Parse(base)
	return err == nil && !address.Loopback(u.Hostname())
}
