package app

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Agents manages the agent servers: upstreams that register and leave at run time, and whose
// requests are signed.
//
//	routing.json, POST /agents ─▶ registry ─▶ Agents.merge ─▶ upstream.Manager
type Agents struct {
	manager  *upstream.Manager // set before start
	scoped   *scoped           // set before start
	owners   *owners
	config   func() *config.Config
	health   func() *Health
	log      *slog.Logger
	registry *registry.Registry
	Loops    *passthrough.Loops                // detects requests of this gateway that come back to it
	signer   atomic.Pointer[invocation.Signer] // nil if the configuration has no signing key
	masters  [][]byte                          // secrets of registered agents are derived from them; the first one signs

	merging rounds           // one update of the manager's servers at a time
	found   []*config.Server // of the last update, sorted by name; owned by the round that runs

	running sync.WaitGroup
	end     context.CancelFunc
}

// newAgents returns Agents. Until start is called, they know only the agents of an earlier process.
func newAgents(e *Engine, c *config.Config, kept *registry.Kept) (*Agents, error) {
	a := &Agents{owners: e.Catalog.owners, config: e.config.Load, health: e.Health, log: e.log, Loops: passthrough.NewLoops(), masters: e.Store.Key().Secrets("invocation"), end: func() {}}
	lease, shared := c.Agents.Lease, e.Store.Lasts() == store.Cluster
	if shared {
		lease = max(lease, registry.ShareLease)
	}
	a.registry = registry.New(registry.Options{
		Lease: lease, Max: c.Agents.Max, Logger: e.log, Changed: a.merge, Kept: kept,
		Owner: func(name string) string {
			if _, ok := e.config.Load().Server(name); ok {
				return "mcpServers." + name
			}
			return ""
		},
		Claim: e.Catalog.owners.agent, Claims: e.Catalog.owners.ledger.Version,
		Secrets: func(name, instance string) (all []string) {
			if a.signer.Load() != nil {
				return nil // these agents have the key from their operator, or use none
			}
			for _, master := range a.masters {
				all = append(all, agentSecret(master, name, instance))
			}
			return all
		},
		May:   func(principal, name string) bool { return e.config.Load().Auth.Registers(principal, name) },
		Hosts: func(principal string) address.List { return e.config.Load().AgentHosts(principal) },
	})
	signer, err := signerOf(c)
	switch {
	case err == nil:
		a.signer.Store(signer)
	case !e.opts.Shell:
		return nil, &part.SetupError{Err: err}
	default:
		e.log.Error("the key for invocation tokens cannot be used", "err", err)
	}
	if shared {
		return a, a.registry.Share(e.Store.Docs())
	}
	return a, nil
}

// start watches routing.json and lets leases expire.
func (a *Agents) start(c *config.Config) {
	ctx, cancel := context.WithCancel(context.Background())
	a.end = cancel
	a.running.Go(func() { a.registry.Run(ctx) })
	path := c.Agents.Routing
	if path == "" {
		return
	}
	// Agents that routing.json lists at the start are available to the first request.
	if r, err := registry.ReadRouting(path); err == nil {
		a.routing(path, r, nil)
	}
	a.running.Go(func() {
		registry.WatchRouting(ctx, path, func(r registry.Routing, err error) { a.routing(path, r, err) })
	})
}

func (a *Agents) routing(path string, r registry.Routing, err error) {
	if err != nil {
		a.log.Error("the agents of routing.json cannot be read; the previous ones stay", "file", path, "err", err)
		return
	}
	for _, p := range r.Problems {
		a.log.Error("an agent of routing.json cannot be used", "file", path, "problem", p)
	}
	a.registry.SetRoutes(r.Routes)
}

// close stops the work that start has started.
func (a *Agents) close() {
	a.end()
	a.running.Wait()
	a.registry.Close()
}

// disconnect closes idle connections to agents. No request may be sent to an agent after it.
func (a *Agents) disconnect() { a.registry.CloseIdleConnections() }

