package app

import (
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/policy/definitions"
)

// RouterOptions returns the Engine's part of the options of the router at /mcps/NAME/mcp. The HTTP
// server adds limits and keep-alives.
func (e *Engine) RouterOptions() passthrough.Options {
	find, names := e.Offices.Router(e.manager)
	return passthrough.Options{
		Find: definitions.WrapFind(e.Config, e.Definitions.WrapFind(e.Data.Bodies.WrapFind(find))), Absent: absentReason(e.manager), Names: names, Allow: func(principal, name string) bool { return e.Config().Auth.Reaches(principal, name) }, Judge: e.Views.judge, Limits: e.Agents.Limits,
		Sign: e.Agents.Sign, Loops: e.Agents.Loops, Observer: &observe.Observer{
			Metrics: e.Metrics, Tell: e.Catalog.tell, Server: e.Views.judge.ServerOf, Catalog: func() *catalog.Catalog { return e.Catalog.Snapshot().Catalog },
		}, Audit: e.Auditor, Trace: e.Trace, Registered: e.Agents.Registered,
		AgentHeaders: func() []string { return e.Config().Agents.Headers }, Sessions: e.Store.Sessions, Docs: e.Store.Documents(), Nodes: states(e.Store), Memory: e.Data.Memory, Logger: e.log,
		OnSession: e.Sessions.On,
	}
}
