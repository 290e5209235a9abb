package config

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// userMark stands before and after the name of a credential in an expanded text. The character
// stands in no variable, header or argument.
const userMark = "\x00"

// user returns the placeholder of a reference ${user:NAME} until a connection is made.
func (e *expander) user(name string, secret bool) (string, error) {
	switch {
	case !credentialName(name):
		return "", fmt.Errorf("%q names no credential: use up to 64 letters, digits, '.', '_' and '-', a letter or digit first", strict.Clip("${user:"+name+"}"))
	case !secret || !e.inside:
		return "", fmt.Errorf("${user:%s} stands in headers and env of servers alone: it is another text for each caller", name)
	}
	return userMark + "user:" + name + userMark, nil
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

// FillUserTexts returns a value of headers or env with the credentials of a caller that ${user:NAME}
// refers to. It ends with the first error of text.
func FillUserTexts(s Secret, text func(name string) (string, error)) (string, error) {
	var out strings.Builder
	rest := string(s)
	for {
		before, after, found := strings.Cut(rest, userMark+"user:")
		out.WriteString(before)
		if !found {
			return out.String(), nil
		}
		name, after, _ := strings.Cut(after, userMark)
		value, err := text(name)
		if err != nil {
			return "", err
		}
		out.WriteString(value)
		rest = after
	}
}

// HasUserText reports whether a value of headers or env has a credential of the caller in it.
func HasUserText(s Secret) bool { return strings.Contains(string(s), userMark) }

// UserTexts returns the names of the credentials that headers and env refer to by ${user:NAME}, sorted.
func (s *Server) UserTexts() []string {
	var found map[string]bool // made for the first name, because requests ask for the names of each server
	for _, texts := range []map[string]Secret{s.Headers, s.Env} {
		for _, text := range texts {
			if !HasUserText(text) {
				continue
			}
			if found == nil {
				found = map[string]bool{}
			}
			_, _ = FillUserTexts(text, func(name string) (string, error) { found[name] = true; return "", nil })
		}
	}
	if found == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(found))
}

// withoutUserTexts returns the part of a secret that is the same for all callers.
func withoutUserTexts(s Secret) string {
	text, _ := FillUserTexts(s, func(string) (string, error) { return "", nil })
	return text
}

// checkUserTexts checks the references to credentials of callers.
func checkUserTexts(d *decoder, s *Server, path string) {
	for _, part := range []struct {
		key   string
		texts map[string]Secret
		used  bool
	}{{"headers", s.Headers, s.URL != "" && s.Command == "" && !s.Agent}, {"env", s.Env, s.Command != "" && s.URL == ""}} {
		for name, text := range part.texts {
			key := strict.Join(strict.Join(path, part.key), name)
			switch {
			case !HasUserText(text):
			case !part.used:
				d.Fail(d.At(key), key, "%s has a credential of the caller, ${user:…}, which stands in headers of a server with a url alone, and in env of one with a command alone", key)
			case !s.PerPrincipal():
				d.Fail(d.At(key), key, "%s has a credential of the caller, ${user:…}, which needs %s.credentials: user", key, path)
			}
		}
	}
	for _, secret := range []Secret{s.OAuth.ClientSecret, s.OAuth.PrivateKey, s.OAuth.Provider.ClientSecret, s.OAuth.Provider.PrivateKey} {
		if HasUserText(secret) {
			key := strict.Join(path, "oauth")
			d.Fail(d.At(key), key, "%s has a credential of the caller, ${user:…}, which stands in headers and env alone", key)
		}
	}
}
