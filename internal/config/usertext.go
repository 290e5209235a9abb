package config

import (
	"fmt"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// user returns the placeholder of a reference ${user:NAME} until a connection is made.
func (e *expander) user(name string, secret bool) (string, error) {
	switch {
	case !credentialName(name):
		return "", fmt.Errorf("%q names no credential: use up to 64 letters, digits, '.', '_' and '-', a letter or digit first", strict.Clip("${user:"+name+"}"))
	case !secret || !e.inside:
		return "", fmt.Errorf("${user:%s} stands in headers and env of servers alone: it is another text for each caller", name)
	}
	return mcpserver.UserText(name), nil
}

// credentialName reports whether a text can name a credential.
func credentialName(name string) bool { return legalName(name) }

// CheckCredentialName returns why a text cannot name a credential, or nil.
func CheckCredentialName(name string) error {
	if credentialName(name) {
		return nil
	}
	return fmt.Errorf("%q cannot be the name of a credential: use up to 64 letters, digits, '.', '_' and '-', a letter or digit first", strict.Clip(name))
}

// withoutUserTexts returns the part of a secret that is the same for all callers.
func withoutUserTexts(s Secret) string {
	text, _ := mcpserver.FillUserTexts(s, func(string) (string, error) { return "", nil })
	return text
}

// checkUserTexts checks the references to credentials of callers.
func checkUserTexts(d *strict.Decoder, s *Server, path string) {
	for _, part := range []struct {
		key   string
		texts map[string]Secret
		used  bool
	}{{"headers", s.Headers, s.URL != "" && s.Command == "" && !s.Agent}, {"env", s.Env, s.Command != "" && s.URL == ""}} {
		for name, text := range part.texts {
			key := strict.Join(strict.Join(path, part.key), name)
			switch {
			case !mcpserver.HasUserText(text):
			case !part.used:
				d.Fail(d.At(key), key, "%s has a credential of the caller, ${user:…}, which stands in headers of a server with a url alone, and in env of one with a command alone", key)
			case !s.PerPrincipal():
				d.Fail(d.At(key), key, "%s has a credential of the caller, ${user:…}, which needs %s.credentials: user", key, path)
			}
		}
	}
	for _, secret := range []Secret{s.OAuth.ClientSecret, s.OAuth.PrivateKey, s.OAuth.Provider.ClientSecret, s.OAuth.Provider.PrivateKey} {
		if mcpserver.HasUserText(secret) {
			key := strict.Join(path, "oauth")
			d.Fail(d.At(key), key, "%s has a credential of the caller, ${user:…}, which stands in headers and env alone", key)
		}
	}
}
