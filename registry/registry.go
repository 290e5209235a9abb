// Package registry knows the agent servers that are not in the configuration:
// those of a routing.json, and those that have registered themselves.
//
//	routing.json ── WatchRouting ──▶ SetRoutes ┐
//	                                           ├─▶ Agents ─▶ Options.Changed: upstreams are started and ended
//	agent ── POST /agents, again within the lease ──▶ lease ┘
//	      ── DELETE /agents/{name} ──▶ gone         └ runs out ──▶ gone
//
// Names are unique: what the configuration has goes first, then routing.json,
// then who came first. An agent that restarts at its old place takes its name
// over at once; elsewhere it has to wait until the lease of the old one has run
// out, which is what keeps a second agent from taking the calls of the first.
//
// The protocol of registration is told in package agentserver, whose other end
// this is. The package knows what an agent is called and where it is, and
// nothing of MCP but how errors look.
package registry

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/address"
	"github.com/weir-mcp/weir/mcp"
)

// Source is where an agent is known from.
type Source string

// The sources.
const (
	FromRouting      Source = "routing.json"
	FromRegistration Source = "registered"
)

const (
	defaultLease = 30 * time.Second
	defaultMax   = 1000
	// sweep is how often leases are looked at.
	sweep = time.Second
)

// Agent is one agent server.
type Agent struct {
	Name   string
	URL    string // of its MCP endpoint
	Source Source

	// Of an agent that has registered itself.
	Principal string          // whose token it was
	Server    json.RawMessage // what it says of itself, an object; may be nil
	Since     time.Time       // of its first registration
	Until     time.Time       // end of its lease
	Instance  string          // the same until it starts again
	From      netip.Addr      // where it came from; zero where a proxy sent it on
}

// Options configures a Registry. Zero values stand for the defaults named.
type Options struct {
	// Lease is how long an agent is known that is not heard of any more: 30
	// seconds. Agents come back three times within.
	Lease time.Duration
	// Max bounds the agents that have registered themselves: 1,000.
	Max int
	// Owner says which part of the configuration has a name already, such as
	// "mcpServers.files"; "" for none. Nil knows none.
	Owner func(name string) string
	// May says whether a principal may register an agent under a name; nil lets
	// everybody.
	May func(principal, name string) bool
	// Hosts lists the servers at which agents of a principal may be, besides the
	// address that they come from. It is called concurrently. Nil lists none.
	Hosts func(principal string) address.List
	// Lookup resolves the host of a registration; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Secret is what requests to an agent are signed with, told to it alone; ""
	// for none. Nil tells none.
	Secret func(name, instance string) string
	// Changed is called after agents have come, gone or moved, without locks,
	// from whichever goroutine made the change; calls may overlap. May be nil.
	Changed func()
	// Logger takes what comes and goes; nil discards it.
	Logger *slog.Logger
}

// Registry is the set of agents. It is an http.Handler of the registration. It
// is safe for concurrent use.
type Registry struct {
	o    Options
	log  *slog.Logger
	ways transports

	mu     sync.Mutex // guards below
	routes []Route
	leases map[string]Agent
}

// New returns a Registry without agents. Run has leases run out.
func New(o Options) *Registry {
	o.Lease = cmp.Or(o.Lease, defaultLease)
	o.Max = cmp.Or(o.Max, defaultMax)
	if o.Owner == nil {
		o.Owner = func(string) string { return "" }
	}
	if o.May == nil {
		o.May = func(string, string) bool { return true }
	}
	if o.Hosts == nil {
		o.Hosts = func(string) address.List { return address.List{} }
	}
	if o.Secret == nil {
		o.Secret = func(string, string) string { return "" }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{o: o, log: o.Logger, leases: map[string]Agent{}}
	r.ways = transports{r: r, byName: map[string]*http.Transport{}}
	return r
}

// Agents returns all agents, sorted by name. A name that the configuration has
// is not among them.
func (r *Registry) Agents() []Agent {
	r.mu.Lock()
	byName := map[string]Agent{}
	maps.Copy(byName, r.leases)
	for _, route := range r.routes {
		byName[route.Name] = Agent{Name: route.Name, URL: route.URL, Source: FromRouting}
	}
	r.mu.Unlock()
	maps.DeleteFunc(byName, func(name string, _ Agent) bool { return r.o.Owner(name) != "" })
	return slices.SortedFunc(maps.Values(byName), func(a, b Agent) int { return cmp.Compare(a.Name, b.Name) })
}

// Instance returns the instance of an agent that has registered itself, "" of any
// other. It is cheap.
func (r *Registry) Instance(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.routed(name) {
		return ""
	}
	return r.leases[name].Instance
}

// Run has leases run out until ctx ends. The caller owns it.
func (r *Registry) Run(ctx context.Context) {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.expire(now)
		}
	}
}

