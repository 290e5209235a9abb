package app

import (
	"net/http"

	"github.com/weir-mcp/weir/internal/passthrough"
)

// RouterOptions returns the Engine's part of the options of the router at /mcps/NAME/mcp. The HTTP
// server adds limits and keep-alives.
func (e *Engine) RouterOptions() passthrough.Options {
	find, names := e.Offices.router(e.manager)
	return passthrough.Options{
		Find: screenFind(e, e.Definitions.wrapFind(e.bodies.wrapFind(find))), Absent: absentReason(e.manager), Names: names, Allow: e.reaches, Judge: judge{e}, Limits: e.agents.limits,
		Sign: e.agents.sign, Loops: e.agents.loops, Observer: observer{e, &toolNames{}}, Audit: e.Auditor, Trace: e.Trace, Registered: e.agents.registry.Transport,
		AgentHeaders: func() []string { return e.Config().Agents.Headers }, Sessions: e.Store.Sessions, Docs: e.Store.documents(), Nodes: e.Store.states(), Memory: e.Memory, Logger: e.log,
		OnSession: e.Sessions.On,
	}
}

// reaches reports whether a principal may call an upstream.
func (e *Engine) reaches(principal, name string) bool {
	return e.Config().Auth.Reaches(principal, name)
}

// Loops detects requests of this gateway that come back to it.
func (e *Engine) Loops() *passthrough.Loops { return e.agents.loops }

// Registry serves agent registration.
func (e *Engine) Registry() http.Handler { return e.agents.registry }

// AgentStatus lists the servers that a principal may call, with the state that is known without
// contacting them.
func (e *Engine) AgentStatus(principal string) []passthrough.AgentStatus {
	return e.agents.status(principal)
}
