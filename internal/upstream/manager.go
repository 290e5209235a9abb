package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/host/child"
	"github.com/weir-mcp/weir/internal/host/serverlog"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/observe/trace"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// Defaults of Options.
const (
	defaultStartTimeout = 60 * time.Second
	defaultReadyBudget  = 10 * time.Second
	defaultGrace        = 5 * time.Minute
	defaultStopGrace    = 2 * time.Second
)

// Sink receives the entries of upstreams. Both methods are called from goroutines of the upstreams,
// never from a call's, and concurrently for different upstreams. catalog.Live is one.
type Sink interface {
	// Update replaces the whole listing of one upstream. The definitions are slices of larger
	// buffers: clone those that are kept.
	Update(l primitive.Listing)
	// Remove removes an upstream that is no longer configured, or that was unavailable for longer
	// than the grace period.
	Remove(upstream string)
}

// Options configure a Manager. The zero value works; child processes then inherit nothing, not even
// PATH.
type Options struct {
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
	// BaseEnv is the environment that a child process inherits, as "key=value": PATH, HOME and the
	// like. The env of its configuration is added; nothing else is.
	BaseEnv []string
	// Marks are variables that all child processes get regardless of their configuration, as
	// "key=value".
	Marks []string
	// Instances are texts that identify this process and its ancestors. If a program writes one of
	// them to stderr and the handshake fails, the program would start itself: its server is left
	// out. So is a server whose connection fails with mcp.ErrLoop.
	Instances []string
	// ClientInfo is weir's raw clientInfo.
	ClientInfo json.RawMessage
	// Redact removes secrets from a server's stderr before it is shown; nil removes nothing.
	Redact func(string) string
	// Hold makes Redact remove a secret until release is called. Credentials of callers in the
	// environment of a program are held while it runs. Nil holds none.
	Hold func(secret string) (release func())
	// Confine changes how the program of a server is started, so that it runs in its sandbox. end is called when it has
	// ended, or was not started. Nil refuses to start programs with a sandbox.
	Confine func(server *mcpserver.Server, cmd *stdio.Command) (end func(), err error)
	// Log keeps what programs write to standard error, and marks where they start and end; nil keeps
	// nothing.
	Log *serverlog.Book
	// Sink receives the listings; nil drops them.
	Sink Sink
	// Conceal returns the part of what a server lists for one principal that may be kept, and Judge the
	// part of that which may be served. They do not change their argument. Sinks do both for the other
	// listings. Nil keeps, and serves, all.
	Conceal func(primitive.Listing) primitive.Listing
	Judge   func(*primitive.Listing) primitive.Listing
	// ListsChanged is called after what the servers that list for each principal list for one has
	// changed; see Manager.OwnLists. grant is the Grant of Owner. It is called from goroutines of
	// the upstreams and must not block for long. Nil is not called.
	ListsChanged func(principal, grant string)
	// Memory counts the bytes of servers' messages; nil sets no bound.
	Memory *memory.Pool
	// Transport wraps the transport of a connection to a server at a URL, for example to sign
	// requests. Nil changes nothing.
	Transport func(upstream string, of Owner, base http.RoundTripper) http.RoundTripper
	// Way returns the transport of connections to a server with a URL that is no address of a network, nil
	// for other servers. Transport does not wrap it. Nil knows none.
	Way func(server *mcpserver.Server) http.RoundTripper
	// Credentials knows the credentials that Transport puts on requests. Nil means that there are none.
	Credentials Credentials
	// States mark the states that programs give agents with the node of a cluster that runs them; nil is for
	// a gateway of one node.
	States States
	// Places say at which nodes of a cluster the programs of principals run; nil is for a gateway of one node.
	Places Places
	// Observer is told about requests to upstreams; nil disables that.
	Observer Observer
	// Failed is told the name of a server that cannot be connected to, does not accept the credentials
	// of its configuration, or is restarted: they may be old. It must not block. Nil is not called.
	Failed func(server string)
	// Trace follows requests to upstreams; nil follows none.
	Trace *trace.Tracer
	// StartTimeout bounds one attempt to start and greet a server.
	StartTimeout time.Duration
	// ReadyBudget is how long a call waits for an upstream that is starting.
	ReadyBudget time.Duration
	// Grace is how long the entries of an upstream that is down stay listed.
	Grace time.Duration
	// StopGrace is how long a process may take to end after its stdin was closed, and again after
	// SIGTERM.
	StopGrace time.Duration

	// Starting bounds the programs that start for their first listing at the same time, handshake
	// included. One that takes longer than 5 seconds does not count any more. Zero sets no bound.
	Starting int

	// turns are the turns of Starting.
	turns *turns
	// open replaces the start of a program, for tests without processes.
	open func(*mcpserver.Server) (mcp.Stream, error)
	// keeper starts programs. It belongs to the Manager.
	keeper *child.Keeper
	// listBytes are smaller bounds of lists, for tests.
	listBytes listBytes
}