// expire forgets the agents whose lease has run out.
func (r *Registry) expire(now time.Time) {
	var gone []Agent
	r.mu.Lock()
	for name, l := range r.leases {
		if now.After(l.Until) {
			delete(r.leases, name)
			gone = append(gone, l)
		}
	}
	r.mu.Unlock()
	for _, l := range gone {
		r.ways.forget(l.Name)
		r.log.Warn("an agent was not heard of any more and is forgotten", "agent", l.Name, "url", l.URL)
	}
	if len(gone) > 0 {
		r.o.Changed()
	}
}

// SetRoutes replaces the agents of routing.json.
func (r *Registry) SetRoutes(routes []Route) {
	r.mu.Lock()
	same := slices.Equal(r.routes, routes)
	r.routes = slices.Clone(routes)
	r.mu.Unlock()
	for _, route := range routes {
		if owner := r.o.Owner(route.Name); owner != "" {
			r.log.Warn("an agent of routing.json is not used: its name is taken", "agent", route.Name, "by", owner)
		}
	}
	if !same {
		r.o.Changed()
	}
}

// routed reports whether routing.json has a name. It is called under mu.
func (r *Registry) routed(name string) bool {
	return slices.ContainsFunc(r.routes, func(route Route) bool { return route.Name == name })
}

// register takes an agent up, or hears of it again.
func (r *Registry) register(ctx context.Context, a Agent) error {
	if !r.o.May(a.Principal, a.Name) {
		return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q may not register an agent as %q: auth.tokens[].register says which names it may", a.Principal, a.Name)
	}
	if owner := r.o.Owner(a.Name); owner != "" {
		return taken(a.Name, owner)
	}
	if err := r.checkPlace(ctx, a); err != nil {
		return err
	}
	now := time.Now()
	a.Source, a.Since, a.Until = FromRegistration, now, now.Add(r.o.Lease)
	r.mu.Lock()
	old, live := r.leases[a.Name]
	live = live && !now.After(old.Until)
	var err error
	switch {
	case r.routed(a.Name):
		err = taken(a.Name, "routing.json")
	case !live && len(r.leases) >= r.o.Max:
		err = mcp.Errorf(mcp.KindOverloaded, "%d agents are registered, which is the bound", len(r.leases))
	case !live:
	case old.Principal != a.Principal, old.Instance != a.Instance && old.URL != a.URL:
		err = taken(a.Name, "an agent that is registered")
	}
	changed := false
	if err == nil {
		if live && old.Instance == a.Instance {
			a.Since = old.Since
		}
		changed = !live || old.URL != a.URL || old.From != a.From
		r.leases[a.Name] = a
	}
	r.mu.Unlock()
	if err != nil {
		return err
	}
	if !live || old.Instance != a.Instance {
		r.log.Info("an agent has registered", "agent", a.Name, "url", a.URL, "principal", a.Principal)
	}
	if changed {
		r.ways.forget(a.Name)
		r.o.Changed()
	}
	return nil
}

// taken is the error for a name that somebody has.
func taken(name, owner string) error {
	e := mcp.Errorf(mcp.KindInvalidRequest, "the name %q is taken by %s: give the agent another one", name, owner)
	e.Err = errTaken
	return e
}

var errTaken = fmt.Errorf("registry: the name is taken")

// leave forgets an agent. One that has another instance by now stays.
func (r *Registry) leave(principal, name, instance string) {
	r.mu.Lock()
	l, ok := r.leases[name]
	mine := ok && l.Principal == principal && l.Instance == instance
	if mine {
		delete(r.leases, name)
	}
	r.mu.Unlock()
	if mine {
		r.ways.forget(name)
		r.log.Info("an agent has left", "agent", name, "url", l.URL)
		r.o.Changed()
	}
}
