package cli

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/console"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/gateway/result"
	"github.com/weir-mcp/weir/internal/telemetry"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/internal/visible"
	"github.com/weir-mcp/weir/internal/work"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// An engine is a gateway without a face: upstreams, what they offer, and the
// store of results. serve puts transports before it, shell commands a pipe.
//
//	config ─▶ upstream.Manager ─▶ upstream.Live (snapshot) ─▶ gateway.Gateway ─▶ mcp.Lifecycle
//	              ▲ apply (reload)                                   └─▶ artifact.Local ◀─ dataPlane
type engine struct {
	app      *app
	log      *slog.Logger
	started  time.Time
	instance string // see runFile
	config   atomic.Pointer[config.Config]
	looked   atomic.Pointer[config.Config] // the newest one whose names were looked for in the catalog
	redact   atomic.Pointer[result.Redactor]
	conceal  concealer
	manager  *upstream.Manager
	live     *upstream.Live[*gateway.Snapshot]
	holdings *holdings
	plane    *dataPlane
	bodies   *bodies             // that wait at /mcps/NAME/mcp
	state    *gateway.State      // quotas and what sessions have seen outlive a reload
	turns    *work.Turns         // of what computes much, for agents and in the console
	rounds   *bridge.Rounds      // calls during which modern agents are asked something
	events   *telemetry.EventLog // nil: none are written
	metrics  *telemetry.Metrics
	feed     console.Feed                         // what the console shows of events
	file     atomic.Pointer[gateway.SnapshotFile] // served beside the upstreams; may be nil
	direct   atomic.Pointer[gateway.Gateway]      // of the newest front: it judges calls that do not pass it
	owners   *owners
	agents   *agents
	offices  *offices // nil in a shell command
	meaning  *meaning // nil where entries are ranked by words alone; a shell command never starts it
	tell     func(telemetry.Event)

	// first is closed when every upstream of the start has been listed or has
	// failed once; firstEnd stops waiting for that.
	first    chan struct{}
	firstEnd context.CancelFunc
}

// newEngine starts the upstreams of a configuration and waits for none of them.
// The caller closes the engine, which closes events; they may be nil.
// It fails where there is no store for results.
func newEngine(c *config.Config, a *app, log *slog.Logger, events *telemetry.EventLog) (*engine, error) {
	held, err := openHoldings(c, log)
	var m *meaning
	if err == nil {
		if m, err = newMeaning(c, log); err != nil {
			err = errors.Join(err, held.close())
		}
	}
	if err != nil {
		if events != nil {
			err = errors.Join(err, events.Close())
		}
		return nil, err
	}
	e := &engine{app: a, log: log, holdings: held, started: time.Now(), instance: newInstance(), state: gateway.NewState(), turns: work.NewTurns(0), rounds: bridge.NewRounds(bridge.Options{Logger: log}), first: make(chan struct{})}
	e.observe(events)
	e.config.Store(c)
	e.redact.Store(result.NewRedactor(c.Secrets()))
	e.conceal.configure(c)
	if e.meaning = m; m != nil {
		m.redact = func(s string) string { return e.redact.Load().Redact(s) }
	}
	e.live = upstream.NewLive(gateway.NewSnapshotWith(limitsOf(c.SchemaLimits), m.ranking()), upstream.LiveOptions[*gateway.Snapshot]{
		Prepare: (*gateway.Snapshot).Prepare, Conceal: e.conceal.listing, Logger: log,
		Changed: func(s *gateway.Snapshot, upstreams []string) {
			e.refreshed(s.Catalog, upstreams)
			m.changed()
		},
	})
	e.owners = newOwners(c, log)
	e.agents = newAgents(e, c)
	e.manager = upstream.New(upstream.Options{
		Logger: log, Transport: e.agents.transport, BaseEnv: inherited(a.environ()), ClientInfo: a.identity(), Sink: e.live, Observer: observer{engine: e},
		Marks: a.lineage.variable(), Instances: a.lineage.instances(),
		Redact: e.clean, StopGrace: stopGrace, Memory: held.pool,
	})
	e.plane = newDataPlane(held, func() time.Duration { return e.config.Load().Artifacts.TokenTTL }, log)
	e.bodies = newBodies(e.config.Load)
	for _, s := range c.Servers {
		if why := c.Omitted(s.Name); why != "" {
			log.Info(why)
		}
	}
	e.agents.start(c)
	e.agents.merge()
	ctx, cancel := context.WithCancel(context.Background())
	e.firstEnd = cancel
	go func() {
		defer close(e.first)
		_ = e.manager.Ready(ctx) // required servers are asked for by whoever cannot do without
		e.tellCatalog(telemetry.CatalogLoaded, e.Snapshot().Catalog, "", nil)
		e.checkCatalog(e.Snapshot().Catalog, true)
	}()
	return e, nil
}

// clean removes secrets, and what is not seen, from what a server said.
func (e *engine) clean(text string) string { return e.redact.Load().Redact(visible.Text(text)) }

// stopGrace is how long a program may take to end by itself after its standard
// input was closed, and again after SIGTERM: all of it fits into a shutdown.
const stopGrace = time.Second