// States changes the results of programs on their way out, and the params of calls on their way in. Both
// methods are called concurrently, once per request, and must be fast. They do not change their argument.
type States interface {
	Out(result json.RawMessage) json.RawMessage
	In(params json.RawMessage) (json.RawMessage, error)
}

// Observer is told about each request to an upstream except subscriptions, which last. Both methods
// are called concurrently, once per request, and must be fast.
type Observer interface {
	RequestStarted(upstream string)
	RequestEnded(upstream string, took time.Duration)
}

func (o Options) withDefaults() Options {
	if o.listBytes == (listBytes{}) {
		o.listBytes = listBytes{kept: maxListKept, read: maxListRead}
	}
	o.turns = newTurns(o.Starting)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Redact == nil {
		o.Redact = func(s string) string { return s }
	}
	if o.Failed == nil {
		o.Failed = func(string) {}
	}
	if len(o.ClientInfo) == 0 {
		o.ClientInfo = json.RawMessage(`{"name":"weir","version":"0"}`)
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&o.StartTimeout, defaultStartTimeout}, {&o.ReadyBudget, defaultReadyBudget},
		{&o.Grace, defaultGrace}, {&o.StopGrace, defaultStopGrace},
	} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	return o
}

// Manager holds the upstreams of one configuration. All methods are safe for
// concurrent use.
type Manager struct {
	opts     Options
	children child.Keeper // of all programs

	// Every call looks up upstreams, so the table is immutable and replaced as a whole.
	table atomic.Pointer[table]
	wg    sync.WaitGroup // upstreams that are ending

	mu     sync.Mutex // guards below, and replacing table
	closed bool
	ending map[*Upstream]struct{} // removed from the table, but not ended yet
	ends   map[string]*departure  // the last one of each name that has not ended
	last   []*mcpserver.Server    // of the latest configuration
	// attaches counts the calls of Attach.
	attaches int

	// closing ends when Close starts: drains stop.
	closing context.Context
	close   context.CancelFunc
}

// table is the current configuration. It is immutable.
type table struct {
	byName   map[string]*Upstream
	order    []*mcpserver.Server // the whole configuration, including disabled servers
	attached []*mcpserver.Server // see Attach
}

// New returns a Manager without upstreams; see [Manager.Apply].
func New(o Options) *Manager {
	m := &Manager{opts: o.withDefaults(), ending: map[*Upstream]struct{}{}, ends: map[string]*departure{}}
	m.opts.keeper = &m.children
	m.closing, m.close = context.WithCancel(context.Background())
	m.table.Store(&table{byName: map[string]*Upstream{}})
	return m
}

