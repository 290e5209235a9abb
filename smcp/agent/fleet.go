package agent

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/ownership"
	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
)

// Bounds of a Fleet.
const (
	maxFleet    = 512 // Computers
	maxServers  = 256 // MCP servers of one Computer
	retryAfter  = 2 * time.Second
	longestWait = time.Minute
	patience    = 5 * time.Second // with a question that a Computer has made stale
)

// Upstreams is where a Fleet puts what it finds; *upstream.Manager is one. The
// methods return at once and may be called concurrently.
type Upstreams interface {
	Attach(s *config.Server, open upstream.Open) error
	Detach(name string) bool
	// Attached reports whether what was attached under a name is still there.
	Attached(name string) bool
}

// FleetOptions configure a Fleet.
type FleetOptions struct {
	// Agent says which office of which hub. Its OnEnter, OnLeave and OnUpdate
	// are the Fleet's.
	Agent Options
	// Each gets an upstream for each MCP server of each Computer.
	Each Upstreams
	// Whole gets one for each Computer as a whole, where Each has several; nil
	// drops them.
	Whole Upstreams
	// Names says whose the names of upstreams are. The creator binds those of
	// Agent.Keys in it; see Bindings. Nil stands for a ledger of the Fleet's own.
	Names *ownership.Ledger
	// Owner returns the owner that a Computer without a key is, where the hub knows;
	// nil knows none, and then all that use the name in this office are one.
	Owner func(computer string) (ownership.Owner, bool)
	// Timeout bounds one call of a tool: 60 s.
	Timeout time.Duration
	Logger  *slog.Logger // nil discards
}

// Fleet makes the Computers of an office upstreams of a gateway: they arrive and
// vanish with their Computer.
//
//	notify:enter_office ─▶ get_config ─▶ Attach <computer>-<server>   over client:mcp (Computers of weir)
//	                    └▶ get_tools ──▶ Attach <computer>-<bundle>   over client:tool_call (others that say bundles)
//	                                └──▶ Attach <computer>            (all others)
//
// All methods are safe for concurrent use.
type Fleet struct {
	o      FleetOptions
	log    *slog.Logger
	client *Client
	names  *ownership.Ledger
	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup // workers and adapters; Add under mu

	mu        sync.Mutex // guards below
	closed    bool
	computers map[string]*hosted
	routes    map[string]route // by "computer" and "computer.server"
}

// hosted is one Computer. One goroutine keeps its upstreams what they should be.
type hosted struct {
	name   string
	ctx    context.Context
	cancel context.CancelFunc
	again  chan struct{} // capacity 1: look again
	done   chan struct{}

	attached map[string]attached // by server, "" for the Computer itself; the worker's

	waits bool // for a name that another upstream still has; the worker's

	mu       sync.Mutex // guards below
	tools    []smcp.Tool
	adapters map[*adapter]struct{}
	// left says why servers are left out, and told why they were before, by server.
	left, told map[string]catalog.Finding
}

type attached struct {
	name  string // of the upstream
	whole bool
	route string
}

type route struct {
	name  string
	whole bool
}

// NewFleet returns a Fleet; Start begins it and Close ends it.
func NewFleet(o FleetOptions) (*Fleet, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Timeout <= 0 {
		o.Timeout = DefaultCallTimeout
	}
	f := &Fleet{o: o, log: o.Logger, names: o.Names, computers: map[string]*hosted{}, routes: map[string]route{}}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	ao := o.Agent
	ao.OnEnter, ao.OnLeave, ao.OnUpdate = f.enter, f.leave, f.update
	if ao.Logger == nil {
		ao.Logger = o.Logger
	}
	if f.names == nil {
		f.names = new(ownership.Ledger)
		f.names.Bind(Bindings(ao.Keys))
	}
	var err error
	if f.client, err = New(ao); err != nil {
		f.cancel()
		return nil, err
	}
	return f, nil
}

// Start connects, and goes on trying where the hub is not there.
func (f *Fleet) Start() error { return f.client.StartPatient() }

