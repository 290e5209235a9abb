package gateway

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/metatool"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/part"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Front serves /mcp with the newest configuration of its Apply. Several Fronts may share one Gateway.
//
//	request ─▶ span ─▶ wait for the first catalog ─▶ mcp.Lifecycle ─▶ trace context ─▶ bridge.Rounds ─▶ metatool.Gateway
//	                                                  └ handshake, ping
type Front struct {
	gateway *Gateway
	now     atomic.Pointer[surface]
}

// surface is what a Front serves with one configuration.
type surface struct {
	gateway *Gateway
	tools   *metatool.Gateway
	life    mcp.Lifecycle // for all requests except greetings
}

// NewFront returns a Front. It serves after its first Apply.
func NewFront(g *Gateway) *Front { return &Front{gateway: g} }

// Apply makes a configuration count for requests from now on.
func (f *Front) Apply(c *config.Config) {
	s := &surface{gateway: f.gateway, tools: metatool.New(f.gateway.gatewayOptions(c))}
	s.life = mcp.Lifecycle{ServerInfo: part.Identity(f.gateway.Run.Version), Next: asking{s}}
	f.gateway.Views.judge.Use(s.tools.DirectCalls())
	f.now.Store(s)
}

// Serve implements mcp.Handler.
func (f *Front) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	s := f.now.Load()
	ctx, op := f.gateway.Reports.Trace.Receive(ctx, "", r)
	s.await(ctx, r)
	if r.Modern() {
		upstream.StandsForPrincipal(r.Session)
	}
	life := &s.life
	if r.Method == "initialize" || r.Method == "server/discover" {
		life = s.greeting(ctx)
	}
	result, err := life.Serve(ctx, r)
	op.End(result, err)
	return result, err
}

// await delays a request that reads the catalog until the catalog is filled.
func (s *surface) await(ctx context.Context, r *mcp.Request) {
	if s.gateway.Catalog.filled() {
		return
	}
	if limit := s.limitOf(ctx, r); limit != noWait {
		s.gateway.Catalog.firsts.await(ctx, limit)
	}
}

// limitOf returns how long r may wait. The limit depends on the servers that are not listed yet.
func (s *surface) limitOf(ctx context.Context, r *mcp.Request) startupLimit {
	switch r.Method {
	case "initialize", "server/discover":
		return forShape
	case "tools/list":
		if s.tools.Mode(ctx) != metatool.ModeGateway {
			return forCatalog
		}
		return forShape
	case "resources/list", "resources/templates/list", "prompts/list", "resources/subscribe":
		return forCatalog
	case "tools/call":
	default:
		return noWait
	}
	arguments := r.Fields().Arguments
	id, name := "", rawjson.Text(r.Fields().Name)
	switch name {
	case metatool.ToolBrowse, metatool.ResourceBrowse, metatool.PromptBrowse:
		return forCatalog
	case metatool.ToolExecute, metatool.ToolHydrate:
		id = rawjson.Text(rawjson.Get(arguments, "tool_id"))
	case metatool.ResourceRead:
		id = rawjson.Text(rawjson.Get(arguments, "resource_id"))
	case metatool.PromptGet:
		id = rawjson.Text(rawjson.Get(arguments, "prompt_id"))
	default:
		if s.tools.Mode(ctx) == metatool.ModeGateway || s.tools.Names(ctx, name) {
			return noWait
		}
		return forCatalog
	}
	// An entry that is hidden from the caller is one that does not exist: it takes as long.
	if _, there := s.tools.View(ctx).Catalog.Lookup(id); there {
		return noWait
	}
	return forCatalog
}

// greeting returns the Lifecycle for a request that asks who serves.
func (s *surface) greeting(ctx context.Context) *mcp.Lifecycle {
	life := s.life
	life.Instructions = s.tools.Instructions(ctx)
	life.Capabilities = func(*mcp.Request) json.RawMessage {
		if s.gateway.Catalog.firsts.over() {
			return s.tools.Capabilities(ctx)
		}
		return s.tools.CapabilitiesOfStart(ctx)
	}
	return &life
}

// asking serves the requests behind the handshake. It can ask agents of both eras.
type asking struct{ of *surface }

// Serve implements mcp.Handler.
func (a asking) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	return a.of.gateway.Calls.rounds.Serve(ctx, telemetry.WithTrace(r, streamable.Header(ctx)), a.of.tools)
}

// gatewayOptions returns the options of the gateway for a configuration.
func (g *Gateway) gatewayOptions(c *config.Config) metatool.Options {
	mode, _ := metatool.ParseMode(string(c.Mode)) // the configuration has checked it
	opts := metatool.Options{
		Upstreams: g.Catalog, Artifacts: g.Data.Results, Tables: g.Data.Plane.Options(c), Memory: g.Data.Memory, CallTimeout: callTimeout(g.manager), Logger: g.opts.Logger,
		Caller: callerNow, Configured: configured(g.config.Load, g.manager),
		Redactor: g.secrets.Redactor(), RedactResults: c.Artifacts.Redact || g.opts.RedactResults, OnEvent: g.Catalog.tell, Audit: g.Auditor.Calls(), Mode: mode, AutoTokens: c.AutoTokens,
		Firewall:      result.Firewall{ThresholdChars: threshold(c.Firewall.ThresholdChars)},
		ExposeHydrate: c.ExposeHydrate || c.Browse.ExposeHydrate, CheckHeaders: checkHeaders,
	}
	if c.Console.Capture {
		opts.Capture = observe.Capture(opts.Redactor)
	}
	opts.Own, opts.Await, opts.Learned = g.Catalog.own(c), g.Catalog.await, g.Catalog.ranking.Learned()
	policy.Controls(c, &opts)
	g.Calls.configure(c, &opts)
	opts.Screen = definitions.ScreenOf(c)
	opts.Leaks = policy.Leaks(c, g.secrets.Tokens())
	opts.Operators.Room = g.Operator.Approvals
	opts.Cache.Room = g.Data.Memory.Account("cache")
	if c.Browse.Format == config.BrowseJSON {
		opts.Format = result.FormatJSON
	}
	return opts
}
