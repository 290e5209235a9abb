package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/audit"
	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/cluster/peerlink"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dataplane"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/metatool/ranking"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/store/nodestore"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/upstream"
	registry "github.com/weir-mcp/weir/internal/upstream/agents"
	"github.com/weir-mcp/weir/internal/upstream/confined"
	"github.com/weir-mcp/weir/internal/upstream/credentials"
	"github.com/weir-mcp/weir/internal/upstream/lineage"
	"github.com/weir-mcp/weir/internal/upstream/listings"
	"github.com/weir-mcp/weir/internal/upstream/membership"
	"github.com/weir-mcp/weir/internal/upstream/placement"
	"github.com/weir-mcp/weir/mcp/streamable"
	"github.com/weir-mcp/weir/s2sp/plane"
)

// A Gateway is a gateway without a transport: the upstreams, their catalog and the result store.
// weir serve and package weir serve it over HTTP or standard input, shell commands over an
// in-process pipe.
//
//	config ─▶ upstream.Manager ─▶ catalog.Live (snapshot) ─▶ metatool.Gateway ─▶ mcp.Lifecycle
//	              ▲ Reload                                          └─▶ artifact.Local ◀─ Plane
//
// The exported fields are set by New and never change.
type Gateway struct {
	Run      Run
	Store    *nodestore.Store
	Reports  *observe.Reports
	Data     *dataplane.Data // the way of results past the model
	Calls    *Calls
	Offices  *office.Offices // nil in a shell command, or if no hub is configured
	Operator *Operator
	Catalog  *Catalog
	Agents   *membership.Agents
	Views    *Views
	SignIns  *credentials.SignIns
	Auditor  *trail.Auditor // tells the audit log, if there is one
	// Definitions compares what servers offer with weir.lock.
	Definitions *definitions.Lock

	opts       Options
	config     atomic.Pointer[config.Config]
	secrets    *policy.Secrets
	manager    *upstream.Manager
	placement  *placement.Placement
	nodeRoutes peerlink.Routes

	parts part.Table
}

// Run identifies one run of a gateway.
type Run struct {
	Version  string
	Instance string
	Started  time.Time
}

// Options are the settings of a Gateway that are not in its configuration.
type Options struct {
	Version string
	Logger  *slog.Logger
	// Environ is the environment of this process. Server programs inherit only a small part of it:
	// see lineage.InheritedNames.
	Environ []string
	// Lineage tells server programs which weir processes started them.
	Lineage lineage.Lineage
	// RedactResults removes secrets from results even if the configuration does not ask for it.
	RedactResults bool
	// Events receives one line per event; nil discards events. The Gateway closes it.
	Events *telemetry.EventLog
	// Audit is the audit log; nil is none. The Gateway closes it.
	Audit *audit.Log
	// Store keeps what outlasts a request; nil is a store in memory. The Gateway closes it.
	Store *nodestore.Store
	// Credentials keeps the tokens of sign-ins at servers; nil keeps them as long as the Gateway.
	Credentials vault.Store
	// Tokens gets the tokens of sign-ins while they are in use, to remove them from texts; see
	// [Log.Tokens]. Nil is a set of the Gateway's own.
	Tokens *redact.Recent
	// File holds entries that are served in addition to the upstreams'; may be nil.
	File *metatool.SnapshotFile
	// OperatorKey is shown by callers on this machine who may operate the gateway; "" admits none.
	OperatorKey identity.Secret
	// Shell is set for the gateway of a single shell command: it has no offices and no embeddings.
	Shell bool
	// Lesson is told what the programs of servers with a sandbox touch, and they run without walls; nil builds their walls.
	Lesson *confined.Lesson
}

// startsAtOnce bounds the programs that start at the same time. Fifty starts of npx at once take
// longer than a few after each other, and none of them would answer in time.
const startsAtOnce = 12

// New starts the upstreams of a configuration without waiting for them. The caller must close the
// Gateway. An error of type *SetupError says what the operator must change.
func New(ctx context.Context, c *config.Config, o Options) (*Gateway, error) {
	if o.Store == nil {
		o.Store = nodestore.Memory(o.Logger)
	}
	g, err := build(c, o)
	if err != nil {
		if o.Events != nil {
			err = errors.Join(err, o.Events.Close())
		}
		o.Audit.Close()
		o.Store.Close()
		return nil, err
	}
	g.start(c)
	if o.Shell {
		return g, nil
	}
	g.Catalog.serveFile(o.File)
	g.Definitions.Start(c)
	g.Catalog.ranking.Start(g.Catalog.live)
	if g.Offices, err = office.Open(ctx, c, g.officeNeeds()); err != nil {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), part.CloseTimeout)
		defer cancel()
		g.Close(closing)
		return nil, err
	}
	return g, nil
}