// prepare implements part.Part.Prepare.
func (a *Agents) prepare(r part.Reload) (apply func(), err error) {
	signer, err := signerOf(r.Next)
	if err != nil {
		return nil, err
	}
	return func() {
		a.signer.Store(signer)
		a.registry.CloseIdleConnections() // agents.hosts may have changed
	}, nil
}

// signerOf returns the signer with the configured key, nil if none is configured.
func signerOf(c *config.Config) (*invocation.Signer, error) {
	switch in := c.Agents.Invocation; {
	case in.PrivateKey != "":
		key, err := place.ReadPEM(in.PrivateKey, x509.ParsePKCS8PrivateKey)
		if err != nil {
			return nil, fmt.Errorf("agents.invocation.private_key: %w", err)
		}
		private, ok := key.(ed25519.PrivateKey)
		if !ok {
			return nil, fmt.Errorf("agents.invocation.private_key: %s holds another kind of key than Ed25519; make one with: openssl genpkey -algorithm ed25519", in.PrivateKey)
		}
		return invocation.NewSigner(part.ServerName, private)
	case in.Secret != "":
		return invocation.NewSigner(part.ServerName, []byte(in.Secret.Reveal()))
	}
	return nil, nil
}

// ServeHTTP serves the registration of agents.
func (a *Agents) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.registry.ServeHTTP(w, r) }

// merge gives the manager the configured servers and the registered agents. It leaves out an agent
// whose name or namespace belongs to another owner. When it returns, the manager has the changes that
// were there before the call; many agents that come at once share an update.
func (a *Agents) merge() { a.merging.run(a.update) }

// update makes the servers that did not change no second time, because their defaults cost more than
// all else, and the manager need not compare what is the same.
func (a *Agents) update() {
	known, barred := a.registry.Split()
	a.owners.leaveOut(barred)
	servers := a.scoped.place(a.config().Kept())
	found, last := make([]*config.Server, 0, len(known)), a.found
	for _, agent := range known {
		for len(last) > 0 && last[0].Name < agent.Name {
			last = last[1:]
		}
		var s *config.Server
		if len(last) > 0 && last[0].Name == agent.Name && last[0].URL == agent.URL {
			s = last[0]
		} else {
			var err error
			if s, err = config.NewServer(agent.Name, agent.URL); err != nil {
				// the registry has validated it already
				a.log.Error("an agent cannot be used", "agent", agent.Name, "err", err)
				continue
			}
		}
		found = append(found, s)
	}
	a.found = found
	a.manager.Apply(servers, found...)
}

// servers returns the addresses of the agents that are registered now. Addresses from routing.json
// are trusted, because the operator wrote them.
func (a *Agents) servers() []plane.Peer {
	var list []plane.Peer
	for _, agent := range a.registry.Agents() {
		u, err := url.Parse(agent.URL)
		if err != nil || u.Host == "" {
			continue
		}
		peer := plane.Peer{Server: address.Server(u)}
		var registered bool
		if peer.Rule, registered = a.registry.Rule(agent.Name); !registered {
			if peer.Rule.Allow, err = address.NewList([]string{peer.Server}); err != nil {
				continue
			}
			peer.Rule.Private = a.config().S2SP.Networks()
		}
		list = append(list, peer)
	}
	return list
}

// urlOf returns the URL of an agent, "" if none has the name.
func (a *Agents) urlOf(name string) (at string) {
	for _, agent := range a.registry.Agents() {
		if agent.Name == name {
			at = agent.URL
		}
	}
	return at
}

// signs reports whether requests to an upstream are signed: those to agent servers are.
func (a *Agents) signs(name string) bool {
	u, ok := a.manager.Upstream(name)
	return ok && u.Config().Agent
}

// sign implements passthrough.Options.Sign for agent servers.
func (a *Agents) sign(name, principal, tool string) (string, error) {
	if !a.signs(name) {
		return "", nil
	}
	signer := a.signer.Load()
	if signer == nil {
		instance := a.registry.Instance(name)
		if instance == "" {
			return "", nil
		}
		var err error
		if signer, err = invocation.NewSigner(part.ServerName, []byte(agentSecret(a.masters[0], name, instance))); err != nil {
			return "", err
		}
	}
	return signer.Sign(principal, name, tool)
}

