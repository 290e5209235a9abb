package computer

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/smcp"
)

// catalog is the configured MCP servers, and the tools and windows that they list. It is the Sink of their listings. It
// is safe for concurrent use.
//
//	set: the configuration ─┬▶ toolset ─▶ find
//	Update: a listing ──────┘└▶ windows, which are watched ─▶ notices
type catalog struct {
	log     *slog.Logger
	inputs  *inputs // whose values no listing shows
	notices *notices
	manager *upstream.Manager // set before the first server
	ctx     context.Context   // ends with the Computer
	wg      sync.WaitGroup    // of watchers of windows; Add under mu, unless closed

	mu       sync.Mutex // guards below
	closed   bool
	servers  []*Server // in order
	applied  map[string]*mcpserver.Server
	failed   map[string]string   // errors of servers that could not be configured
	listings map[string]*listing // by server
	tools    *toolset
}

// listing holds the tools and windows of one MCP server.
type listing struct {
	tools   []json.RawMessage
	windows []json.RawMessage // resources with the scheme window
	stop    func()            // ends the subscriptions to windows
}

func newCatalog(ctx context.Context, in *inputs, n *notices, log *slog.Logger) *catalog {
	return &catalog{
		log: log, inputs: in, notices: n, ctx: ctx, applied: map[string]*mcpserver.Server{}, failed: map[string]string{},
		listings: map[string]*listing{}, tools: &toolset{},
	}
}

// set replaces the servers, and forgets the listings of those that are not applied.
func (c *catalog) set(servers []*Server, applied map[string]*mcpserver.Server, failed map[string]string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("the Computer was closed")
	}
	c.servers, c.applied, c.failed = servers, applied, failed
	for name := range c.listings {
		if applied[name] == nil {
			delete(c.listings, name)
		}
	}
	c.rebuild()
	return nil
}

// close keeps all later listings out. wait waits for the watchers of windows, which end with ctx.
func (c *catalog) close() (wait func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	return c.wg.Wait
}

// all returns the configured servers. They must not be changed.
func (c *catalog) all() []*Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.servers)
}

// server finds a server by name or bundle id, nil if there is none.
func (c *catalog) server(id string) *Server {
	c.mu.Lock()
	defer c.mu.Unlock()
	i := slices.IndexFunc(c.servers, func(s *Server) bool { return s.bundle() == id })
	if i < 0 {
		i = slices.IndexFunc(c.servers, func(s *Server) bool { return s.Name == id })
	}
	if i < 0 {
		return nil
	}
	return c.servers[i]
}

// now returns the tools that are callable now.
func (c *catalog) now() *toolset {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tools
}

// find finds the tool of a name. If the name is unknown, find waits for servers that are starting for
// the first time.
func (c *catalog) find(ctx context.Context, name string) (*tool, error) {
	if t, err := c.now().find(name); err == nil {
		return t, nil
	}
	c.settle(ctx)
	return c.now().find(name)
}

// settle waits a limited time for servers that have not been listed yet.
func (c *catalog) settle(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	_ = c.manager.Ready(ctx) // missing servers offer nothing
}

// problems returns the reasons why tools cannot be called by their names.
func (c *catalog) problems() (out []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, tools := range c.tools.byName {
		if len(tools) > 1 {
			out = append(out, ambiguous(name, tools).Error())
		}
	}
	for _, text := range c.failed {
		out = append(out, text)
	}
	return out
}

// health returns the state of every server, in order.
func (c *catalog) health(states map[string]upstream.Status) []Health {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]Health, 0, len(c.servers))
	for _, s := range c.servers {
		h := Health{Name: s.Name, BundleID: s.bundle(), Type: s.Type, State: string(upstream.StateDisabled)}
		st, ok := states[s.Name]
		switch {
		case c.failed[s.Name] != "":
			h.State, h.Error = string(upstream.StateFailed), c.failed[s.Name]
		case ok && !s.Disabled:
			h.State, h.Tools, h.Calls, h.Errors, h.Restarts, h.Pid, h.Since, h.Version = string(st.State), st.Tools, st.Calls, st.Errors, st.Restarts, st.Pid, st.Since, st.ServerInfo
			if st.State != upstream.StateReady && st.State != upstream.StateIdle {
				h.Error = st.LastError
			}
		}
		out = append(out, h)
	}
	return out
}

var _ upstream.Sink = (*catalog)(nil)

// Update implements upstream.Sink.
func (c *catalog) Update(l primitive.Listing) {
	l = c.inputs.concealed(l)
	n := &listing{}
	for _, raw := range l.Tools {
		n.tools = append(n.tools, slices.Clone(raw))
	}
	seen := map[string]bool{}
	for _, raw := range l.Resources {
		if uri := rawjson.Text(rawjson.Get(raw, "uri")); isWindow(uri) && !seen[uri] {
			seen[uri] = true
			n.windows = append(n.windows, slices.Clone(raw))
		}
	}
	c.mu.Lock()
	old := c.listings[l.Upstream]
	known := c.applied[l.Upstream] != nil && !c.closed
	if known {
		c.listings[l.Upstream] = n
		c.rebuild()
	}
	c.mu.Unlock()
	if old != nil && old.stop != nil {
		old.stop()
	}
	if !known {
		return
	}
	c.watchWindows(l.Upstream, n)
	events := []string{smcp.EventUpdateTools}
	if len(n.windows) > 0 || old != nil && len(old.windows) > 0 {
		events = append(events, smcp.EventUpdateDesktop)
	}
	c.notices.add(events...)
}

