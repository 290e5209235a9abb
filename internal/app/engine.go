package app

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/console"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/internal/telemetry"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/visible"
	"github.com/weir-mcp/weir/internal/work"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// An Engine is a gateway without a transport: upstreams, what they offer, and the store of results.
// weir serve and the package weir put HTTP or standard input before it, shell commands a pipe.
//
//	config ─▶ upstream.Manager ─▶ upstream.Live (snapshot) ─▶ gateway.Gateway ─▶ mcp.Lifecycle
//	              ▲ Reload                                          └─▶ artifact.Local ◀─ Plane
//
// The exported fields are set by New and never change.
type Engine struct {
	Version  string
	Instance string // names this run of a gateway
	Started  time.Time
	Memory   *memory.Pool       // counts the bytes of messages
	Results  *artifact.Local    // keeps the results that are held back
	Turns    *work.Turns        // of computations for agents and for the console
	Feed     console.Feed       // the newest events
	Metrics  *telemetry.Metrics // counts
	Plane    *Plane             // serves tables to other servers
	Offices  *Offices           // nil in a shell command, and where no hub is configured

	opts        Options
	log         *slog.Logger
	config      atomic.Pointer[config.Config]
	looked      atomic.Pointer[config.Config] // the newest one whose names were looked for in the catalog
	redact      atomic.Pointer[result.Redactor]
	conceal     concealer
	manager     *upstream.Manager
	live        *upstream.Live[*gateway.Snapshot]
	holdings    *holdings
	bodies      *bodies                              // wait at /mcps/NAME/mcp
	state       *gateway.State                       // quotas and what sessions have seen outlive a reload
	rounds      *bridge.Rounds                       // calls during which modern agents are asked something
	file        atomic.Pointer[gateway.SnapshotFile] // served in addition to the upstreams; may be nil
	direct      atomic.Pointer[gateway.Gateway]      // of the newest front: it judges calls that do not pass it
	owners      *owners
	agents      *agents
	embeddings  *embeddings // nil where entries are ranked by words alone; a shell command never starts it
	tell        func(telemetry.Event)
	nonEmpty    chan struct{} // closed when the catalog has its first entry
	nonEmptySet sync.Once

	// first is closed after the first listing attempt of every upstream of the start, successful or
	// not; firstEnd stops waiting for that.
	first    chan struct{}
	firstEnd context.CancelFunc
}

// Options are what an Engine is given in addition to a configuration.
type Options struct {
	Version string
	Logger  *slog.Logger
	// Environ is the environment of this process. Programs of servers get the part of it that they
	// need to run at all.
	Environ []string
	// Lineage tells the programs of servers which weirs they come from.
	Lineage Lineage
	// RedactResults replaces secrets in results, whatever the configuration says.
	RedactResults bool
	// Events receives a line for each event; nil writes none. The Engine closes it.
	Events *telemetry.EventLog
	// File is served in addition to the upstreams; nil is none.
	File *gateway.SnapshotFile
	// Shell makes the engine of a single command: it has neither offices nor embeddings.
	Shell bool
}

// New starts the upstreams of a configuration and waits for none of them. The caller closes the
// Engine. An error of type *SetupError says what the operator must change.
func New(ctx context.Context, c *config.Config, o Options) (*Engine, error) {
	e, err := build(c, o)
	if err != nil {
		if o.Events != nil {
			err = errors.Join(err, o.Events.Close())
		}
		return nil, err
	}
	e.start(c)
	if o.Shell {
		return e, nil
	}
	e.serveFile(o.File)
	e.embeddings.start(e.live)
	if e.Offices, err = openOffices(ctx, c, e); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), CloseTimeout)
		defer cancel()
		e.Close(closing)
		return nil, err
	}
	return e, nil
}

