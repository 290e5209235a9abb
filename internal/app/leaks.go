package app

import (
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// leaksOf returns what finds secrets in what agents send to servers, nil where all may pass. tokens are
// those of sign-ins that are in use.
func leaksOf(c *config.Config, tokens *redact.Recent) *redact.Finder {
	if c.Guards.Secrets.Args != config.SecretsDeny {
		return nil
	}
	return redact.NewFinder(c.Credentials(), tokens)
}