// Remove implements upstream.Sink.
func (c *catalog) Remove(name string) {
	c.mu.Lock()
	old := c.listings[name]
	delete(c.listings, name)
	c.rebuild()
	c.mu.Unlock()
	if old == nil {
		return
	}
	if old.stop != nil {
		old.stop()
	}
	c.notices.add(smcp.EventUpdateTools, smcp.EventUpdateDesktop)
}

// rebuild builds a new toolset. The caller holds mu.
func (c *catalog) rebuild() {
	set := &toolset{byName: map[string][]*tool{}, byFull: map[string]*tool{}, byExact: map[string]*tool{}, forbidden: map[string]string{}}
	for _, s := range c.servers {
		l := c.listings[s.Name]
		if l == nil || s.Disabled {
			continue
		}
		for _, raw := range l.tools {
			name := rawjson.Text(rawjson.Get(raw, "name"))
			if slices.Contains(s.Forbidden, name) {
				set.forbidden[name], set.forbidden[s.bundle()+"__"+name] = s.Name, s.Name
				continue
			}
			if name == "" {
				continue
			}
			t := &tool{server: s, name: name, alias: name, meta: s.meta(name), raw: raw}
			if t.meta.Alias != "" {
				t.alias = t.meta.Alias
			}
			set.all = append(set.all, t)
			set.byName[t.alias] = append(set.byName[t.alias], t)
			set.byFull[s.bundle()+"__"+t.alias] = t
			set.byExact[s.Name+"\x00"+name] = t
		}
	}
	old := c.tools
	c.tools = set
	var example error
	n := 0
	for name, tools := range set.byName {
		if len(tools) > 1 && len(old.byName[name]) < 2 {
			example = ambiguous(name, tools)
			n++
		}
	}
	if example != nil {
		c.log.Error("tools of the same name cannot be called by it", "tools", n, "for_example", example)
	}
}

// windows returns the windows of all servers, or those with a URI. They are in the order of the servers.
func (c *catalog) windows(uri string) (windows []window) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.servers {
		if l := c.listings[s.Name]; l != nil {
			for _, raw := range l.windows[:min(len(l.windows), maxWindows)] {
				if w := windowOf(s.Name, raw); uri == "" || w.uri == uri {
					windows = append(windows, w)
				}
			}
		}
	}
	return windows
}

// readWindow returns a window's entry. ok is false if the window has no content.
func (c *catalog) readWindow(ctx context.Context, w window) (string, bool) {
	ctx, cancel := context.WithTimeout(ctx, windowTime)
	defer cancel()
	up, ok := c.manager.Upstream(w.server)
	if !ok {
		return "", false
	}
	result, err := up.Call(ctx, "resources/read", rawjson.Object("uri", rawjson.Quote(w.uri)), nil)
	if err != nil {
		c.log.Warn("a window cannot be read and is left out", "server", w.server, "uri", w.uri, "err", err)
		return "", false
	}
	var parts []string
	n := 0
	_ = rawjson.EachElement(rawjson.Get(result, "contents"), func(v []byte) bool { // an unreadable answer has no parts
		n++
		if text := rawjson.Text(rawjson.Get(v, "text")); text != "" {
			parts = append(parts, text)
		}
		return true
	})
	if n == 0 {
		return "", false
	}
	body := strings.TrimSpace(strings.Join(parts, "\n\n"))
	if len(body) > maxWindowBytes {
		body = strings.ToValidUTF8(body[:maxWindowBytes], "") + "…"
	}
	if body == "" {
		return w.uri, true
	}
	return w.uri + "\n\n" + body, true
}

// watchWindows subscribes to the windows of a server and tells the office of their changes.
func (c *catalog) watchWindows(server string, l *listing) {
	up, ok := c.manager.Upstream(server)
	if !ok || len(l.windows) == 0 {
		return
	}
	ctx, cancel := context.WithCancel(c.ctx)
	var once sync.Once
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.listings[server] != l {
		cancel()
		return
	}
	l.stop = func() { once.Do(cancel) }
	c.wg.Go(func() {
		var stops []func()
		for _, raw := range l.windows[:min(len(l.windows), maxWindows)] {
			stop, err := up.SubscribeResource(ctx, rawjson.Text(rawjson.Get(raw, "uri")), func(json.RawMessage) { c.notices.add(smcp.EventUpdateDesktop) })
			if err != nil {
				c.log.Debug("a window cannot be watched", "server", server, "err", err)
				break // the server does not support it
			}
			stops = append(stops, stop)
		}
		<-ctx.Done()
		for _, stop := range stops {
			stop()
		}
	})
}

// notices are events for the office. Each is sent after a short delay, so that many changes become one event. It is
// safe for concurrent use.
type notices struct {
	send func(event string) // must not block

	mu     sync.Mutex // guards below
	closed bool
	due    map[string]bool
	timer  *time.Timer // sends them; nil before the first one
}

// add makes events due.
func (n *notices) add(events ...string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	if n.due == nil {
		n.due = map[string]bool{}
	}
	for _, e := range events {
		n.due[e] = true
	}
	if n.timer == nil {
		n.timer = time.AfterFunc(debounce, n.flush)
	} else {
		n.timer.Reset(debounce)
	}
}

// flush sends the events that are due, in the order of their names.
func (n *notices) flush() {
	n.mu.Lock()
	events := make([]string, 0, len(n.due))
	for e := range n.due {
		events = append(events, e)
	}
	clear(n.due)
	n.mu.Unlock()
	slices.Sort(events)
	for _, e := range events {
		n.send(e)
	}
}

// close sends nothing any more.
func (n *notices) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.closed = true
	clear(n.due)
	if n.timer != nil {
		n.timer.Stop()
	}
}