// Client is the Fleet's Agent.
func (f *Fleet) Client() *Client { return f.client }

// SetKeys replaces Options.Keys of the Agent. Computers for which that makes a
// difference arrive anew: their channels begin again under the key they have now,
// and their servers where the names are theirs now. The Fleet keeps the mapping.
func (f *Fleet) SetKeys(keys map[string]ed25519.PublicKey) {
	before := *f.client.keys.Swap(&keys)
	if f.o.Names == nil {
		f.names.Bind(Bindings(keys))
	}
	f.client.inTurn(func() {
		f.mu.Lock()
		var others []string
		for name := range f.computers {
			upstream, route := namesOf(name, "")
			if !before[name].Equal(keys[name]) || f.claim(f.computers[name], attached{name: upstream, route: route}) != nil {
				others = append(others, name)
			}
		}
		f.mu.Unlock()
		for _, name := range others {
			f.leave(name) // all of them first: names become free
		}
		for _, name := range others {
			f.enter(name)
		}
	})
	f.Look()
}

// Look has the Fleet look again at what its Computers offer and may be called: the
// owners of names have changed. It waits for nothing.
func (f *Fleet) Look() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, h := range f.computers {
		h.look()
	}
}

// Close leaves the office, takes all upstreams out and waits until everything
// has ended.
func (f *Fleet) Close() error {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.cancel()
	err := f.client.Close()
	f.wg.Wait()
	return err
}

// Resolve returns the upstream of a Computer ("desk"), or of one of its MCP
// servers ("desk.excel"), and whether it is one of Whole.
func (f *Fleet) Resolve(name string) (upstreamName string, whole, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r, ok := f.routes[name]
	return r.name, r.whole, ok
}

// Names returns what Resolve knows, sorted.
func (f *Fleet) Names() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.routes))
}

func (f *Fleet) enter(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.computers[name] != nil || len(f.computers) >= maxFleet {
		return
	}
	h := &hosted{name: name, again: make(chan struct{}, 1), done: make(chan struct{}), attached: map[string]attached{}, adapters: map[*adapter]struct{}{}}
	h.ctx, h.cancel = context.WithCancel(f.ctx)
	f.computers[name] = h
	f.wg.Go(func() { f.keep(h) })
}

func (f *Fleet) leave(name string) {
	f.mu.Lock()
	h := f.computers[name]
	delete(f.computers, name)
	f.mu.Unlock()
	if h != nil {
		h.cancel()
		<-h.done // who comes back under the name finds it free
	}
}

func (f *Fleet) update(name string) {
	f.mu.Lock()
	h := f.computers[name]
	f.mu.Unlock()
	if h != nil {
		h.look()
	}
}

// look has the goroutine look again.
func (h *hosted) look() {
	select {
	case h.again <- struct{}{}:
	default:
	}
}

// keep looks what a Computer offers, again whenever it says so, until it leaves.
func (f *Fleet) keep(h *hosted) {
	defer close(h.done)
	defer f.detachAll(h)
	for wait := retryAfter; ; {
		var retry <-chan time.Time
		if err := f.attend(h, min(wait, patience)); err != nil && h.ctx.Err() == nil {
			pause := wait
			if errors.Is(err, errStale) {
				pause = 0 // attend has it looked again
			} else {
				retry = time.After(pause)
			}
			f.log.Warn("a Computer cannot be asked what it offers", "computer", h.name, "err", err, "retry_in", pause)
			wait = min(2*wait, longestWait)
		} else if h.waits {
			retry = time.After(wait)
			wait = min(2*wait, longestWait)
		} else {
			wait = retryAfter
		}
		select {
		case <-h.ctx.Done():
			return
		case <-h.again:
		case <-retry:
		}
	}
}

// errStale is why a question to a Computer is given up.
var errStale = errors.New("it offers something else and has not answered what it was asked before")

