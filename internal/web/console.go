package web

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"

	"github.com/weir-mcp/weir/internal/artifact"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/dataplane"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/office"
	"github.com/weir-mcp/weir/internal/policy/definitions"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/search"
	"github.com/weir-mcp/weir/internal/web/api"
	"github.com/weir-mcp/weir/internal/web/console"
	"github.com/weir-mcp/weir/s2sp/table"
)

// mountConsole serves /console unless the configuration disables it.
func mountConsole(mux *http.ServeMux, open *guard.Guard, c *config.Config) {
	if !c.Console.Enabled {
		return
	}
	page := http.HandlerFunc(console.New().Page)
	mux.Handle(console.Path, open.Wrap(page))
	mux.Handle(console.Path+"/", open.Wrap(page))
}

// A viewed implements the interfaces of api.Look on a Server.
type viewed struct {
	gateway *gateway.Gateway
	server  *Server
}

var (
	_ api.Gateway   = (*viewed)(nil)
	_ api.Catalog   = (*viewed)(nil)
	_ api.Artifacts = (*viewed)(nil)
)

// Overview implements api.Gateway.
func (s *viewed) Overview(ctx context.Context) api.Overview {
	h := s.gateway.Health()
	s.gateway.Views.Hide(ctx, h)
	n := s.gateway.Views.Of(ctx).Catalog.Kinds()
	stats := s.gateway.Reports.Usage.Stats(ctx)
	out := api.Overview{
		Name: h.Name, Version: h.Version, Status: h.Status, Mode: h.Mode, Uptime: h.Uptime,
		Tools: n[primitive.KindTool], Resources: n[primitive.KindResource] + n[primitive.KindTemplate], Prompts: n[primitive.KindPrompt],
		Usage: usageOf(&stats, !s.gateway.Views.SeesAll(ctx)),
	}
	seen := s.gateway.Views.Of(ctx).Catalog
	for _, u := range h.List() {
		cards := 0
		for _, e := range seen.Of(u.Name) {
			if e.Kind == primitive.KindTool {
				cards += e.Card.Tokens
			}
		}
		out.Upstreams = append(out.Upstreams, api.Upstream{
			Name: u.Name, State: u.State, Transport: u.Transport, Server: u.Server, Version: u.Version, Protocol: u.Protocol,
			Tools: u.Tools, Resources: u.Resources, Prompts: u.Prompts, Calls: u.Calls, Errors: u.Errors, InFlight: u.InFlight, Restarts: u.Restarts,
			Error: cmp.Or(u.Error, u.Note), Since: u.Since, Namespace: u.Namespace, Pid: u.Pid, Differs: u.Differs, Held: u.Held, CardTokens: cards,
		})
	}
	return out
}

// usageOf returns the usage of statistics. own says that they are only of the viewer's sessions.
func usageOf(s *usage.Stats, own bool) api.Usage {
	return api.Usage{
		Own: own, Sessions: len(s.Sessions), Calls: s.Total.Calls, Failed: s.Total.Failed,
		Read: s.Total.Tokens.Read, Raw: s.Total.Tokens.Raw, Pending: s.Total.Pending,
	}
}

// SeesAll implements api.Gateway.
func (s *viewed) SeesAll(ctx context.Context) bool { return s.gateway.Views.SeesAll(ctx) }

// Offices implements api.Gateway. The members, which are of all principals, are for viewers who see all
// callers. Others see the Computers of which something exists for them.
func (s *viewed) Offices(ctx context.Context) *api.Offices {
	o := s.gateway.Offices
	if o == nil {
		return nil
	}
	out := &api.Offices{}
	if h := o.Health(); h != nil {
		out.Hub = true
		if !s.gateway.Views.SeesAll(ctx) {
			h = &office.Health{}
		}
		out.Connections = h.Connections
		for _, m := range h.Members {
			out.Members = append(out.Members, api.Member{
				Office: m.Office, Name: m.Name, Role: string(m.Role), Dialect: m.Dialect, Principal: m.Principal,
				Transport: m.Transport, Since: m.Since, InFlight: m.InFlight, Proven: m.Proven,
			})
		}
	}
	health := s.gateway.Health()
	known := maps.Clone(health.Upstreams)
	s.gateway.Views.Hide(ctx, health)
	for _, f := range o.Fleets() {
		out.Computers = append(out.Computers, computers(f, known, health.Upstreams)...)
	}
	return out
}

// routes is the part of a Fleet that lists names: "desk" is a Computer, "desk.excel" one of its
// servers.
type routes interface {
	Names() []string
	Resolve(name string) (upstreamName string, whole, ok bool)
}

// computers lists the Computers of a Fleet. A server of known that is not in seen is left out, and so is
// a Computer that has no other ones.
func computers(f routes, known, seen map[string]gateway.UpstreamHealth) []api.Computer {
	byName, hidden := map[string]*api.Computer{}, map[string]bool{}
	for _, name := range f.Names() { // sorted, so a Computer comes before its servers
		target, whole, ok := f.Resolve(name)
		if !ok {
			continue // it left in the meantime
		}
		host, server, ofKnown := hostOf(name, byName)
		if !ofKnown {
			byName[name] = &api.Computer{Name: name}
			if whole {
				continue // its servers are listed one by one
			}
			host, server = name, name
		}
		u, visible := seen[target]
		if _, exists := known[target]; exists && !visible {
			hidden[host] = true
			continue
		}
		byName[host].Servers = append(byName[host].Servers, api.ComputerServer{Name: server, Upstream: target, State: u.State, Tools: u.Tools})
	}
	out := make([]api.Computer, 0, len(byName))
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if len(byName[name].Servers) > 0 || !hidden[name] {
			out = append(out, *byName[name])
		}
	}
	return out
}