// agentSecret returns the key that signs requests to a registered agent. Each instance has its own key,
// so that no agent can impersonate the router to another.
func agentSecret(master []byte, name, instance string) string {
	h := hmac.New(sha256.New, master)
	fmt.Fprintf(h, "%d:%s:%s", len(name), name, instance)
	return hex.EncodeToString(h.Sum(nil))
}

// transport signs requests that weir sends to an agent server on its own connection.
func (a *Agents) transport(name string, s *mcp.Session, base http.RoundTripper) http.RoundTripper {
	if guarded := a.registry.Transport(name); guarded != nil {
		base = guarded
	}
	principal := part.ServerName // principal of the connection that lists servers for everyone
	if s != nil {
		principal = s.Principal()
	}
	return passthrough.Signed(base, a.sign, func() bool { return a.signs(name) }, a.Loops, name, principal, a.log)
}

// limits returns the router limits of an upstream.
func (a *Agents) limits(name string) passthrough.Limits {
	c := a.config()
	l := c.Agents.LimitsOf(name)
	return passthrough.Limits{InFlight: l.InFlight, PerMinute: l.PerMinute, MaxBody: int64(l.MaxBodyBytes)}
}

// Status lists the servers that a principal may call, with the state that is known without
// contacting them.
func (a *Agents) Status(principal string) []passthrough.AgentStatus {
	sources := map[string]registry.Source{}
	for _, agent := range a.registry.Agents() {
		sources[agent.Name] = agent.Source
	}
	h := a.health()
	var list []passthrough.AgentStatus
	for _, s := range a.manager.Status() {
		if s.Off() || !a.config().Auth.Reaches(principal, s.Name) {
			continue
		}
		up := h.Upstreams[s.Name]
		one := passthrough.AgentStatus{
			Name: s.Name, State: up.State, Source: "config", Transport: up.Transport, Endpoint: "/mcps/" + url.PathEscape(s.Name) + "/mcp",
			Tools: up.Tools, Calls: up.Calls, Errors: up.Errors, InFlight: up.InFlight, Restarts: up.Restarts, Error: up.Error,
		}
		if source, ok := sources[s.Name]; ok {
			one.Source = string(source)
		}
		if !s.Since.IsZero() {
			one.Uptime = math.Round(time.Since(s.Since).Seconds()*1000) / 1000
		}
		if u, ok := a.manager.Upstream(s.Name); ok {
			one.Probe, one.ProbeHeader, one.ProbeTransport = probeURL(u.Config()), probeHeader(u.Config()), a.registry.Transport(s.Name)
		}
		list = append(list, one)
	}
	return list
}

// probeURL returns the status URL of a server: the one of an agent server, or one on this machine.
func probeURL(s *config.Server) string {
	u, err := url.Parse(s.URL)
	if s.URL == "" || err != nil || s.Type == mcpserver.TransportSSE || !s.Agent && !address.Loopback(u.Hostname()) {
		return ""
	}
	return u.ResolveReference(&url.URL{Path: "healthz"}).String()
}

// probeHeader returns the header with the server's configured token, if any. Without it, some
// servers report only that they are alive.
func probeHeader(s *config.Server) http.Header {
	h := http.Header{}
	for name, value := range s.Headers {
		if http.CanonicalHeaderKey(name) == "Authorization" {
			h.Set(name, value.Reveal())
		}
	}
	return h
}

// defaultListen is the listen address if the configuration has none.
const defaultListen = "127.0.0.1:8088"

// ListenAddress returns the address to listen on: the configured one, or else the default address
// with the port of routing.json.
func ListenAddress(c *config.Config) string {
	if c.Agents.Routing == "" || c.Listen != defaultListen {
		return c.Listen
	}
	if r, err := registry.ReadRouting(c.Agents.Routing); err == nil && r.Port > 0 {
		return net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port))
	}
	return c.Listen
}
