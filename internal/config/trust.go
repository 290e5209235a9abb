package config

import (
	"slices"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

// TrustOf returns the mode of a server, which may be one that was found at run time.
func (c *Config) TrustOf(server string) mcpserver.TrustMode {
	if s, ok := c.Server(server); ok && s.Trust != "" {
		return s.Trust
	}
	return c.Trust
}

// KeepsLock reports whether any server can have a mode.
func (c *Config) KeepsLock() bool {
	return c.Trust != "" || slices.ContainsFunc(c.Servers, func(s *Server) bool { return s.Trust != "" })
}

// inheritTrust gives the servers without a mode the one of the whole configuration, so that a reload
// that changes it lists them again.
func inheritTrust(c *Config) {
	for _, s := range c.Servers {
		if s.Trust == "" {
			s.Trust = c.Trust
		}
	}
}
