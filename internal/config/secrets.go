package config

import (
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/text/redact"
)

// Secrets returns every text of the configuration that must not be shown, for redaction, longest
// first:
//
//   - values of headers and env, and the variables and inputs in them
//   - answers to password inputs
//   - variables with a telling name, wherever they were used
//   - texts that are secret by their place in a URL or in args (see package redact)
//
// It leaves out texts under 6 bytes: to replace them everywhere would garble other texts. The
// caller owns the slice.
func (c *Config) Secrets() []string { return slices.Clone(c.secrets) }

// Credentials returns the Secrets that are secret by their name, their place or their form, longest
// first. It leaves out a value of env that is words or a number, under a neutral name. Errors hide
// such a value, but descriptions of tools may well have the same word. The caller owns the slice.
func (c *Config) Credentials() []string { return slices.Clone(c.credentials) }

// hidden holds the secrets of a configuration that is being read. True marks a credential: see
// [Config.Credentials].
type hidden map[string]bool

// note remembers a secret. Of "Bearer x" it also remembers only x, because x appears elsewhere.
func (h hidden) note(secret string) {
	h.add(secret, !redact.Plain(secret))
	h.password(secret)
	if scheme, rest, ok := strings.Cut(secret, " "); ok && authScheme(scheme) {
		h.note(strings.TrimSpace(rest))
	}
}

// certain remembers a text that is secret by its name or its place.
func (h hidden) certain(secret string) {
	h.add(secret, true)
	h.password(secret)
	if scheme, rest, ok := strings.Cut(secret, " "); ok && authScheme(scheme) {
		h.certain(strings.TrimSpace(rest))
	}
}

func (h hidden) add(secret string, credential bool) {
	if len(secret) >= redact.MinSecret {
		h[secret] = h[secret] || credential
	}
}

// password remembers the password of a text that is a URL, in both spellings.
func (h hidden) password(text string) {
	u, err := url.Parse(text)
	if err != nil || u.User == nil {
		return
	}
	if password, ok := u.User.Password(); ok {
		h.add(password, true)
		h.add(strings.TrimPrefix(url.UserPassword("", password).String(), ":"), true)
	}
}

// url remembers the secrets that stand in a URL.
func (h hidden) url(text string) {
	for _, secret := range redact.InURL(text) {
		h.add(secret, true)
	}
}

// noteServer remembers the texts of an entry that are secret by their name or their place.
func (e *expander) noteServer(s *Server) {
	e.hidden.url(s.URL)
	for _, secret := range redact.InArgs(s.Args) {
		e.hidden.add(secret, true)
	}
	e.hidden.certain(s.OAuth.ClientSecret.Reveal())
	e.hidden.certain(s.OAuth.PrivateKey.Reveal())
	e.hidden.certain(s.OAuth.Provider.ClientSecret.Reveal())
	e.hidden.certain(s.OAuth.Provider.PrivateKey.Reveal())
	for name, value := range s.Headers {
		if mcpserver.HasUserText(value) {
			continue // the file has a part of it, which is no secret
		}
		if !plainName(name) {
			e.hidden.certain(value.Reveal())
		}
		e.hidden.url(value.Reveal())
	}
	for name, value := range s.Env {
		if mcpserver.HasUserText(value) {
			continue
		}
		if tellingName(name) {
			e.hidden.certain(value.Reveal())
		}
		e.hidden.url(value.Reveal())
	}
}

// sorted returns the secrets, or the credentials among them, longest first.
func (h hidden) sorted(credentials bool) []string {
	kept := slices.DeleteFunc(slices.Collect(maps.Keys(h)), func(s string) bool { return credentials && !h[s] })
	slices.SortFunc(kept, func(a, b string) int {
		if len(a) != len(b) {
			return len(b) - len(a)
		}
		return strings.Compare(a, b)
	})
	return kept
}

// noteRest remembers the secrets outside of mcpServers.
func (h hidden) noteRest(c *Config) {
	h.url(c.Search.Embedding.URL)
	h.certain(c.Search.Embedding.Key.Reveal())
	h.url(c.OTLP.URL)
	for name, value := range c.OTLP.Headers {
		if !plainName(name) {
			h.certain(value.Reveal())
		}
	}
	h.certain(c.Agents.Invocation.Secret.Reveal())
	for _, key := range c.SignIns.Keys {
		h.certain(key.Reveal())
	}
	h.certain(c.Cluster.Key.Reveal())
	for _, key := range c.Cluster.OldKeys {
		h.certain(key.Reveal())
	}
	for text := range strings.SplitSeq(c.Store.At, ",") {
		h.url(text)
		h.password(text)
	}
	for _, r := range c.Hubs {
		h.url(r.URL)
		h.certain(r.Token.Reveal())
	}
}
