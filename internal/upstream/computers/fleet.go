package computers

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/smcp/agent"
)

// Bounds of a Fleet.
const (
	maxComputers = 512
	maxServers   = 256 // MCP servers of one Computer
	retryAfter   = 2 * time.Second
	longestWait  = time.Minute
	staleTime    = 5 * time.Second // for the answer to a request that the Computer has made stale
)

// Upstreams attaches and detaches upstreams; *upstream.Manager implements it. The methods return at
// once and may be called concurrently.
type Upstreams interface {
	Attach(s *config.Server, open upstream.Open) error
	Detach(name string) bool
	// Attached reports whether the upstream attached under a name is still there.
	Attached(name string) bool
}

// Options configure a Fleet.
type Options struct {
	// Agent names the hub and the office. The Fleet sets OnEnter, OnLeave and OnUpdate itself.
	Agent agent.Options
	// Each gets an upstream for each MCP server of each Computer.
	Each Upstreams
	// Whole gets one upstream for each Computer that has several in Each. Nil drops them.
	Whole Upstreams
	// Names records the owners of the names of upstreams. The caller binds the names of Agent.Keys
	// in it; see Bindings. Nil is a ledger of the Fleet's own.
	Names *ownership.Ledger
	// Owner returns the owner of a Computer that has no key, if the hub knows it. With nil, all
	// Computers of one name in this office are one owner.
	Owner func(computer string) (ownership.Owner, bool)
	// Timeout bounds one call of a tool: 60 s.
	Timeout time.Duration
	Logger  *slog.Logger // nil discards
}

// Fleet keeps an upstream for each MCP server of each Computer of an office. All methods are safe
// for concurrent use.
type Fleet struct {
	opts   Options
	log    *slog.Logger
	client *agent.Client
	names  *ownership.Ledger
	keys   atomic.Pointer[map[string]ed25519.PublicKey]
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // workers and adapters; Add under mu

	membership sync.Mutex // held while Computers enter and leave; before mu

	mu        sync.Mutex // guards below
	closed    bool
	computers map[string]*computer
	routes    map[string]route  // by "computer" and "computer.server"
	mirrored  map[string]Server // upstreams of other gateways' Fleets, by name
}

// route is the upstream that a path stands for.
type route struct {
	name     string
	whole    bool
	computer string
	open     upstream.Open // nil: mirrored
}

// New returns a Fleet. Start starts it and Close ends it.
func New(opts Options) (*Fleet, error) {
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Timeout <= 0 {
		opts.Timeout = agent.DefaultCallTimeout
	}
	f := &Fleet{opts: opts, log: opts.Logger, names: opts.Names, computers: map[string]*computer{}, routes: map[string]route{}}
	f.keys.Store(&opts.Agent.Keys)
	f.ctx, f.cancel = context.WithCancel(context.Background())
	ao := opts.Agent
	ao.OnEnter, ao.OnLeave, ao.OnUpdate = f.enter, f.leave, f.update
	if ao.Logger == nil {
		ao.Logger = opts.Logger
	}
	if f.names == nil {
		f.names = new(ownership.Ledger)
		f.names.Bind(Bindings(ao.Keys))
	}
	var err error
	if f.client, err = agent.New(ao); err != nil {
		f.cancel()
		return nil, err
	}
	return f, nil
}

// Start connects in the background, and again whenever the hub is away.
func (f *Fleet) Start() error { return f.client.StartInBackground() }

// SetKeys replaces the Keys of Options.Agent. A Computer whose key, or whose right to its name, is
// another now leaves and enters again, under the new key. The Fleet keeps the mapping.
func (f *Fleet) SetKeys(keys map[string]ed25519.PublicKey) {
	f.membership.Lock()
	defer f.membership.Unlock()
	before := *f.keys.Swap(&keys)
	f.client.SetKeys(keys)
	if f.opts.Names == nil {
		f.names.Bind(Bindings(keys))
	}
	f.mu.Lock()
	var affected []string
	for name := range f.computers {
		upstream, path := namesOf(name, "")
		if !before[name].Equal(keys[name]) || f.claim(name, attached{name: upstream, route: path}) != nil {
			affected = append(affected, name)
		}
	}
	f.mu.Unlock()
	for _, name := range affected {
		f.remove(name) // all of them before any enters again, so that their names are free
	}
	for _, name := range affected {
		f.add(name)
	}
	f.Refresh()
}

// Refresh starts a comparison of every Computer's upstreams with what the Computer offers and may
// be called. Call it when the owners of names have changed. It does not wait.
func (f *Fleet) Refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.computers {
		c.refresh()
	}
}

// Close leaves the office, detaches all upstreams and waits for every goroutine of the Fleet.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	err := f.client.Close()
	f.wg.Wait()
	return err
}

// Resolve returns the upstream of a Computer ("desk"), or of one of its MCP servers
// ("desk.excel"). whole reports whether the upstream is in Options.Whole.
func (f *Fleet) Resolve(name string) (upstreamName string, whole, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.routes[name]
	return r.name, r.whole, ok
}

// Names returns the names that Resolve knows, sorted.
func (f *Fleet) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.routes))
}

func (f *Fleet) enter(name string) {
	f.membership.Lock()
	defer f.membership.Unlock()
	f.add(name)
}

func (f *Fleet) leave(name string) {
	f.membership.Lock()
	defer f.membership.Unlock()
	f.remove(name)
}

// add starts the worker of a Computer. Callers hold membership.
func (f *Fleet) add(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.computers[name] != nil || len(f.computers) >= maxComputers {
		return
	}
	c := newComputer(f, name)
	f.computers[name] = c
	f.wg.Go(c.run)
}

// remove ends the worker of a Computer and waits until its upstreams are detached, so that a
// Computer that enters under the name next finds it free. Callers hold membership.
func (f *Fleet) remove(name string) {
	f.mu.Lock()
	c := f.computers[name]
	delete(f.computers, name)
	f.mu.Unlock()
	if c != nil {
		c.cancel()
		<-c.done
	}
}

func (f *Fleet) update(name string) {
	f.mu.Lock()
	c := f.computers[name]
	f.mu.Unlock()
	if c != nil {
		c.refresh()
	}
}

// upstreams returns the Upstreams that an upstream is attached to.
func (f *Fleet) upstreams(a attached) Upstreams {
	if a.whole {
		return f.opts.Whole
	}
	return f.opts.Each
}

// key returns the public key of a Computer, nil if none is known.
func (f *Fleet) key(computer string) ed25519.PublicKey { return (*f.keys.Load())[computer] }