// build returns a gateway without starting anything.
func build(c *config.Config, o Options) (*Gateway, error) {
	log := o.Logger
	secrets := policy.NewSecrets(c, o.Tokens)
	state, kept, err := restore(o.Store, log)
	if err != nil {
		return nil, err
	}
	g := &Gateway{Run: Run{o.Version, rand.Text(), time.Now()}, Store: o.Store, Calls: newCalls(o.Store, state, log), opts: o, secrets: secrets}
	g.config.Store(c)
	redactResults := func() bool { return g.config.Load().Artifacts.Redact || o.RedactResults }
	judge := policy.NewJudge(policy.JudgeNeeds{
		Server:    func(name string) (*upstream.Upstream, bool) { return g.manager.Upstream(name) },
		Computers: func(name string) iter.Seq2[string, string] { return g.Offices.Servers(name) },
	})
	redact := func(raw []byte) []byte { return secrets.Redactor().Results(raw) }
	g.Auditor = trail.New(o.Audit, c, trail.Needs{Redact: redact, Server: judge.ServerOf, Catalog: func(ctx context.Context) *catalog.Catalog { return g.Views.whole(ctx).Catalog }})
	g.Data, err = dataplane.Open(c, dataplane.Needs{
		Log: log, Config: g.config.Load, Store: o.Store, Redactor: secrets.Redactor, Redacts: redactResults, Audited: g.Auditor.Fetches,
		Agents: func() []plane.Peer { return g.Agents.Peers() }, AgentURL: func(name string) string { return g.Agents.URL(name) }, TakeBody: state.TakeBody,
	})
	if err != nil {
		return nil, err
	}
	if err := g.connect(c, judge, kept, redactResults); err != nil {
		return nil, errors.Join(err, g.Data.Close())
	}
	return g, nil
}

