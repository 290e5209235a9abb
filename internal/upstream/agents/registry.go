package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/hop"
	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/internal/store"
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
	Server    json.RawMessage // its description of itself, an object; may be nil
	Since     time.Time       // of its first registration
	Until     time.Time       // end of its lease
	Instance  string          // the same until it starts again
	From      netip.Addr      // where it came from; zero where a proxy sent it on
	rev       uint64          // of the document that nodes share
	claimed   uint64          // Options.Claims when it had its name; 0: not looked at
}

// Options configures a Registry. Zero values stand for the defaults named.
type Options struct {
	// Lease is how long an agent stays registered without a heartbeat: 30 seconds. Agents send
	// three within that time.
	Lease time.Duration
	// Max bounds the agents that have registered themselves: 1,000.
	Max int
	// Owner returns the part of the configuration that uses a name already, such as
	// "mcpServers.files"; "" for none. Nil means that no name is used.
	Owner func(name string) string
	// Claim claims the name of an agent, or returns an error that names the owner. It is called
	// again for agents that have their names, must be fast and must not call the Registry. With
	// nil, a name belongs to the first agent that has it.
	Claim func(a Agent) error
	// Claims returns a number, not zero, that changes whenever Owner or Claim may answer otherwise for an agent that
	// had its name. While it stays the same, such an agent is not asked about again. It must be cheap. With nil, all
	// agents are asked about at each change.
	Claims func() uint64
	// May reports whether a principal may register an agent under a name; nil permits all.
	May func(principal, name string) bool
	// Hosts lists the permitted servers of a principal's agents, in addition to the address that
	// they register from. It is called concurrently. Nil lists none.
	Hosts func(principal string) address.List
	// Lookup resolves the host of a registration; nil is the system's resolver.
	Lookup func(ctx context.Context, host string) ([]netip.Addr, error)
	// Secrets returns the keys of requests to an agent, which only the agent gets. The first one signs here;
	// other nodes of a cluster may sign with any of them. Nil means none.
	Secrets func(name, instance string) []string
	// Changed is called after agents were added, removed or moved, without locks, on the goroutine
	// that made the change. Calls may overlap. May be nil.
	Changed func()
	// Kept makes registrations outlast the process, and restores the registrations of an earlier
	// one. Nil keeps none.
	Kept *Kept
	// Logger gets changes of agents; nil discards them.
	Logger *slog.Logger
}

// Registry is the set of agents. It is an http.Handler of the registration. It
// is safe for concurrent use.
type Registry struct {
	o    Options
	log  *slog.Logger
	ways transports

	kept *registrations

	mu     sync.Mutex // guards below
	routes []Route
	leases map[string]Agent
	names  []string        // of leases, sorted
	lost   map[string]bool // leases whose names are not their agents' any more
	unused map[string]bool // routes whose names are another owner's
}

// New returns a Registry with the agents of Options.Kept. Leases expire while Run runs.
func New(o Options) *Registry {
	o.Lease = cmp.Or(o.Lease, defaultLease)
	o.Max = cmp.Or(o.Max, defaultMax)
	if o.Owner == nil {
		o.Owner = func(string) string { return "" }
	}
	if o.Claim == nil {
		o.Claim = claimIn(new(ownership.Ledger))
	}
	if o.Claims == nil {
		o.Claims = func() uint64 { return 0 }
	}
	if o.May == nil {
		o.May = func(string, string) bool { return true }
	}
	if o.Hosts == nil {
		o.Hosts = func(string) address.List { return address.List{} }
	}
	if o.Secrets == nil {
		o.Secrets = func(string, string) []string { return nil }
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{o: o, log: o.Logger, leases: map[string]Agent{}, lost: map[string]bool{}, unused: map[string]bool{}}
	r.ways = transports{r: r, byName: map[string]*hop.Transport{}}
	r.kept = &registrations{
		r: r, docs: store.NewMemory(store.MemoryOptions{}), stop: func() {}, wake: make(chan struct{}, 1), pending: map[string]store.Doc{}, late: map[string]bool{},
	}
	if o.Kept != nil {
		r.kept.restore(o.Kept)
	}
	return r
}

// Agents returns all agents, sorted by name. Those whose names belong to other owners
// are not among them.
func (r *Registry) Agents() []Agent {
	agents, _ := r.Split()
	return agents
}

// Barred is an agent that is left out, because its name is another owner's.
type Barred struct {
	Agent Agent
	Err   error
}

// Barred returns the agents that are left out, sorted by name.
func (r *Registry) Barred() []Barred {
	_, barred := r.Split()
	return barred
}

// Split returns Agents and Barred of the same moment.
func (r *Registry) Split() (agents []Agent, barred []Barred) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sortLocked()
}