// build makes an engine that has started nothing.
func build(c *config.Config, o Options) (*Engine, error) {
	if !o.Shell {
		if _, err := signerOf(c); err != nil {
			return nil, &SetupError{err}
		}
	}
	log := o.Logger
	held, err := openHoldings(c, log)
	if err != nil {
		return nil, err
	}
	vectors, err := newEmbeddings(c, log)
	if err != nil {
		return nil, errors.Join(err, held.close())
	}
	e := &Engine{
		Version: o.Version, Instance: rand.Text(), Started: time.Now(), Memory: held.pool, Results: held.store, Turns: work.NewTurns(0),
		opts: o, log: log, holdings: held, embeddings: vectors, state: gateway.NewState(), rounds: bridge.NewRounds(bridge.Options{Logger: log}),
		first: make(chan struct{}), nonEmpty: make(chan struct{}),
	}
	e.observe(o.Events)
	e.config.Store(c)
	e.redact.Store(result.NewRedactor(c.Secrets()))
	e.conceal.configure(c)
	if vectors != nil {
		vectors.redact = func(s string) string { return e.redact.Load().Redact(s) }
	}
	e.live = upstream.NewLive(gateway.NewSnapshotWith(limitsOf(c.SchemaLimits), vectors.ranking()), upstream.LiveOptions[*gateway.Snapshot]{
		Prepare: (*gateway.Snapshot).Prepare, Conceal: e.conceal.listing, Logger: log,
		Changed: func(s *gateway.Snapshot, upstreams []string) {
			if s.Catalog.Len() > 0 {
				e.nonEmptySet.Do(func() { close(e.nonEmpty) })
			}
			e.refreshed(s.Catalog, upstreams)
			vectors.changed()
		},
	})
	e.owners = newOwners(c, log)
	e.agents = newAgents(e, c)
	e.manager = upstream.New(upstream.Options{
		Logger: log, Transport: e.agents.transport, BaseEnv: Inherited(o.Environ), ClientInfo: Identity(o.Version), Sink: e.live, Observer: observer{engine: e},
		Marks: o.Lineage.Variable(), Instances: o.Lineage.Instances(),
		Redact: e.clean, StopGrace: StopGrace, Memory: held.pool,
	})
	e.Plane = newPlane(held, func() time.Duration { return e.config.Load().Artifacts.TokenTTL }, log)
	e.bodies = newBodies(e.config.Load)
	return e, nil
}

// start starts the upstreams.
func (e *Engine) start(c *config.Config) {
	for _, s := range c.Servers {
		if why := c.Omitted(s.Name); why != "" {
			e.log.Info(why)
		}
	}
	e.agents.start(c)
	e.agents.merge()
	ctx, cancel := context.WithCancel(context.Background())
	e.firstEnd = cancel
	go func() {
		defer close(e.first)
		_ = e.manager.Ready(ctx) // Ready of the Engine returns the error of required servers
		e.tellCatalog(telemetry.CatalogLoaded, e.Snapshot().Catalog, "", nil)
		e.checkCatalog(e.Snapshot().Catalog, true)
	}()
}

// Identity is how weir introduces itself to servers and to clients.
func Identity(version string) json.RawMessage {
	info, err := json.Marshal(map[string]string{"name": ServerName, "title": "weir", "version": version})
	if err != nil {
		panic(err) // three strings
	}
	return info
}

// Config returns the configuration that is in force.
func (e *Engine) Config() *config.Config { return e.config.Load() }

// Upstreams returns the names of the servers.
func (e *Engine) Upstreams() []string { return e.manager.Names() }

// clean removes secrets, and what is not seen, from what a server said.
func (e *Engine) clean(text string) string { return e.redact.Load().Redact(visible.Text(text)) }

// StopGrace is how long a program may take to end by itself after its standard
// input was closed, and again after SIGTERM: all of it fits into a shutdown.
const StopGrace = time.Second

// limitsOf turns the configuration's limits into the catalog's.
func limitsOf(l config.SchemaLimits) catalog.Limits {
	return catalog.Limits{
		SchemaBytes: int(l.Bytes), SchemaDepth: l.Depth, SchemaProperties: l.Properties, OnInvalid: catalog.OnInvalid(l.OnInvalid),
	}
}

// apply takes over a reloaded configuration: servers that changed are started
// again, the others do not notice.
func (e *Engine) apply(c *config.Config) {
	e.config.Store(c)
	e.redact.Store(result.NewRedactor(c.Secrets()))
	e.conceal.configure(c)
	e.owners.configure(c)
	e.agents.apply(c)
	e.agents.merge()
}

// settleTimeout is how long a shell command waits for its own upstreams.
const settleTimeout = 30 * time.Second

