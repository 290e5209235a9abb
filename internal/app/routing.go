package app

import (
	"github.com/weir-mcp/weir/internal/passthrough"
)

// RouterOptions returns the Engine's part of the options of the router at /mcps/NAME/mcp. The HTTP
// server adds limits and keep-alives.
func (e *Engine) RouterOptions() passthrough.Options {
	find, names := e.Offices.router(e.manager)
	return passthrough.Options{
		Find: screenFind(e.Config, e.Definitions.wrapFind(e.bodies.wrapFind(find))), Absent: absentReason(e.manager), Names: names, Allow: func(principal, name string) bool { return e.Config().Auth.Reaches(principal, name) }, Judge: e.Views.judge, Limits: e.Agents.limits,
		Sign: e.Agents.sign, Loops: e.Agents.Loops, Observer: observer{e.Metrics, e.Catalog.tell, e.Views.judge, e.Catalog, &toolNames{}}, Audit: e.Auditor, Trace: e.Trace, Registered: e.Agents.registry.Transport,
		AgentHeaders: func() []string { return e.Config().Agents.Headers }, Sessions: e.Store.Sessions, Docs: e.Store.documents(), Nodes: e.Store.states(), Memory: e.Memory, Logger: e.log,
		OnSession: e.Sessions.On,
	}
}
