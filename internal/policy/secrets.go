package policy

import (
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/text/redact"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Secrets removes secrets from texts: the configured credentials from the definitions that servers send,
// because agents, the console and `weir ls` show them, and all secrets from results and messages. If a
// reload changes a server's credentials, the server is listed again. It is safe for concurrent use.
type Secrets struct {
	credentials atomic.Pointer[redact.Set]
	results     atomic.Pointer[result.Redactor]
	tokens      *redact.Recent // of sign-ins, while they are in use
}

// maxTokensInUse is how many tokens of sign-ins are removed from texts: those that were used last.
const maxTokensInUse = 1000

// NewSecrets returns the secrets of a configuration and of tokens of sign-ins. Without tokens it makes a
// set of its own.
func NewSecrets(c *config.Config, tokens *redact.Recent) *Secrets {
	s := &Secrets{tokens: tokens}
	if tokens == nil {
		s.tokens = redact.NewRecent(maxTokensInUse)
	}
	s.Configure(c)
	return s
}

// Tokens returns the tokens of sign-ins while they are in use.
func (s *Secrets) Tokens() *redact.Recent { return s.tokens }

// Configure replaces the secrets with the secrets of a configuration.
func (s *Secrets) Configure(conf *config.Config) {
	s.results.Store(result.NewRedactor(conf.Secrets()).With(s.tokens))
	s.credentials.Store(redact.New(conf.Credentials()))
}

// Redactor returns what removes the secrets of the current configuration.
func (s *Secrets) Redactor() *result.Redactor { return s.results.Load() }

// Clean removes secrets and invisible characters from a server's text.
func (s *Secrets) Clean(text string) string { return s.Redactor().Redact(visible.Text(text)) }

// Listing returns l without credentials.
func (s *Secrets) Listing(l primitive.Listing) primitive.Listing {
	set := s.credentials.Load()
	if set == nil && s.tokens.Len() == 0 {
		return l
	}
	return l.Concealed(func(text string) string { return s.tokens.Replace(set.Replace(text)) })
}