// connect makes the parts that stand on Data, and connects them.
func (g *Gateway) connect(c *config.Config, judge *policy.Judge, kept *registry.Kept, redactResults func() bool) (err error) {
	o, log, secrets, state := &g.opts, g.opts.Logger, g.secrets, g.Calls.state
	searches, err := ranking.New(c, ranking.Needs{
		Vectors: o.Store.Documents(), Docs: o.Store.Docs(), Secret: o.Store.Key().Secret("searches"), Log: log, Redact: func(s string) string { return secrets.Redactor().Redact(s) },
	})
	if err != nil {
		return err
	}
	offices := func() *office.Offices { return g.Offices }
	g.Catalog = &Catalog{firsts: newFirstListings(), ranking: searches, owners: membership.NewOwners(c, log), state: state, config: g.config.Load, offices: offices, clean: secrets.Clean, log: log}
	g.Views = &Views{catalog: g.Catalog, agents: func() *membership.Agents { return g.Agents }, judge: judge, config: g.config.Load, health: g.Health, redact: func() func([]byte) []byte {
		if redactResults() {
			return g.secrets.Redactor().Results
		}
		return func(raw []byte) []byte { return raw }
	}}
	g.Reports = observe.NewReports(observe.ReportNeeds{
		Log: log, Version: g.Run.Version, Instance: g.Run.Instance, Clean: secrets.Clean, Totals: g.totals(), Events: o.Events, Stream: o.Store.Sink(), Audit: g.Auditor.Event,
		Usage: &observe.Usage{State: state, Node: g.Store.Node(), All: g.Views.SeesAll, Log: log},
	})
	g.Catalog.tell = g.Reports.Tell
	g.Catalog.live = catalog.NewLive(metatool.NewSnapshotWith(limitsOf(c, g.config.Load), searches.Options()), catalog.LiveOptions[*metatool.Snapshot]{
		Prepare: searches.Prepare, Conceal: g.secrets.Listing, Logger: log,
		Changed: func(s *metatool.Snapshot, upstreams []string) {
			if s.Catalog.Len() > 0 {
				g.Catalog.firsts.found()
			}
			g.Catalog.refreshed(s.Catalog, upstreams)
			searches.Changed()
		},
	})
	servers := func() *upstream.Manager { return g.manager }
	g.Catalog.listings, err = listings.New(listings.Needs{
		Log: log, Config: g.config.Load, Docs: o.Store.Docs(), Key: o.Store.Key().Secret("listings"), Servers: servers, Next: func() upstream.Sink { return g.Definitions },
		Remote: placement.Remote, Restore: state.Restore, Conceal: secrets.Listing, Limits: func(c *config.Config) catalog.Limits { return limitsOf(c, g.config.Load) }, Unshared: o.Store.CountUnshared,
	})
	if err != nil {
		return err
	}
	g.Definitions = definitions.New(c, definitions.Needs{
		Log: log, Config: g.config.Load, Servers: servers, Sink: g.Catalog.live, First: g.Catalog.listings.First,
		Catalog: func() *catalog.Catalog { return g.Catalog.Snapshot().Catalog }, Places: judge.Places, Tell: g.Catalog.tell, Conceal: secrets.Listing, Clean: secrets.Clean, Shell: o.Shell,
	})
	g.Operator = newOperator(g)
	g.placement = placement.New(placement.Needs{Node: o.Store.Node(), Docs: o.Store.Docs(), Log: log})
	g.Agents, err = membership.New(c, membership.Needs{
		Log: log, Config: g.config.Load, Owners: g.Catalog.owners, Store: o.Store, Kept: kept, Shell: o.Shell, Servers: servers, Place: g.placement.Servers.Place,
	})
	if err != nil {
		return err
	}
	g.SignIns = credentials.New(credentials.Audited(o.Credentials, o.Audit), g.config.Load, g.secrets.Tokens().Add, log)
	g.manager = upstream.New(upstream.Options{
		Logger: log, Transport: func(name string, of upstream.Owner, base http.RoundTripper) http.RoundTripper {
			return g.SignIns.Over(g.Agents.Transport)(name, of, base)
		}, Way: g.placement.Servers.Way, Credentials: g.SignIns, BaseEnv: lineage.Inherited(o.Environ), ClientInfo: part.Identity(o.Version), Sink: g.Catalog.listings, Observer: g.Reports.Metrics, Failed: g.Operator.noteFailed, Trace: g.Reports.Trace,
		Marks: o.Lineage.Variable(), Instances: o.Lineage.Instances(),
		ListsChanged: func(principal, _ string) { state.ListsChanged(principal) },
		Conceal:      g.secrets.Listing, Judge: g.Definitions.Judge, States: bridge.NewMarks(states(o.Store)), Places: g.placement.Programs.ForManager(),
		Redact: g.secrets.Clean, Hold: g.secrets.Tokens().Hold, Confine: g.Operator.Sandboxes.Confine, Log: g.Operator.Log, StopGrace: StopGrace, Memory: g.Data.Memory, Starting: startsAtOnce,
	})
	for _, needs := range []**upstream.Manager{&g.Catalog.manager, &g.Views.manager, &g.Operator.manager} {
		*needs = g.manager // which was made of them
	}
	g.placement.Serve(placement.Serving{Manager: g.manager, Memory: g.Data.Memory, MaxBody: 2 * int64(c.HTTP.MaxBodyBytes), Changed: g.Agents.Merge})
	g.nodeRoutes = slices.Concat(g.Data.Routes(), g.placement.Routes(), peerlink.Routes{
		g.Operator.Elsewhere.Route(), g.Reports.Usage.Route(), {Path: tasks.PeerPath, Serve: tasks.Answer(g.Catalog.taskPeer)},
	})
	g.Calls.run(c, o.Store, g.Data, lineage.Inherited(o.Environ), func(raw []byte) []byte { return secrets.Redactor().Results(raw) }, log)
	g.parts = g.table()
	return nil
}

// start starts the upstreams and the background work.
func (g *Gateway) start(c *config.Config) {
	g.Reports.History.KeepExchanges(c.Console.Capture)
	for _, s := range c.Servers {
		if reason := c.Omitted(s.Name); reason != "" {
			g.opts.Logger.Info(reason)
		}
	}
	g.Agents.Start(c)
	g.Agents.Merge()
	g.Calls.programs.List(c, g.Definitions)
	g.Catalog.listings.Fill()
	g.Catalog.listings.Start()
	g.Auditor.Configured(c, nil)
	if !g.opts.Shell { // it would wait for the collector
		g.Reports.Send(c)
	}
	g.Catalog.firsts.follow(func(ctx context.Context) {
		_ = g.manager.Ready(ctx) // Gateway.Ready reports the error of required servers
		g.Catalog.event(telemetry.CatalogLoaded, g.Catalog.Snapshot().Catalog, "", nil)
		g.Catalog.check(g.Catalog.Snapshot().Catalog, true)
	})
}

