package gateway

import (
	"context"
	"slices"
	"sync"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/metatool/ranking"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/runs"
)

// table returns the parts of a gateway, in the order in which a reload reaches them. They end in the
// reverse order.
func (g *Gateway) table() part.Table {
	var spans sync.WaitGroup // of the end of trace, which takes its time while the servers end
	return part.Table{
		{Name: "spans", Close: func(context.Context) { spans.Wait() }},
		{Name: "store", Keys: part.AtRestart("store", "cluster"), Close: func(context.Context) { g.Store.Close() }},
		{Name: "log", Keys: []part.Key{{Name: "log", Late: "log.format", Split: func(c *config.Config) (live, late any) {
			return []any{c.Log.Level, c.Log.Unredacted}, c.Log.Format
		}}}},
		{Name: "results", Keys: slices.Concat(part.AtRestart("limits"), []part.Key{artifactsKey}), Close: func(context.Context) {
			if err := g.Data.Close(); err != nil {
				g.opts.Logger.Warn("the store of results could not be closed", "err", err)
			}
		}},
		{Name: "events", Keys: part.AtRestart("events"), Close: g.Reports.Close},
		{Name: "audit", Keys: part.AtRestart("audit"), Prepare: g.Auditor.Prepare, Close: func(context.Context) { g.Auditor.Close() }},
		{Name: "configuration", Keys: part.AtOnce("$schema", "inputs", "registry"), Prepare: func(r part.Reload) (func(), error) {
			return func() { g.use(r.Next) }, nil
		}},
		{Name: "sessions", Close: func(ctx context.Context) { g.Calls.state.Close(ctx) }},
		{Name: "bodies", Close: func(context.Context) { g.Data.Bodies.Close() }},
		{Name: "tables", Keys: part.AtOnce("s2sp"), Close: func(context.Context) { g.Data.Plane.Close() }},
		{Name: "calls", Keys: callKeys, Close: g.Calls.closeHooks},
		{Name: "programs", Keys: []part.Key{runs.ProgramsKey}, Prepare: func(r part.Reload) (func(), error) {
			return g.Calls.programs.Prepare(r, g.Definitions), nil
		}, Close: func(ctx context.Context) { g.Calls.programs.Close(ctx) }},
		{Name: "ranking", Keys: []part.Key{ranking.Key}, Prepare: func(r part.Reload) (func(), error) {
			return g.Catalog.ranking.Configure(r), nil
		}, Close: func(ctx context.Context) { g.Catalog.ranking.Close(ctx) }},
		{Name: "catalog", Keys: part.AtRestart("schema_limits"), Close: func(context.Context) { <-g.Catalog.firsts.all }},
		{Name: "sign-ins", Keys: part.AtRestart("credentials"), Close: func(ctx context.Context) {
			if err := g.SignIns.Close(ctx); err != nil {
				g.opts.Logger.Error("tokens are lost, because they cannot be stored: their servers may need another sign-in", "err", err)
			}
		}},
		{Name: "listings", Close: func(context.Context) { g.Catalog.listings.Close() }},
		{Name: "ownership", Prepare: func(r part.Reload) (func(), error) {
			return func() { g.Catalog.owners.Configure(r.Next) }, nil
		}},
		{Name: "agents' connections", Keys: []part.Key{agentsKey}, Prepare: g.Agents.Prepare, Close: func(context.Context) { g.Agents.Disconnect() }},
		{Name: "upstreams", Keys: part.AtOnce("mcpServers"), Prepare: func(part.Reload) (func(), error) { return g.Agents.Merge, nil }, Close: func(ctx context.Context) {
			if err := g.manager.Close(ctx); err != nil {
				g.opts.Logger.Warn("upstreams did not end by themselves and were killed", "err", err)
			}
		}},
		{Name: "definitions", Keys: part.AtOnce("trust"), Prepare: g.Definitions.Prepare, Close: func(context.Context) { g.Definitions.Close() }},
		{Name: "placement", Close: func(ctx context.Context) { g.placement.Close(ctx) }},
		{Name: "agents", Close: func(context.Context) { g.Agents.Close() }},
		{Name: "trace", Keys: part.AtOnce("otlp"), Prepare: func(r part.Reload) (func(), error) {
			return func() { g.Reports.Send(r.Next) }, nil
		}, Close: func(ctx context.Context) {
			spans.Go(func() { g.Reports.Trace.Close(ctx) })
			spans.Go(func() { g.Reports.Export.Close(ctx) })
		}},
		{Name: "first listings", Close: func(context.Context) { g.Catalog.firsts.end() }},
		{Name: "offices", Keys: slices.Concat(part.AtRestart("hubs"), []part.Key{office.HubKey}), Prepare: func(r part.Reload) (func(), error) {
			return g.Offices.Prepare(r)
		}, Close: func(ctx context.Context) { g.Offices.Close(ctx) }},
		{Name: "last listings", Close: func(context.Context) { g.Catalog.listings.Ending() }},
		{Name: "faces", Keys: slices.Concat(part.AtOnce("auth", "public_url", "console", "cards"), part.AtRestart("listen", "tls"), []part.Key{httpKey})},
	}
}

// use puts a configuration in the place of the one before.
func (g *Gateway) use(c *config.Config) {
	g.config.Store(c)
	g.secrets.Configure(c)
	g.Reports.History.KeepExchanges(c.Console.Capture)
}

// Keys of which some settings apply at once. The others configure objects that are made at the start.
var (
	artifactsKey = part.Key{Name: "artifacts", Late: "artifacts.dir, ttl, max_bytes, max_count, memory_bytes, disk_bytes and backup", Split: func(c *config.Config) (live, late any) {
		rest := c.Artifacts
		rest.TokenTTL, rest.Redact = 0, false
		return []any{c.Artifacts.TokenTTL, c.Artifacts.Redact}, rest
	}}
	agentsKey = part.Key{Name: "agents", Late: "agents.routing, agents.lease and agents.max", Split: func(c *config.Config) (live, late any) {
		a := c.Agents
		return []any{a.Invocation, a.Limits, a.PerAgent}, []any{a.Routing, a.Lease, a.Max}
	}}
	httpKey = part.Key{Name: "http", Late: "http.max_body_bytes, max_sessions, session_idle and keep_alive", Split: func(c *config.Config) (live, late any) {
		rest := c.HTTP
		rest.AllowedHosts, rest.AllowedOrigins = nil, nil
		return []any{c.HTTP.AllowedHosts, c.HTTP.AllowedOrigins}, rest
	}}
)

// callKeys are the keys of the calls at /mcp and /mcps. Faces put them in force with a new front.
var callKeys = append(part.AtOnce(
	"mode", "auto_tokens", "firewall", "browse", "proxy", "expose_hydrate", "tolerant_args", "policy", "profiles", "rate_limits", "cache", "retry", "tasks", "pin", "guards", "cache_stable", "flow",
), part.Key{Name: "strict", Late: "strict, as far as lists and paths of the catalog", Split: func(c *config.Config) (live, late any) { return c.Strict, c.Strict }})

// CheckProgram is the value of config.Options.CheckProgram.
func CheckProgram(p *config.SavedProgram) error { return runs.CheckProgram(p) }