// Settled waits until every upstream has been listed or has failed to start. It returns an error
// where a required one is not there.
func (e *Engine) Settled(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := e.manager.Ready(bounded); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// longWait is after which time Ready logs the servers that it waits for: until then nothing else
// tells that weir starts.
const longWait = time.Second

// Ready waits until the servers that are marked required have been listed, or one of them has
// failed. It does not wait for others. If a required server is not available, it returns an error
// that names the server.
func (e *Engine) Ready(ctx context.Context) error {
	waiting := map[string]<-chan struct{}{}
	e.manager.Each(func(s *config.Server, u *upstream.Upstream) {
		if s.Required && u != nil {
			waiting[s.Name] = u.Settled()
		}
	})
	long := time.NewTimer(longWait - time.Since(e.Started))
	defer long.Stop()
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		for done := false; !done; {
			select {
			case <-waiting[name]:
				done = true
			case <-long.C:
				e.log.Info("waiting for servers that are required", "servers", open(waiting))
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	now, cancel := context.WithCancel(ctx)
	cancel()
	return e.manager.Ready(now)
}

// open returns the names of the channels that are not closed.
func open(channels map[string]<-chan struct{}) (names []string) {
	for name, c := range channels {
		select {
		case <-c:
		default:
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// CloseTimeout is how long Close waits for upstreams to end.
const CloseTimeout = 4 * time.Second

// Close leaves the offices, ends the upstreams, by force when ctx ends, and forgets all results.
// No calls may be in flight.
func (e *Engine) Close(ctx context.Context) {
	e.Offices.close(ctx)
	e.firstEnd()
	e.agents.close()
	if err := e.manager.Close(ctx); err != nil {
		e.log.Warn("upstreams did not end by themselves and were killed", "err", err)
	}
	e.agents.disconnect()
	<-e.first
	e.embeddings.close()
	e.Plane.close()
	e.bodies.close()
	e.state.Close()
	if e.opts.Events != nil {
		if err := e.opts.Events.Close(); err != nil {
			e.log.Warn("closing the log of events", "err", err)
		}
	}
	if err := e.holdings.close(); err != nil {
		e.log.Warn("closing the store of results", "err", err)
	}
}

// Peer implements gateway.Upstreams.
func (e *Engine) Peer(ctx context.Context, name string) (mcp.Peer, error) {
	if f := e.file.Load(); f != nil && f.Name() == name {
		return f, nil
	}
	return e.manager.Peer(ctx, name)
}

// Missing tells the gateway of servers of which nothing is in the catalog.
func (e *Engine) Missing() []gateway.Missing { return missing(e.manager, e.live) }

// Snapshot implements gateway.Upstreams.
func (e *Engine) Snapshot() *gateway.Snapshot { return e.live.Snapshot() }

// Front returns the Handler of /mcp under a configuration: the handshake and the gateway behind it.
// Several fronts may share the Engine.
func (e *Engine) Front(c *config.Config) mcp.Handler {
	mode := gateway.ModeGateway
	if c.Mode == config.ModeProxy {
		mode = gateway.ModeProxy
	}
	return e.front(c, mode)
}

// ShellFront is Front for a command of this process: its mode is always that of a gateway.
func (e *Engine) ShellFront(c *config.Config) mcp.Handler { return e.front(c, gateway.ModeGateway) }

func (e *Engine) front(c *config.Config, mode gateway.Mode) mcp.Handler {
	opts := gateway.Options{
		Upstreams: e, Artifacts: e.Results, Tables: e.tableOptions(c), State: e.state, Turns: e.Turns, CallTimeout: callTimeout(e.manager), Logger: e.log,
		Redactor: e.redact.Load(), RedactResults: c.Artifacts.Redact || e.opts.RedactResults, OnEvent: e.tell, Mode: mode,
		Firewall:      result.Firewall{ThresholdChars: threshold(c.Firewall.ThresholdChars)},
		ExposeHydrate: c.ExposeHydrate || c.Browse.ExposeHydrate,
	}
	controls(c, &opts)
	opts.Cache.Room = e.Memory.Account("cache")
	if c.Browse.Format == config.BrowseJSON {
		opts.Format = result.FormatJSON
	}
	g := gateway.New(opts)
	e.direct.Store(g)
	return &startupWait{engine: e, proxy: mode == gateway.ModeProxy, next: &mcp.Lifecycle{
		ServerInfo: Identity(e.Version), Instructions: g.Instructions(), Capabilities: g.Capabilities, Next: telemetry.TraceContext(e.rounds.Wrap(g), streamable.Header),
	}}
}

// callTimeout is how long a call of an upstream may take, by the upstream's name.
func callTimeout(m *upstream.Manager) func(name string) time.Duration {
	return func(name string) time.Duration {
		u, ok := m.Upstream(name)
		if !ok {
			return 0
		}
		return u.CallTimeout()
	}
}

// threshold is the configuration's firewall.threshold_chars. Zero holds every
// result back there, and stands for the default in gateway.Firewall.
func threshold(chars int) int {
	if chars == 0 {
		return -1
	}
	return chars
}

// inheritedNames are the variables that upstreams' programs get from weir's own
// environment: what finding programs, files, proxies and certificates needs.
// Everything else, tokens above all, is named in the configuration or stays
// here. A name that ends with * stands for all that begin so.
var inheritedNames = []string{
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ", "TMPDIR", "TMP", "TEMP", "XDG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "NODE_EXTRA_CA_CERTS",
	"SystemRoot", "SYSTEMROOT", "SystemDrive", "COMSPEC", "PATHEXT", "APPDATA", "LOCALAPPDATA", "USERPROFILE", "ProgramFiles", "PROGRAMDATA",
}

// InheritedNames returns the names, for documents.
func InheritedNames() []string { return slices.Clone(inheritedNames) }

// Inherited returns the part of an environment that programs get.
func Inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return !slices.ContainsFunc(inheritedNames, func(known string) bool {
			prefix, many := strings.CutSuffix(known, "*")
			return name == known || many && strings.HasPrefix(name, prefix)
		})
	})
}