// officeNeeds returns what the offices stand on.
func (g *Gateway) officeNeeds() office.Needs {
	return office.Needs{
		Version: g.Run.Version, Log: g.opts.Logger, Config: g.config.Load, Memory: g.Data.Memory, Trace: g.Reports.Trace, Servers: g.manager, Names: &g.Catalog.owners.Ledger, Claim: g.Catalog.owners.Computer,
		Node: g.Store.Node(), Store: g.Store, Docs: g.Store.Docs(), Cluster: g.Store.Cluster(),
	}
}

// Config returns the current configuration.
func (g *Gateway) Config() *config.Config { return g.config.Load() }

// Upstreams returns the names of the servers.
func (g *Gateway) Upstreams() []string { return g.manager.Names() }

// StopGrace is how long a program may take to exit after its standard input is closed, and again
// after SIGTERM. Both fit into CloseTimeout.
const StopGrace = time.Second

// limitsOf returns the limits of a configuration on what servers list, with the overrides of the present one.
func limitsOf(c *config.Config, present func() *config.Config) catalog.Limits {
	l := c.SchemaLimits
	return catalog.Limits{
		SchemaBytes: int(l.Bytes), SchemaDepth: l.Depth, SchemaProperties: l.Properties, OnInvalid: catalog.OnInvalid(l.OnInvalid), Strict: c.Strict,
		Overrides: definitions.NewOverrides(present).Of,
	}
}

// settleTimeout is how long a shell command waits for the upstreams that it started.
const settleTimeout = 30 * time.Second

// Settled waits until every upstream has been listed or has failed. It returns an error if a
// required upstream failed.
func (g *Gateway) Settled(ctx context.Context) error {
	bounded, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	if err := g.manager.Ready(bounded); err != nil && ctx.Err() == nil {
		return err
	}
	return ctx.Err()
}

// longWait is the time after which Ready logs the servers that it waits for. Without that line, a
// slow start would look like a hang.
const longWait = time.Second

// Ready waits until all servers marked required have been listed, or one of them has failed. It
// does not wait for others. If a required server is not available, the error names it.
func (g *Gateway) Ready(ctx context.Context) error {
	g.placement.Servers.Known(ctx, g.config.Load())
	waiting := map[string]<-chan struct{}{}
	g.manager.Each(func(s *config.Server, u *upstream.Upstream) {
		if s.Required && u != nil {
			waiting[s.Name] = u.Settled()
		}
	})
	long := time.NewTimer(longWait - time.Since(g.Run.Started))
	defer long.Stop()
	for _, name := range slices.Sorted(maps.Keys(waiting)) {
		for done := false; !done; {
			select {
			case <-waiting[name]:
				done = true
			case <-long.C:
				g.opts.Logger.Info("waiting for servers that are required", "servers", open(waiting))
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	now, cancel := context.WithCancel(ctx)
	cancel()
	return g.manager.Ready(now)
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

// Close leaves the offices, stops the upstreams, killing them when ctx ends, and discards all
// results. No calls may be in flight.
func (g *Gateway) Close(ctx context.Context) { g.parts.Close(ctx) }

// callerNow is the Caller of metatool.Options.
func callerNow(ctx context.Context) (context.Context, error) {
	id, err := guard.Again(ctx)
	if err != nil {
		return nil, err
	}
	return identity.With(ctx, id), nil
}

// configured returns the Configured of metatool.Options.
func configured(now func() *config.Config, m *upstream.Manager) func(name string) any {
	return func(name string) any {
		if s, ok := now().Server(name); ok { // of a server of the cluster, all nodes have this one
			return s
		}
		if u, ok := m.Upstream(name); ok {
			return u.Config()
		}
		return nil
	}
}

// checkHeaders compares the Mcp-Param-* headers of a request by HTTP with its arguments. A schema
// that asks for impossible headers asks for none.
func checkHeaders(ctx context.Context, inputSchema, params json.RawMessage) error {
	h := streamable.Header(ctx)
	if h == nil {
		return nil
	}
	headers, err := streamable.ParseParamHeaders(inputSchema)
	if err != nil {
		return nil
	}
	return headers.Check(h, params)
}

// callTimeout returns a function from an upstream's name to its call timeout.
func callTimeout(m *upstream.Manager) func(name string) time.Duration {
	return func(name string) time.Duration {
		u, ok := m.Upstream(name)
		if !ok {
			return 0
		}
		return u.CallTimeout()
	}
}

// threshold converts firewall.threshold_chars. In the configuration zero holds every result back;
// in metatool.Firewall zero means the default.
func threshold(chars int) int {
	if chars == 0 {
		return -1
	}
	return chars
}
