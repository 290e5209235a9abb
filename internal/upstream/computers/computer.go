package computers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/smcp"
)

// computer is one Computer of the office. Its goroutine attaches and detaches its upstreams.
type computer struct {
	fleet  *Fleet
	name   string
	ctx    context.Context // ends when the Computer leaves
	cancel context.CancelFunc
	stale  chan struct{} // capacity 1: the Computer may offer something else
	done   chan struct{} // closed when run has returned

	// The goroutine's own.
	attached map[string]attached // by server; "" is the Computer itself
	blocked  bool                // another upstream has a name that this one needs

	mu       sync.Mutex // guards below
	tools    []smcp.Tool
	adapters map[*adapter]struct{}
	// omitted says why servers have no upstream, by server. reported is omitted as it was before
	// the present comparison: those reasons are in the log already.
	omitted, reported map[string]catalog.Finding
}

// attached is one upstream of a Computer.
type attached struct {
	name  string // of the upstream
	whole bool
	route string
}

func newComputer(f *Fleet, name string) *computer {
	c := &computer{
		fleet: f, name: name, stale: make(chan struct{}, 1), done: make(chan struct{}),
		attached: map[string]attached{}, adapters: map[*adapter]struct{}{},
	}
	c.ctx, c.cancel = context.WithCancel(f.ctx)
	return c
}

// refresh starts another comparison of the upstreams with the Computer's offer.
func (c *computer) refresh() {
	select {
	case c.stale <- struct{}{}:
	default:
	}
}

// run compares the upstreams with the Computer's offer, at first and after each change, until the
// Computer leaves.
func (c *computer) run() {
	defer close(c.done)
	defer c.detachAll()
	for wait := retryAfter; ; {
		var retry <-chan time.Time
		if err := c.compare(min(wait, staleTime)); err != nil && c.ctx.Err() == nil {
			pause := wait
			if errors.Is(err, errStale) {
				pause = 0 // compare has called refresh
			} else {
				retry = time.After(pause)
			}
			c.fleet.log.Warn("a Computer cannot be asked what it offers", "computer", c.name, "err", err, "retry_in", pause)
			wait = min(2*wait, longestWait)
		} else if c.blocked {
			retry = time.After(wait)
			wait = min(2*wait, longestWait)
		} else {
			wait = retryAfter
		}
		select {
		case <-c.ctx.Done():
			return
		case <-c.stale:
		case <-retry:
		}
	}
}

// errStale says that a request to a Computer was cancelled because the Computer has changed.
var errStale = errors.New("it offers something else and has not answered what it was asked before")

// compare calls synchronise. If the Computer announces a change meanwhile, synchronise gets left
// more time and is then cancelled: some Computers never answer a request that was sent before they
// were ready.
func (c *computer) compare(left time.Duration) error {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- c.synchronise(ctx) }()
	select {
	case err := <-done:
		return err
	case <-c.stale:
	}
	defer c.refresh() // for the change, in either case
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	cancel(errStale)
	if err := <-done; err == nil || c.ctx.Err() != nil {
		return err
	}
	return errStale
}

// synchronise asks the Computer for its offer and attaches and detaches upstreams accordingly.
func (c *computer) synchronise(ctx context.Context) error {
	f := c.fleet
	sessions, err := f.client.ListRoom(ctx)
	if err != nil {
		return err
	}
	general := slices.ContainsFunc(sessions, func(s smcp.Session) bool { return s.Role == smcp.RoleComputer && s.Name == c.name && s.MCP })
	wanted := map[string]upstream.Open{}
	if general {
		answer, err := f.client.GetConfig(ctx, c.name)
		if err != nil {
			return err
		}
		for server, raw := range answer.Servers {
			if string(rawjson.Get(raw, "disabled")) != "true" {
				wanted[server] = func(ctx context.Context) (mcp.Stream, error) { return f.client.OpenMCP(ctx, c.name, server) }
			}
		}
	} else {
		if err := c.fetchTools(ctx); err != nil {
			return err
		}
		for _, server := range bundles(c.toolsOf("")) {
			wanted[server] = func(context.Context) (mcp.Stream, error) { return c.adapt(server) }
		}
	}
	if n := len(wanted); n > maxServers {
		for _, server := range slices.Sorted(maps.Keys(wanted))[maxServers:] {
			delete(wanted, server)
		}
		f.log.Warn("MCP servers of a Computer are left out: it says that it has too many", "computer", c.name, "servers", n, "bound", maxServers)
	}
	c.reconcile(ctx, wanted)
	return nil
}

