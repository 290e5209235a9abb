package gateway

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/config"
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
	s.life = mcp.Lifecycle{ServerInfo: part.Identity(f.gateway.Version), Next: asking{s}}
	f.gateway.Views.judge.Use(s.tools.DirectCalls())
	f.now.Store(s)
}

// Serve implements mcp.Handler.
func (f *Front) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	s := f.now.Load()
	ctx, op := f.gateway.Trace.Receive(ctx, "", r)
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
	return a.of.gateway.rounds.Serve(ctx, telemetry.WithTrace(r, streamable.Header(ctx)), a.of.tools)
}

// gatewayOptions returns the options of the gateway for a configuration.
func (g *Gateway) gatewayOptions(c *config.Config) metatool.Options {
	mode, _ := metatool.ParseMode(string(c.Mode)) // the configuration has checked it
	opts := metatool.Options{
		Upstreams: g.Catalog, Artifacts: g.Data.Results, Tables: g.Data.Plane.Options(c), State: g.state, Turns: g.Turns, Memory: g.Data.Memory, CallTimeout: callTimeout(g.manager), Logger: g.log,
		Caller: callerNow, Configured: configured(g.config.Load, g.manager),
		Redactor: g.secrets.Redactor(), RedactResults: c.Artifacts.Redact || g.opts.RedactResults, OnEvent: g.Catalog.tell, Audit: g.Auditor.Calls(), Mode: mode, AutoTokens: c.AutoTokens,
		Firewall:      result.Firewall{ThresholdChars: threshold(c.Firewall.ThresholdChars)},
		ExposeHydrate: c.ExposeHydrate || c.Browse.ExposeHydrate, CheckHeaders: checkHeaders,
	}
	if c.Console.Capture {
		opts.Capture = observe.Capture(opts.Redactor)
	}
	opts.Own = g.Catalog.own(c)
	policy.Controls(c, &opts)
	opts.Programs = g.programs.Runner(c)
	opts.Screen = definitions.ScreenOf(c)
	opts.Leaks, opts.Hooks = policy.Leaks(c, g.secrets.Tokens()), g.hooks.Configure(c)
	opts.Operators.Room = g.Operator.Approvals
	opts.Cache.Room = g.Data.Memory.Account("cache")
	if c.Browse.Format == config.BrowseJSON {
		opts.Format = result.FormatJSON
	}
	return opts
}