func (r *Registry) sortLocked() (agents []Agent, barred []Barred) {
	claims := r.o.Claims()
	clear(r.lost)
	clear(r.unused)
	take := func(a Agent) {
		if claims != 0 && a.claimed == claims {
			agents = append(agents, a)
			return
		}
		err := r.mayHave(a)
		switch {
		case err != nil:
			barred = append(barred, Barred{a, err})
			if a.Source == FromRegistration {
				r.lost[a.Name] = true
			} else {
				r.unused[a.Name] = true
			}
			return
		case a.Source == FromRegistration:
			a.claimed = claims
			r.leases[a.Name] = a
		}
		agents = append(agents, a)
	}
	agents = make([]Agent, 0, len(r.leases)+len(r.routes))
	routes := slices.SortedStableFunc(slices.Values(r.routes), func(a, b Route) int { return cmp.Compare(a.Name, b.Name) })
	for _, name := range r.names {
		for len(routes) > 0 && routes[0].Name < name {
			take(Agent{Name: routes[0].Name, URL: routes[0].URL, Source: FromRouting})
			routes = routes[1:]
		}
		take(r.leases[name])
	}
	for _, route := range routes {
		take(Agent{Name: route.Name, URL: route.URL, Source: FromRouting})
	}
	return agents, barred
}

// putLocked stores an agent that has registered itself.
func (r *Registry) putLocked(a Agent) {
	if _, there := r.leases[a.Name]; !there {
		at, _ := slices.BinarySearch(r.names, a.Name)
		r.names = slices.Insert(r.names, at, a.Name)
	}
	r.leases[a.Name] = a
}

// dropLocked removes an agent that has registered itself.
func (r *Registry) dropLocked(name string) {
	delete(r.leases, name)
	if at, there := slices.BinarySearch(r.names, name); there {
		r.names = slices.Delete(r.names, at, at+1)
	}
}

// mayHave claims an agent's name, or returns an error that names the owner.
func (r *Registry) mayHave(a Agent) error {
	if owner := r.o.Owner(a.Name); owner != "" {
		return fmt.Errorf("the name %q belongs to %s", a.Name, owner)
	}
	return r.o.Claim(a)
}

// Instance returns the instance of an agent that has registered itself, "" of any
// other. It is cheap.
func (r *Registry) Instance(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.lost[name] || r.routed(name) {
		return ""
	}
	return r.leases[name].Instance
}

// Run lets leases expire until ctx ends. The caller owns its goroutine.
func (r *Registry) Run(ctx context.Context) {
	tick := time.NewTicker(sweep)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			r.expire(now)
			r.kept.sweep()
		case <-r.kept.wake:
			if r.kept.apply() {
				r.o.Changed()
			}
		}
	}
}

// expire forgets the agents whose lease has run out.
func (r *Registry) expire(now time.Time) {
	var gone []Agent
	r.mu.Lock()
	for name, l := range r.leases {
		if now.After(l.Until.Add(r.kept.grace())) {
			r.dropLocked(name)
			gone = append(gone, l)
		}
	}
	r.mu.Unlock()
	for _, l := range gone {
		r.kept.ended(l.Name)
		r.ways.forget(l.Name)
		r.log.Warn("an agent stopped renewing its registration and is forgotten", "agent", l.Name, "url", l.URL)
	}
	if len(gone) > 0 {
		r.o.Changed()
	}
}