// fetchTools asks for the Computer's tools and tells the adapters that they may have changed.
func (c *computer) fetchTools(ctx context.Context) error {
	tools, err := c.fleet.client.GetTools(ctx, c.name)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.tools = tools
	adapters := slices.Collect(maps.Keys(c.adapters))
	c.mu.Unlock()
	for _, a := range adapters {
		a.changed()
	}
	return nil
}

// toolsOf returns the tools of one bundle; "" returns all tools.
func (c *computer) toolsOf(bundle string) []smcp.Tool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if bundle == "" {
		return c.tools
	}
	var out []smcp.Tool
	for _, t := range c.tools {
		if t.BundleID == bundle {
			out = append(out, t)
		}
	}
	return out
}

// bundles returns the MCP servers that tools name as their own, or only "" if a tool names none.
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

// wholeKey is the key in computer.attached of the upstream in Options.Whole. No server has it as
// its name.
const wholeKey = "\x00whole"

// reconcile attaches and detaches until the Computer has the wanted upstreams, as far as their
// names are free. A Computer of several servers also gets one upstream for all of them.
func (c *computer) reconcile(ctx context.Context, wanted map[string]upstream.Open) {
	f := c.fleet
	c.blocked = false
	c.mu.Lock()
	c.reported, c.omitted = c.omitted, map[string]catalog.Finding{}
	c.mu.Unlock()
	if !c.admitted() {
		c.detachAll()
		return
	}
	for key, a := range c.attached {
		if wanted[key] == nil && !a.whole || !f.upstreams(a).Attached(a.name) || f.claim(c.name, a) != nil {
			c.detach(key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		if _, there := c.attached[key]; !there && c.ctx.Err() == nil {
			name, path := namesOf(c.name, key)
			c.attach(key, attached{name: name, route: path}, wanted[key])
		}
	}
	_, single := wanted[""]
	_, there := c.attached[wholeKey]
	switch {
	case there:
		if err := c.fetchTools(ctx); err != nil {
			f.log.Debug("a Computer's tools cannot be listed", "computer", c.name, "err", err)
		}
	case !single && len(wanted) > 0 && f.opts.Whole != nil && c.ctx.Err() == nil:
		name, path := namesOf(c.name, "")
		c.attach(wholeKey, attached{name: name, whole: true, route: path}, func(context.Context) (mcp.Stream, error) {
			if err := c.fetchTools(c.ctx); err != nil {
				return nil, err
			}
			return c.adapt("")
		})
	}
}

func (c *computer) attach(key string, a attached, open upstream.Open) {
	f := c.fleet
	what := fmt.Sprintf("the MCP server %q of the Computer %q", key, c.name)
	if key == "" || a.whole {
		what = fmt.Sprintf("the Computer %q as one server", c.name)
	}
	err := f.claim(c.name, a)
	if err == nil {
		err = f.upstreams(a).Attach(&config.Server{
			Name: a.name, Namespace: catalog.MapNamespace(a.name), Type: mcpserver.TransportStdio, Tags: []string{c.name}, Timeout: f.opts.Timeout, Start: mcpserver.StartBoot,
		}, open)
		c.blocked = c.blocked || err != nil
	}
	if err != nil {
		c.omit(key, a.name, what, err)
		return
	}
	c.attached[key] = a
	f.mu.Lock()
	f.routes[a.route] = route{a.name, a.whole, c.name, open}
	f.mu.Unlock()
	f.log.Info("an MCP server of a Computer has arrived", "computer", c.name, "upstream", a.name)
}

func (c *computer) detach(key string) {
	f := c.fleet
	a := c.attached[key]
	delete(c.attached, key)
	f.mu.Lock()
	if f.routes[a.route].name == a.name {
		delete(f.routes, a.route)
	}
	f.mu.Unlock()
	if f.upstreams(a).Detach(a.name) {
		f.log.Info("an MCP server of a Computer is gone", "computer", c.name, "upstream", a.name)
	}
}

func (c *computer) detachAll() {
	for key := range c.attached {
		c.detach(key)
	}
}
