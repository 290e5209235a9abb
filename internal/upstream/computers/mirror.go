package computers

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// An office has one agent. Where several gateways want the Computers of one, the Fleet of one gateway is
// the agent, and the others mirror it:
//
//	Fleet of the agent: Servers, Open ─▶ Fleet of another gateway: Mirror ─▶ the same upstreams

// Server is an MCP server of a Computer that a Fleet has attached.
type Server struct {
	Computer string `json:"computer"`
	Name     string `json:"name"`  // of the upstream
	Route    string `json:"route"` // the path at /mcps
}

// Servers returns the MCP servers of all Computers, by name.
func (f *Fleet) Servers() []Server {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := []Server{}
	for path, r := range f.routes {
		if !r.whole && r.open != nil {
			all = append(all, Server{r.computer, r.name, path})
		}
	}
	slices.SortFunc(all, func(a, b Server) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Open opens another connection to one of Servers.
func (f *Fleet) Open(ctx context.Context, name string) (mcp.Stream, error) {
	f.mu.Lock()
	var open upstream.Open
	for _, r := range f.routes {
		if r.name == name && !r.whole {
			open = r.open
		}
	}
	f.mu.Unlock()
	if open == nil {
		return nil, fmt.Errorf("no Computer has the MCP server %q", name)
	}
	return open(ctx)
}

// Mirror attaches the servers of another gateway's Fleet, and detaches those that are not in the list any
// more. open returns how a server is reached. Calls must not overlap.
func (f *Fleet) Mirror(servers []Server, open func(name string) upstream.Open) {
	wanted := map[string]Server{}
	for _, s := range servers[:min(len(servers), maxComputers*maxServers)] {
		wanted[s.Name] = s
	}
	f.mu.Lock()
	closed, there := f.closed, maps.Clone(f.mirrored)
	f.mu.Unlock()
	for name, was := range there {
		if s, stays := wanted[name]; !stays || s != was || !f.opts.Each.Attached(name) {
			f.opts.Each.Detach(name)
			delete(there, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		if _, is := there[name]; is || closed {
			continue
		}
		s := wanted[name]
		err := f.claim(s.Computer, attached{name: s.Name, route: s.Route})
		if err == nil {
			err = f.opts.Each.Attach(&config.Server{
				Name: s.Name, Namespace: catalog.MapNamespace(s.Name), Type: mcpserver.TransportStdio, Tags: []string{s.Computer}, Timeout: f.opts.Timeout, Start: mcpserver.StartBoot,
			}, open(s.Name))
		}
		if err != nil {
			f.log.Debug("an MCP server that another gateway has is left out", "computer", s.Computer, "upstream", s.Name, "err", err)
			continue
		}
		if there == nil {
			there = map[string]Server{}
		}
		there[name] = s
		f.log.Info("an MCP server of a Computer has arrived by another gateway", "computer", s.Computer, "upstream", s.Name)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.mirrored {
		if f.routes[s.Route].name == s.Name {
			delete(f.routes, s.Route)
		}
	}
	for _, s := range there {
		f.routes[s.Route] = route{name: s.Name, computer: s.Computer}
	}
	f.mirrored = there
}
