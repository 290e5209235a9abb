package app

import (
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// A redactor removes the configured credentials from the definitions that servers send, because
// agents, the console and `weir ls` show them. If a reload changes a server's credentials, the
// server is listed again. Safe for concurrent use.
type redactor struct {
	credentials atomic.Pointer[redact.Set]
	tokens      *redact.Recent
}

// configure replaces the credentials with those of a configuration.
func (c *redactor) configure(conf *config.Config) {
	c.credentials.Store(redact.New(conf.Credentials()))
}

// listing returns l without credentials.
func (c *redactor) listing(l catalog.Listing) catalog.Listing {
	set := c.credentials.Load()
	if set == nil && c.tokens.Len() == 0 {
		return l
	}
	return l.Concealed(func(text string) string { return c.tokens.Replace(set.Replace(text)) })
}