// attend is look. If the Computer says meanwhile that it offers something else, the
// answer has some time left to come: not every Computer answers what it was asked
// before it was ready, and then nothing would come of what it says now.
func (f *Fleet) attend(h *hosted, left time.Duration) error {
	ctx, cancel := context.WithCancelCause(h.ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- f.look(ctx, h) }()
	select {
	case err := <-done:
		return err
	case <-h.again:
	}
	defer h.look() // again, whatever comes of this
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	cancel(errStale)
	if err := <-done; err == nil || h.ctx.Err() != nil {
		return err
	}
	return errStale
}

// look makes the upstreams of a Computer what it offers now.
func (f *Fleet) look(ctx context.Context, h *hosted) error {
	sessions, err := f.client.ListRoom(ctx)
	if err != nil {
		return err
	}
	general := slices.ContainsFunc(sessions, func(s smcp.Session) bool { return s.Role == smcp.RoleComputer && s.Name == h.name && s.MCP })
	wanted := map[string]upstream.Open{}
	if general {
		c, err := f.client.GetConfig(ctx, h.name)
		if err != nil {
			return err
		}
		for server, raw := range c.Servers {
			if string(rawjson.Get(raw, "disabled")) != "true" {
				wanted[server] = func(ctx context.Context) (mcp.Stream, error) { return f.client.OpenMCP(ctx, h.name, server) }
			}
		}
	} else {
		if err := f.ask(ctx, h); err != nil {
			return err
		}
		for _, server := range bundles(h.offered("")) {
			wanted[server] = func(context.Context) (mcp.Stream, error) { return f.adapt(h, server) }
		}
	}
	if n := len(wanted); n > maxServers {
		for _, server := range slices.Sorted(maps.Keys(wanted))[maxServers:] {
			delete(wanted, server)
		}
		f.log.Warn("MCP servers of a Computer are left out: it says that it has too many", "computer", h.name, "servers", n, "bound", maxServers)
	}
	f.arrange(ctx, h, wanted)
	return nil
}

// ask gets a Computer's tools for the adapters, which tell of a change.
func (f *Fleet) ask(ctx context.Context, h *hosted) error {
	tools, err := f.client.GetTools(ctx, h.name)
	if err != nil {
		return err
	}
	h.mu.Lock()
	h.tools = tools
	adapters := slices.Collect(maps.Keys(h.adapters))
	h.mu.Unlock()
	for _, a := range adapters {
		a.changed()
	}
	return nil
}

// offered are the tools of one bundle, or all where it is "".
func (h *hosted) offered(bundle string) []smcp.Tool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bundle == "" {
		return h.tools
	}
	var out []smcp.Tool
	for _, t := range h.tools {
		if t.BundleID == bundle {
			out = append(out, t)
		}
	}
	return out
}

// bundles returns the MCP servers that tools say they are from, or "" alone where
// one of them does not say.
func bundles(tools []smcp.Tool) []string {
	seen := map[string]bool{}
	for _, t := range tools {
		if t.BundleID == "" {
			return []string{""}
		}
		seen[t.BundleID] = true
	}
	return slices.Sorted(maps.Keys(seen))
}