// Apply makes the upstreams match a configuration and the servers found while weir runs. It starts
// new servers, ends removed and disabled ones, restarts changed ones, and does not touch the rest.
// Calls in flight at an ended server continue for the drain time of its entry; new calls go to its
// successor. A server with a faulty entry is not started, and its Status has the reason. A found
// server with the name of an attached one is left out. Apply does not wait. The servers must not be
// changed afterwards. After Close it does nothing.
func (m *Manager) Apply(servers []*mcpserver.Server, found ...*mcpserver.Server) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return
	}
	attached := m.table.Load().attached
	found = slices.DeleteFunc(slices.Clone(found), func(s *mcpserver.Server) bool { // only the configuration displaces attached servers
		return slices.ContainsFunc(attached, func(a *mcpserver.Server) bool { return a.Name == s.Name })
	})
	next := slices.Concat(servers, found)
	change := mcpserver.Diff(m.last, next)
	m.last = next
	byName := maps.Clone(m.table.Load().byName)
	for i, s := range next { // the same server, but of another origin
		if u := byName[s.Name]; u != nil && !s.Disabled && u.open == nil && u.lists.found != (i >= len(servers)) && !slices.Contains(change.Changed, s.Name) {
			change.Changed = append(change.Changed, s.Name)
		}
	}
	for _, name := range change.Added { // the configuration comes first
		if i := slices.IndexFunc(attached, func(s *mcpserver.Server) bool { return s.Name == name }); i >= 0 {
			attached = slices.Delete(slices.Clone(attached), i, i+1)
			m.end(byName[name], true, 0)
			delete(byName, name)
		}
	}
	var ended []*Upstream
	moves := map[string]*Upstream{}
	for _, name := range slices.Concat(change.Removed, change.Changed) {
		u := byName[name]
		delete(byName, name)
		ended = append(ended, u)
		if u != nil && u.cfg.Scope == mcpserver.ScopeCluster {
			moves[name] = u
		}
		gone := slices.Contains(change.Removed, name) || slices.ContainsFunc(next, func(s *mcpserver.Server) bool { return s.Name == name && s.ListsPerCaller() && !u.lists.perCaller() })
		m.end(u, gone, u.cfg.Drain)
	}
	// Found servers share one place, and the catalog sorts them by name. With a place each, a new one would move those
	// behind it, which all would be listed again.
	for i, s := range next {
		if s.Disabled || s.Faulty() {
			continue
		}
		u := byName[s.Name]
		if u == nil {
			u = newUpstream(m.opts, s, place{min(i, len(servers)), i >= len(servers)}, m.freeOf(s.Name), nil)
			byName[s.Name] = u
			if before := moves[s.Name]; before != nil && s.Scope == mcpserver.ScopeCluster {
				moveTo(before, u)
			}
			continue
		}
		u.lists.setOrder(min(i, len(servers)))
	}
	m.table.Store(&table{byName: byName, order: next, attached: attached})
	m.forgetLists(ended...)
}

// forgetLists ends the listings of principals at upstreams that are no longer in the table. The caller
// holds mu.
func (m *Manager) forgetLists(ended ...*Upstream) {
	for _, u := range ended {
		if u.lists.perCaller() {
			m.wg.Go(u.lists.own.end)
		}
	}
}

// end drains and closes u in the background. If it is gone for good, end removes its entries. The
// caller holds mu.
func (m *Manager) end(u *Upstream, gone bool, drain time.Duration) {
	m.endFor(u, gone, drain, "the configuration has changed")
}

// endFor is end with a reason, a clause for people.
func (m *Manager) endFor(u *Upstream, gone bool, drain time.Duration, why string) {
	d := &departure{u: u, limit: drain, why: why, free: make(chan struct{}), done: make(chan struct{}), before: m.ends[u.name]}
	d.hurry, d.cut = context.WithCancel(m.closing)
	m.ends[u.name], m.ending[u] = d, struct{}{}
	var remove func()
	if gone {
		remove = func() {
			if m.opts.Sink != nil {
				m.opts.Sink.Remove(u.name)
			}
		}
	}
	m.wg.Go(func() {
		d.leave(remove)
		d.cut()
		m.mu.Lock()
		defer m.mu.Unlock()
		d.before = nil
		delete(m.ending, u)
		if m.ends[u.name] == d {
			delete(m.ends, u.name)
			if _, again := m.table.Load().byName[u.name]; gone && !again && m.opts.Log != nil {
				m.opts.Log.Forget(u.name)
			}
		}
	})
}

// freeOf returns a channel that is closed when another upstream of a name may start, nil if it may
// start now. The caller holds mu.
func (m *Manager) freeOf(name string) <-chan struct{} {
	if d := m.ends[name]; d != nil {
		return d.free
	}
	return nil
}

// Close ends all upstreams and waits for all of their goroutines and programs. Programs may end by
// themselves until ctx ends, and are killed then. It returns the error of ctx if it ended first.
func (m *Manager) Close(ctx context.Context) error {
	m.close()
	m.mu.Lock()
	m.closed = true
	all := slices.Collect(maps.Values(m.table.Load().byName))
	for _, u := range all {
		m.wg.Go(u.close)
	}
	all = slices.AppendSeq(all, maps.Keys(m.ending))
	m.mu.Unlock()
	done := make(chan struct{})
	go func() { m.wg.Wait(); close(done) }()
	select {
	case <-done:
		m.children.Close()
		return nil
	case <-ctx.Done():
	}
	for _, u := range all {
		u.programs.kill()
	}
	<-done
	m.children.Close()
	return ctx.Err()
}

