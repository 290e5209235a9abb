package app

import (
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// secrets removes secrets from texts: the configured credentials from the definitions that servers send,
// because agents, the console and `weir ls` show them, and all secrets from results and messages. If a
// reload changes a server's credentials, the server is listed again. It is safe for concurrent use.
type secrets struct {
	credentials atomic.Pointer[redact.Set]
	results     atomic.Pointer[result.Redactor]
	tokens      *redact.Recent // of sign-ins, while they are in use
}

// configure replaces the secrets with the secrets of a configuration.
func (c *secrets) configure(conf *config.Config) {
	c.results.Store(result.NewRedactor(conf.Secrets()).With(c.tokens))
	c.credentials.Store(redact.New(conf.Credentials()))
}

// redactor returns what removes the secrets of the current configuration.
func (c *secrets) redactor() *result.Redactor { return c.results.Load() }

// clean removes secrets and invisible characters from a server's text.
func (c *secrets) clean(text string) string { return c.redactor().Redact(visible.Text(text)) }

// listing returns l without credentials.
func (c *secrets) listing(l primitive.Listing) primitive.Listing {
	set := c.credentials.Load()
	if set == nil && c.tokens.Len() == 0 {
		return l
	}
	return l.Concealed(func(text string) string { return c.tokens.Replace(set.Replace(text)) })
}
