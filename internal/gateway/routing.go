package gateway

import (
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/policy/definitions"
)

// RouterOptions returns the Gateway's part of the options of the router at /mcps/NAME/mcp. The HTTP
// server adds limits and keep-alives.
func (g *Gateway) RouterOptions() passthrough.Options {
	find, names := g.Offices.Router(g.manager)
	return passthrough.Options{
		Find: definitions.WrapFind(g.Config, definitions.NewOverrides(g.Config).WrapFind(g.Definitions.WrapFind(g.Data.Bodies.WrapFind(find)))), Absent: absentReason(g.manager), Names: names, Allow: func(principal, name string) bool { return g.Config().Auth.Reaches(principal, name) }, Judge: g.Views.judge, Limits: g.Agents.Limits,
		Sign: g.Agents.Sign, Loops: g.Agents.Loops, Observer: &observe.Observer{
			Metrics: g.Reports.Metrics, Tell: g.Catalog.tell, Server: g.Views.judge.ServerOf, Catalog: func() *catalog.Catalog { return g.Catalog.Snapshot().Catalog },
		}, Audit: g.Auditor, Trace: g.Reports.Trace, Registered: g.Agents.Registered,
		AgentHeaders: func() []string { return g.Config().Agents.Headers }, Sessions: g.Store.Sessions, Docs: g.Store.Documents(), Nodes: states(g.Store), Memory: g.Data.Memory, Logger: g.opts.Logger,
		OnSession: g.Reports.Sessions.On,
	}
}