// SetRoutes replaces the agents of routing.json. Those whose names belong to other
// owners are left out; see Barred.
func (r *Registry) SetRoutes(routes []Route) {
	r.mu.Lock()
	same := slices.Equal(r.routes, routes)
	r.routes = slices.Clone(routes)
	r.sortLocked() // takes their names
	r.mu.Unlock()
	if !same {
		r.o.Changed()
	}
}

// routed reports whether an agent of routing.json has a name. It is called under mu.
func (r *Registry) routed(name string) bool {
	return !r.unused[name] && slices.ContainsFunc(r.routes, func(route Route) bool { return route.Name == name })
}

// register adds an agent, or renews its lease.
func (r *Registry) register(ctx context.Context, a Agent) error {
	if !r.o.May(a.Principal, a.Name) {
		return mcp.Errorf(mcp.KindPermissionDenied, "the token of %q may not register an agent as %q: auth.tokens[].register says which names it may", a.Principal, a.Name)
	}
	if owner := r.o.Owner(a.Name); owner != "" {
		return taken(fmt.Errorf("the name %q belongs to %s", a.Name, owner))
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
		err = taken(fmt.Errorf("the name %q belongs to routing.json", a.Name))
	case !live && len(r.leases) >= r.o.Max:
		err = mcp.Errorf(mcp.KindOverloaded, "%d agents are registered, which is the bound; operators raise agents.max", len(r.leases))
	case !live, r.kept.shared: // its document decides
	default:
		err = conflict(old, a)
	}
	if err == nil { // last: a name that is claimed is not given back
		err = taken(r.o.Claim(a))
	}
	if err == nil {
		r.mu.Unlock()
		a, err = r.kept.renew(ctx, a, old, live)
		r.mu.Lock()
	}
	changed, newer := false, false
	if err == nil { // another request, or another node, may have been heard of meanwhile
		now, there := r.leases[a.Name]
		newer = there && now.rev > a.rev || live && !there && a.rev == old.rev // the agent has left, and nothing was written
	}
	if err == nil && !newer {
		if live && old.Instance == a.Instance {
			a.Since = old.Since
		}
		changed = !live || old.URL != a.URL || old.From != a.From
		r.putLocked(a)
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

// conflict returns the error for an agent whose name another one has, nil if it may have the name.
func conflict(old, a Agent) error {
	if old.Principal != a.Principal || old.Instance != a.Instance && old.URL != a.URL {
		return taken(fmt.Errorf("the name %q is taken by an agent that is registered", a.Name))
	}
	return nil
}

// taken returns the error for an agent that cannot have its name, nil for nil.
func taken(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*ownership.Full)) {
		return mcp.Errorf(mcp.KindOverloaded, "%w", err)
	}
	e := mcp.Errorf(mcp.KindInvalidRequest, "%v: give the agent another name", err)
	e.Err = errTaken
	return e
}

// OwnerOf returns an agent's identity in an ownership.Ledger.
func OwnerOf(a Agent) ownership.Owner {
	if a.Source == FromRouting {
		return ownership.Owner{Kind: ownership.Route, Name: a.Name}
	}
	return ownership.Owner{Kind: ownership.Agent, ID: a.Principal, Name: a.Name}
}

// claimIn claims the names of agents in a ledger. No other claim runs meanwhile.
func claimIn(l *ownership.Ledger) func(Agent) error {
	return func(a Agent) error { return l.Claim(OwnerOf(a), ownership.Want{Names: []string{a.Name}}) }
}

var errTaken = fmt.Errorf("registry: the name is taken")

// leave removes an agent. If its instance has changed, the agent stays.
func (r *Registry) leave(principal, name, instance string) {
	r.kept.leave(principal, name, instance) // also of an agent that is not known here yet
	r.mu.Lock()
	l, ok := r.leases[name]
	mine := ok && l.Principal == principal && l.Instance == instance
	if mine {
		r.dropLocked(name)
	}
	r.mu.Unlock()
	if mine {
		r.ways.forget(name)
		r.log.Info("an agent has left", "agent", name, "url", l.URL)
		r.o.Changed()
	}
}