// limitsOf turns the configuration's limits into the catalog's.
func limitsOf(l config.SchemaLimits) catalog.Limits {
	return catalog.Limits{
		SchemaBytes: int(l.Bytes), SchemaDepth: l.Depth, SchemaProperties: l.Properties, OnInvalid: catalog.OnInvalid(l.OnInvalid),
	}
}

// apply takes over a reloaded configuration: servers that changed are started
// again, the others do not notice.
func (e *engine) apply(c *config.Config) {
	e.config.Store(c)
	e.redact.Store(result.NewRedactor(c.Secrets()))
	e.conceal.configure(c)
	e.owners.configure(c)
	e.agents.apply(c)
	e.agents.merge()
}

// settleTimeout is how long a shell command waits for its own upstreams.
const settleTimeout = 30 * time.Second

// settled waits until every upstream has been listed or has failed to start. It
// returns an error where a required one is not there.
func (e *engine) settled(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := e.manager.Ready(bounded); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// requiredReady waits until the servers that are marked required have been
// listed, or one of them has failed. Others are not waited for. Who is waited for
// is told once it takes a while: until then nothing else tells that weir starts.
func (e *engine) requiredReady(ctx context.Context) error {
	required := map[string]bool{}
	for _, s := range e.config.Load().Enabled() {
		required[s.Name] = s.Required
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	told := false
	for {
		var waiting []string
		for _, s := range e.manager.Status() {
			if required[s.Name] && !s.Listed && s.State != upstream.StateFailed {
				waiting = append(waiting, s.Name)
			}
		}
		if !told && len(waiting) > 0 && time.Since(e.started) > time.Second {
			told = true
			e.log.Info("waiting for servers that are required", "servers", waiting)
		}
		if len(waiting) == 0 {
			now, cancel := context.WithCancel(ctx)
			cancel()
			return e.manager.Ready(now)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// closeTimeout is how long upstreams get to end when nobody is in a hurry.
const closeTimeout = 4 * time.Second

// close ends the upstreams, by force after a time, and forgets all results.
func (e *engine) close(within time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	e.firstEnd()
	e.agents.close()
	if err := e.manager.Close(ctx); err != nil {
		e.log.Warn("upstreams did not end by themselves and were killed", "err", err)
	}
	e.agents.disconnect()
	<-e.first
	e.meaning.close()
	e.plane.close()
	e.bodies.close()
	e.state.Close()
	if e.events != nil {
		if err := e.events.Close(); err != nil {
			e.log.Warn("closing the log of events", "err", err)
		}
	}
	if err := e.holdings.close(); err != nil {
		e.log.Warn("closing the store of results", "err", err)
	}
}

// Peer implements gateway.Upstreams.
func (e *engine) Peer(ctx context.Context, name string) (mcp.Peer, error) {
	if f := e.file.Load(); f != nil && f.Name() == name {
		return f, nil
	}
	return e.manager.Peer(ctx, name)
}

// Missing tells the gateway of servers of which nothing is in the catalog.
func (e *engine) Missing() []gateway.Missing { return missing(e.manager, e.live) }

// Snapshot implements gateway.Upstreams.
func (e *engine) Snapshot() *gateway.Snapshot { return e.live.Snapshot() }

// frontOptions say for whom a front is.
type frontOptions struct {
	// shell is a front for a command of this process: always gateway mode.
	shell bool
}

// newFront is the Handler of /mcp under a configuration: the handshake and the
// gateway behind it. Several fronts may share the engine.
func (e *engine) newFront(c *config.Config, o frontOptions) mcp.Handler {
	opts := gateway.Options{
		Upstreams: e, Artifacts: e.holdings.store, Tables: e.tableOptions(c), State: e.state, Turns: e.turns, CallTimeout: callTimeout(e.manager), Logger: e.log,
		Redactor: e.redact.Load(), RedactResults: c.Artifacts.Redact || e.app.redact, OnEvent: e.tell,
		Firewall:      result.Firewall{ThresholdChars: threshold(c.Firewall.ThresholdChars)},
		ExposeHydrate: c.ExposeHydrate || c.Browse.ExposeHydrate,
	}
	controls(c, &opts)
	opts.Cache.Room = e.holdings.pool.Account("cache")
	if c.Browse.Format == config.BrowseJSON {
		opts.Format = result.FormatJSON
	}
	if c.Mode == config.ModeProxy && !o.shell {
		opts.Mode = gateway.ModeProxy
	}
	g := gateway.New(opts)
	e.direct.Store(g)
	return &patient{engine: e, proxy: opts.Mode == gateway.ModeProxy, next: &mcp.Lifecycle{
		ServerInfo: e.app.identity(), Instructions: g.Instructions(), Capabilities: g.Capabilities, Next: telemetry.TraceContext(e.rounds.Wrap(g), streamable.Header),
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

// inherited is the part of an environment that programs get.
func inherited(environ []string) []string {
	return slices.DeleteFunc(slices.Clone(environ), func(pair string) bool {
		name, _, _ := strings.Cut(pair, "=")
		return !slices.ContainsFunc(inheritedNames, func(known string) bool {
			prefix, many := strings.CutSuffix(known, "*")
			return name == known || many && strings.HasPrefix(name, prefix)
		})
	})
}