// hostOf splits the name of a server of a known Computer.
func hostOf(name string, known map[string]*api.Computer) (host, server string, ok bool) {
	for i := range name {
		if name[i] == '.' && known[name[:i]] != nil {
			host, server, ok = name[:i], name[i+1:], true
		}
	}
	return host, server, ok
}

// Search implements api.Catalog.
func (s *viewed) Search(ctx context.Context, kind primitive.Kind, query string, n int) []catalog.Card {
	return s.gateway.Catalog.Ranking().Search(ctx, s.gateway.Views.Of(ctx), kind, query, n)
}

// Children implements api.Catalog.
func (s *viewed) Children(ctx context.Context, kind primitive.Kind, path string) ([]catalog.Card, error) {
	return s.gateway.Views.Of(ctx).Catalog.ChildrenOf(kind, path)
}

// Why implements api.Catalog.
func (s *viewed) Why(ctx context.Context, query string, e *catalog.Entry) search.Explanation {
	return s.gateway.Catalog.Ranking().Why(ctx, s.gateway.Views.Of(ctx), query, e)
}

// Setup implements api.Gateway.
func (s *viewed) Setup(context.Context) api.Setup {
	tokens := s.gateway.Config().Auth.Required()
	out := api.Setup{URL: s.server.publicURL(), Config: s.gateway.Health().Config, Lock: s.gateway.Definitions.Status().Path, Tokens: tokens, Snippets: []api.Snippet{}}
	for _, one := range snippets(out.URL, tokens) {
		out.Snippets = append(out.Snippets, api.Snippet{Client: one.Name, Where: one.Where, Text: one.Text})
	}
	return out
}

// Entry implements api.Catalog.
func (s *viewed) Entry(ctx context.Context, id string) (e *catalog.Entry, path string, ok bool) {
	c := s.gateway.Views.Of(ctx).Catalog
	if e, ok = c.Lookup(id); ok {
		path, _ = c.Path(id)
	}
	return e, path, ok
}

// List implements api.Artifacts.
func (s *viewed) List(principal string) []artifact.Held {
	return s.gateway.Data.Results.List(principal)
}

// viewChars bounds one view; it leaves room for the notice.
const viewChars = 64_000

// View implements api.Artifacts.
func (s *viewed) View(ctx context.Context, principal, handle string, selector json.RawMessage) (api.Excerpt, error) {
	lease, err := s.gateway.Data.Results.Open(ctx, principal, handle)
	if err != nil {
		return api.Excerpt{}, err
	}
	defer lease.Close()
	ctx, scope := memory.WithScope(ctx)
	defer scope.End()
	scope.Count(s.gateway.Data.Memory, "principal ", principal)
	hold := s.gateway.Data.Memory.Hold("principal ", principal)
	defer hold.Release()
	v, err := result.Select(ctx, lease, selector, s.viewOptions(&hold))
	if err != nil {
		return api.Excerpt{}, err
	}
	return api.Excerpt{Text: s.gateway.Data.Kept.Shown(v.Text), Notice: v.Notice, Matched: v.Matched}, nil
}

// viewOptions bound a view whose bytes hold has.
func (s *viewed) viewOptions(hold *memory.Hold) result.ViewOptions {
	return result.ViewOptions{MaxChars: viewChars, Turns: s.gateway.Calls.Turns, Room: result.Room(hold), Screen: definitions.ScreenOf(s.gateway.Config())}
}

// Open implements api.Artifacts.
func (s *viewed) Open(ctx context.Context, principal, handle string) (api.Kept, error) {
	kept, err := s.gateway.Data.Kept.Open(ctx, principal, handle)
	if err != nil {
		return nil, err // no Kept that is nil inside
	}
	pool := s.gateway.Data.Memory
	return &opened{kept, s, pool.Hold("principal ", principal), pool.Hold("principal ", principal)}, nil
}

// opened implements api.Kept.
type opened struct {
	*dataplane.KeptResult
	s    *viewed
	rows memory.Hold // of the result of Rows
	file memory.Hold // of the writing of it
}

// Close implements api.Kept.
func (o *opened) Close() {
	o.rows.Release()
	o.file.Release()
	o.KeptResult.Close()
}

// Content implements api.Kept.
func (o *opened) Content() (mediaType string, data []byte) { return o.MediaType, o.Data }

// Grow implements api.Kept.
func (o *opened) Grow(bytes int64) error { return result.Room(&o.file)(bytes) }

// Rows implements api.Kept.
func (o *opened) Rows(ctx context.Context, selector json.RawMessage) (table.View, error) {
	return result.Rows(ctx, o.Artifact, o.Data, o.Table, selector, o.s.viewOptions(&o.rows))
}
