package membership

import (
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/protocol/invocation"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/upstream"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// Agents manages the agent servers: upstreams that register and leave at run time, and whose
// requests are signed.
//
//	routing.json, POST /agents ─▶ registry ─▶ Agents.Merge ─▶ upstream.Manager
type Agents struct {
	needs    Needs
	registry *registry.Registry
	Loops    *passthrough.Loops                // detects requests of this gateway that come back to it
	signer   atomic.Pointer[invocation.Signer] // nil if the configuration has no signing key
	masters  [][]byte                          // secrets of registered agents are derived from them; the first one signs

	merging rounds           // one update of the manager's servers at a time
	found   []*config.Server // of the last update, sorted by name; owned by the round that runs

	running sync.WaitGroup
	end     context.CancelFunc
}

// Needs are the things that Agents stand on. The functions are called after New has returned.
type Needs struct {
	Log    *slog.Logger
	Config func() *config.Config // the current one
	Owners *Owners
	Store  *nodestore.Store
	Kept   *registry.Kept // agents of an earlier process, nil for none
	Shell  bool           // a shell command needs no signing key

	Servers func() *upstream.Manager
	// Place returns the configured servers as this node has them.
	Place func([]*config.Server) []*config.Server
}

// New returns Agents. Until Start is called, they know only the agents of an earlier process.
func New(c *config.Config, n Needs) (*Agents, error) {
	a := &Agents{needs: n, Loops: passthrough.NewLoops(), masters: n.Store.Key().Secrets("invocation"), end: func() {}}
	lease, shared := c.Agents.Lease, n.Store.Lasts() == store.Cluster
	if shared {
		lease = max(lease, registry.ShareLease)
	}
	a.registry = registry.New(registry.Options{
		Lease: lease, Max: c.Agents.Max, Logger: n.Log, Changed: a.Merge, Kept: n.Kept,
		Owner: func(name string) string {
			if _, ok := n.Config().Server(name); ok {
				return "mcpServers." + name
			}
			return ""
		},
		Claim: n.Owners.agent, Claims: n.Owners.Ledger.Version,
		Secrets: func(name, instance string) (all []string) {
			if a.signer.Load() != nil {
				return nil // these agents have the key from their operator, or use none
			}
			for _, master := range a.masters {
				all = append(all, agentSecret(master, name, instance))
			}
			return all
		},
		May:   func(principal, name string) bool { return n.Config().Auth.Registers(principal, name) },
		Hosts: func(principal string) address.List { return n.Config().AgentHosts(principal) },
	})
	signer, err := signerOf(c)
	switch {
	case err == nil:
		a.signer.Store(signer)
	case !n.Shell:
		return nil, &part.SetupError{Err: err}
	default:
		n.Log.Error("the key for invocation tokens cannot be used", "err", err)
	}
	if shared {
		return a, a.registry.Share(n.Store.Docs())
	}
	return a, nil
}

// Start watches routing.json and lets leases expire.
func (a *Agents) Start(c *config.Config) {
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
		a.needs.Log.Error("the agents of routing.json cannot be read; the previous ones stay", "file", path, "err", err)
		return
	}
	for _, p := range r.Problems {
		a.needs.Log.Error("an agent of routing.json cannot be used", "file", path, "problem", p)
	}
	a.registry.SetRoutes(r.Routes)
}

// Close stops the work that start has started.
func (a *Agents) Close() {
	a.end()
	a.running.Wait()
	a.registry.Close()
}

// Disconnect closes idle connections to agents. No request may be sent to an agent after it.
func (a *Agents) Disconnect() { a.registry.CloseIdleConnections() }

// Prepare implements part.Part.Prepare.
func (a *Agents) Prepare(r part.Reload) (apply func(), err error) {
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

// Merge gives the manager the configured servers and the registered agents. It leaves out an agent
// whose name or namespace belongs to another owner. When it returns, the manager has the changes that
// were there before the call; many agents that come at once share an update.
func (a *Agents) Merge() { a.merging.run(a.update) }

// update makes the servers that did not change no second time, because their defaults cost more than
// all else, and the manager need not compare what is the same.
func (a *Agents) update() {
	known, barred := a.registry.Split()
	a.needs.Owners.leaveOut(barred)
	servers := a.needs.Place(a.needs.Config().Kept())
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
				a.needs.Log.Error("an agent cannot be used", "agent", agent.Name, "err", err)
				continue
			}
		}
		found = append(found, s)
	}
	a.found = found
	a.needs.Servers().Apply(servers, found...)
}

// Peers returns the addresses of the agents that are registered now. Addresses from routing.json
// are trusted, because the operator wrote them.
func (a *Agents) Peers() []plane.Peer {
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
			peer.Rule.Private = a.needs.Config().S2SP.Networks()
		}
		list = append(list, peer)
	}
	return list
}

// URL returns the URL of an agent, "" if none has the name.
func (a *Agents) URL(name string) (at string) {
	for _, agent := range a.registry.Agents() {
		if agent.Name == name {
			at = agent.URL
		}
	}
	return at
}

// signs reports whether requests to an upstream are signed: those to agent servers are.
func (a *Agents) signs(name string) bool {
	u, ok := a.needs.Servers().Upstream(name)
	return ok && u.Config().Agent
}

// Sign implements passthrough.Options.Sign for agent servers.
func (a *Agents) Sign(name, principal, tool string) (string, error) {
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

// Transport signs requests that weir sends to an agent server on its own connection.
func (a *Agents) Transport(name string, s *mcp.Session, base http.RoundTripper) http.RoundTripper {
	if guarded := a.registry.Transport(name); guarded != nil {
		base = guarded
	}
	principal := part.ServerName // principal of the connection that lists servers for everyone
	if s != nil {
		principal = s.Principal()
	}
	return passthrough.Signed(base, a.Sign, func() bool { return a.signs(name) }, a.Loops, name, principal, a.needs.Log)
}

// Limits returns the router limits of an upstream.
func (a *Agents) Limits(name string) passthrough.Limits {
	c := a.needs.Config()
	l := c.Agents.LimitsOf(name)
	return passthrough.Limits{InFlight: l.InFlight, PerMinute: l.PerMinute, MaxBody: int64(l.MaxBodyBytes)}
}

// Sources returns where the agents that are registered now come from, by their names.
func (a *Agents) Sources() map[string]registry.Source {
	all := map[string]registry.Source{}
	for _, agent := range a.registry.Agents() {
		all[agent.Name] = agent.Source
	}
	return all
}

// Registered returns the transport to an agent that has registered itself, nil for other servers.
func (a *Agents) Registered(name string) http.RoundTripper { return a.registry.Transport(name) }
