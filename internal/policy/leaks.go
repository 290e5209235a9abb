package policy

import (
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// Leaks returns a Finder of secrets in the arguments of agents, nil where all may pass. tokens are
// the tokens of sign-ins that are in use.
func Leaks(c *config.Config, tokens *redact.Recent) *redact.Finder {
	if c.Guards.Secrets.Args != config.SecretsDeny {
		return nil
	}
	return redact.NewFinder(c.Credentials(), tokens)
}