// arrange attaches and detaches until a Computer has the upstreams that are wanted
// and may have their names, and one for itself beside them.
func (f *Fleet) arrange(ctx context.Context, h *hosted, wanted map[string]upstream.Open) {
	h.waits = false
	h.mu.Lock()
	h.told, h.left = h.left, map[string]catalog.Finding{}
	h.mu.Unlock()
	if !f.admitted(h) {
		f.detachAll(h)
		return
	}
	for key, a := range h.attached {
		if wanted[key] == nil && !a.whole || !f.to(a).Attached(a.name) || f.claim(h, a) != nil {
			f.detach(h, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if _, there := h.attached[key]; !there && h.ctx.Err() == nil {
			name, path := namesOf(h.name, key)
			f.attach(h, key, attached{name: name, route: path}, wanted[key])
		}
	}
	_, single := wanted[""]
	if _, there := h.attached[wholeKey]; !there && !single && len(wanted) > 0 && f.o.Whole != nil && h.ctx.Err() == nil {
		name, path := namesOf(h.name, "")
		f.attach(h, wholeKey, attached{name: name, whole: true, route: path}, func(context.Context) (mcp.Stream, error) {
			if err := f.ask(h.ctx, h); err != nil {
				return nil, err
			}
			return f.adapt(h, "")
		})
	} else if there {
		f.askQuietly(ctx, h)
	}
}

// wholeKey is no name of a server.
const wholeKey = "\x00whole"

func (f *Fleet) askQuietly(ctx context.Context, h *hosted) {
	if err := f.ask(ctx, h); err != nil {
		f.log.Debug("a Computer's tools cannot be listed", "computer", h.name, "err", err)
	}
}

// to is where an upstream is attached.
func (f *Fleet) to(a attached) Upstreams {
	if a.whole {
		return f.o.Whole
	}
	return f.o.Each
}

func (f *Fleet) attach(h *hosted, key string, a attached, open upstream.Open) {
	what := fmt.Sprintf("the MCP server %q of the Computer %q", key, h.name)
	if key == "" || a.whole {
		what = fmt.Sprintf("the Computer %q as one server", h.name)
	}
	err := f.claim(h, a)
	if err == nil {
		err = f.to(a).Attach(&config.Server{
			Name: a.name, Namespace: catalog.MapNamespace(a.name), Type: config.TransportStdio, Tags: []string{h.name}, Timeout: f.o.Timeout, Start: config.StartBoot,
		}, open)
		h.waits = h.waits || err != nil
	}
	if err != nil {
		f.leaveOut(h, key, a.name, what, err)
		return
	}
	h.attached[key] = a
	f.mu.Lock()
	f.routes[a.route] = route{a.name, a.whole}
	f.mu.Unlock()
	f.log.Info("an MCP server of a Computer has arrived", "computer", h.name, "upstream", a.name)
}

func (f *Fleet) detach(h *hosted, key string) {
	a := h.attached[key]
	delete(h.attached, key)
	f.mu.Lock()
	if f.routes[a.route].name == a.name {
		delete(f.routes, a.route)
	}
	f.mu.Unlock()
	if f.to(a).Detach(a.name) {
		f.log.Info("an MCP server of a Computer is gone", "computer", h.name, "upstream", a.name)
	}
}

func (f *Fleet) detachAll(h *hosted) {
	for key := range h.attached {
		f.detach(h, key)
	}
}

// definition is a tool as MCP lists it.
func definition(t smcp.Tool) (json.RawMessage, error) {
	out := map[string]any{"name": t.Name, "inputSchema": json.RawMessage(`{"type":"object"}`)}
	if t.Description != "" {
		out["description"] = t.Description
	}
	if rawjson.IsObject(t.ParamsSchema) {
		out["inputSchema"] = t.ParamsSchema
	}
	if rawjson.IsObject(t.ReturnSchema) {
		out["outputSchema"] = t.ReturnSchema
	}
	if rawjson.IsObject(t.Meta) {
		meta := t.Meta
		if text := rawjson.Text(rawjson.Get(meta, smcp.MetaAnnotation)); text != "" && rawjson.Valid([]byte(text)) == nil && rawjson.IsObject([]byte(text)) {
			out["annotations"] = withoutNulls(json.RawMessage(text))
			if rest, err := rawjson.Delete(meta, smcp.MetaAnnotation); err == nil {
				meta = rest
			}
		}
		out["_meta"] = meta
	}
	return smcp.Encode(out)
}

// withoutNulls drops members that are null: MCP leaves out what is absent, some
// Computers write null for it.
func withoutNulls(obj json.RawMessage) json.RawMessage {
	var drop []string
	_ = rawjson.EachMember(obj, func(m rawjson.Member) bool { // what cannot be read stays as it is
		if string(m.Value) == "null" {
			drop = append(drop, string(m.Key))
		}
		return true
	})
	for _, key := range drop {
		if next, err := rawjson.Delete(obj, key); err == nil {
			obj = next
		}
	}
	return obj
}