// Upstream returns an upstream by its configured name.
func (m *Manager) Upstream(name string) (*Upstream, bool) {
	u, ok := m.table.Load().byName[name]
	return u, ok
}

// Names returns the sorted names of all upstreams, without disabled ones.
func (m *Manager) Names() []string {
	return slices.Sorted(maps.Keys(m.table.Load().byName))
}

// Peer returns an upstream as a Peer, for calls on behalf of the session mcp.Caller(ctx). It does
// not wait; calls do. For an unknown name it returns an *mcp.Error of KindNotFound.
func (m *Manager) Peer(_ context.Context, name string) (mcp.Peer, error) {
	if u, ok := m.Upstream(name); ok {
		return u, nil
	}
	return nil, m.unknown(name)
}

func (m *Manager) unknown(name string) error {
	for _, s := range m.table.Load().order {
		switch {
		case s.Name != name:
		case s.Disabled:
			return mcp.Errorf(mcp.KindNotFound, "upstream %q is disabled: remove mcpServers.%s.disabled to use it", name, name)
		default:
			return mcp.Errorf(mcp.KindUpstreamUnavailable, "upstream %q is not started: %s", name, s.Fault())
		}
	}
	names := m.Names()
	if len(names) > 20 {
		names = append(names[:20], "…")
	}
	return mcp.Errorf(mcp.KindNotFound, "there is no upstream %q; there are: %s", name, strings.Join(names, ", "))
}

// Ready waits until every upstream has been listed or has failed to start once. Then it returns the
// joined errors of all required servers that are faulty or unavailable, nil if there are none. If
// ctx ends first, a required server that is still starting counts as unavailable.
func (m *Manager) Ready(ctx context.Context) error {
	var errs []error
	t := m.table.Load()
	for _, s := range t.order {
		u := t.byName[s.Name]
		if u == nil {
			if s.Required && !s.Disabled {
				errs = append(errs, mcp.Errorf(mcp.KindUpstreamUnavailable, "upstream %q is required and cannot be started: %s", s.Name, s.Fault()))
			}
			continue
		}
		select {
		case <-u.lists.settled:
		case <-ctx.Done():
		}
		if !s.Required || u.lists.listed.Load() || u.leftOut.Load() || u.lists.perCaller() && u.lists.own.reachable() {
			continue
		}
		err := u.conns.shared.calls.lastError()
		if err == nil {
			err = mcp.Errorf(mcp.KindUpstreamStarting, "it has not answered yet")
		}
		errs = append(errs, mcp.Errorf(mcp.KindUpstreamUnavailable, "upstream %q is required and not available: %w", s.Name, err))
	}
	return errors.Join(errs...)
}

// Settled returns a channel that is closed after the first listing attempt, successful or not.
func (u *Upstream) Settled() <-chan struct{} { return u.lists.settled }

// Each calls fn for every server of the configuration, in its order, and then for attached ones.
// The Upstream is nil for a server that is disabled or faulty.
func (m *Manager) Each(fn func(*mcpserver.Server, *Upstream)) {
	t := m.table.Load()
	for _, s := range t.order {
		fn(s, t.byName[s.Name])
	}
	for _, s := range t.attached {
		fn(s, t.byName[s.Name])
	}
}

// Status returns the state of every server of the configuration, in its order, and then of attached
// ones.
func (m *Manager) Status() []Status {
	t := m.table.Load()
	out := make([]Status, 0, len(t.order))
	for _, s := range t.order {
		if u := t.byName[s.Name]; u != nil {
			out = append(out, u.Status())
			continue
		}
		st := Status{Name: s.Name, Namespace: s.Namespace, Transport: transportOf(s), State: StateDisabled}
		if !s.Disabled {
			st.State, st.LastError = StateFailed, s.Fault()
		}
		out = append(out, st)
	}
	for _, s := range t.attached {
		out = append(out, t.byName[s.Name].Status())
	}
	return out
}
