package config

import (
	"github.com/weir-mcp/weir/internal/json/strict"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

// checkScopes refuses scope: cluster where requests carry credentials of their caller. The gateway that
// has the server knows the callers of the other gateways as one.
func checkScopes(d *decoder, c *Config) {
	for _, s := range c.Servers {
		if s.Scope != mcpserver.ScopeCluster || s.Disabled {
			continue
		}
		why := ""
		switch {
		case s.Agent:
			why = "an agent server gets requests that each gateway signs; leave agent or scope out"
		case s.PerPrincipal() || s.Forwards():
			why = "credentials: " + string(s.Credentials) + " shows the server the credential of each caller, and one gateway cannot have those of all; leave credentials or scope out"
		}
		if why == "" {
			continue
		}
		path := strict.Join(d.paths[s], "scope")
		d.Within(d.paths[s], func() { d.Fail(d.At(path), path, "%s: %s", path, why) })
	}
}
