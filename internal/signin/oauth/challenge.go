package oauth

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/guard"
)

// Bounds of WWW-Authenticate headers.
const (
	maxChallengeText = 16 << 10
	maxChallenges    = 16
	maxScope         = 256 // bytes of one scope
	maxScopesTold    = 64  // that an error names
)

// challenge is one challenge of a WWW-Authenticate header (RFC 9110 §11.6.1).
type challenge struct {
	scheme string            // in lower case
	params map[string]string // names in lower case
}

// Challenge is the reason of a server that refused a request: the parameters of a Bearer challenge, or of a DPoP challenge
// where there is none.
type Challenge struct {
	Status   int    // of the answer: 401 or 403
	Metadata string // resource_metadata, or ""
	Scopes   []string
	Error    string // as invalid_token and insufficient_scope
	DPoP     bool   // the server takes tokens that are bound to a key
}

// challengeOf reads the answer of a server. An answer without such a challenge has only the status.
func challengeOf(status int, header http.Header) Challenge {
	c := Challenge{Status: status}
	all := parseChallenges(header.Values("WWW-Authenticate"))
	of := func(scheme string) func(challenge) bool {
		return func(one challenge) bool { return one.scheme == scheme }
	}
	proof := slices.IndexFunc(all, of(guard.DPoP))
	c.DPoP = proof >= 0
	if n := cmp.Or(slices.IndexFunc(all, of(guard.Bearer))+1, proof+1); n > 0 {
		one := all[n-1]
		c.Metadata, c.Error = one.params["resource_metadata"], one.params["error"]
		c.Scopes = slices.DeleteFunc(scopesOf(one.params["scope"]), func(s string) bool { return !isScope(s) })
	}
	return c
}

// TooFewScopes returns the error for an answer of a server that refuses a token of a caller for want of
// scopes (RFC 6750 §3.1), nil for any other answer. token is the token of the request, and fix names
// the remedy.
func TooFewScopes(server string, resp *http.Response, token identity.Secret, fix string) *SignInError {
	if resp.StatusCode != http.StatusForbidden {
		return nil
	}
	ch := challengeOf(resp.StatusCode, resp.Header)
	if ch.Error != "insufficient_scope" {
		return nil
	}
	scopes := slices.DeleteFunc(ch.Scopes, func(s string) bool { return strings.Contains(s, string(token)) })
	scopes = scopes[:min(len(scopes), maxScopesTold)]
	reason := "it refuses the request for want of scopes that it does not name"
	if len(scopes) > 0 {
		reason = "it refuses the request for want of the scopes " + strings.Join(scopes, " ")
	}
	return &SignInError{Server: server, Reason: reason, Fix: fix, Scopes: scopes}
}

// parseChallenges reads the values of WWW-Authenticate headers. It skips unreadable values.
func parseChallenges(values []string) []challenge {
	var found []challenge
	for _, text := range values {
		if len(text) > maxChallengeText {
			continue
		}
		found = appendChallenges(found, text)
	}
	return found
}

// appendChallenges reads one header value: schemes with parameters or one token68, after commas.
func appendChallenges(found []challenge, text string) []challenge {
	for len(found) < maxChallenges {
		text = strings.TrimLeft(text, " \t,")
		word, rest := token(text)
		if word == "" {
			return found
		}
		if after := strings.TrimLeft(rest, " \t"); strings.HasPrefix(after, "=") && len(found) > 0 && !strings.HasPrefix(after, "==") {
			value, left, ok := value(strings.TrimLeft(after[1:], " \t"))
			if !ok {
				return found
			}
			params := found[len(found)-1].params
			if name := strings.ToLower(word); params[name] == "" {
				params[name] = value
			}
			text = left
			continue
		}
		found = append(found, challenge{strings.ToLower(word), map[string]string{}})
		text = skipToken68(rest)
	}
	return found
}

// skipToken68 skips credentials that are no parameters, as in "Negotiate YII=".
func skipToken68(text string) string {
	trimmed := strings.TrimLeft(text, " \t")
	end := strings.IndexFunc(trimmed, func(r rune) bool {
		return r >= 0x80 || !isToken(byte(r)) && r != '/' && r != '='
	})
	if end < 0 {
		end = len(trimmed)
	}
	word := trimmed[:end]
	body := strings.TrimRight(word, "=")
	left := strings.TrimLeft(trimmed[end:], " \t")
	if word != "" && !strings.Contains(body, "=") && (left == "" || left[0] == ',') {
		return left
	}
	return text
}

func isToken(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

func token(text string) (word, rest string) {
	n := 0
	for n < len(text) && isToken(text[n]) {
		n++
	}
	return text[:n], text[n:]
}

// value reads a token or a quoted string.
func value(text string) (value, rest string, ok bool) {
	if !strings.HasPrefix(text, `"`) {
		n := strings.IndexAny(text, ", \t")
		if n < 0 {
			n = len(text)
		}
		return text[:n], text[n:], true
	}
	var b strings.Builder
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return b.String(), text[i+1:], true
		case '\\':
			i++
			if i == len(text) {
				return "", "", false
			}
		}
		b.WriteByte(text[i])
	}
	return "", "", false
}

// isScope reports whether a text is a scope that a client can ask for (RFC 6749 §3.3). Another text in
// a challenge would reach agents, and no issuer takes it.
func isScope(s string) bool {
	return len(s) <= maxScope && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || r == '"' || r == '\\' })
}

// scopesOf splits a list of scopes, without duplicates and in its order.
func scopesOf(text string) []string {
	var scopes []string
	for _, s := range strings.Fields(text) {
		if !slices.Contains(scopes, s) && len(scopes) < 200 {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// union returns the scopes of all lists, without duplicates and in their order.
func union(lists ...[]string) []string {
	return scopesOf(strings.Join(slices.Concat(lists...), " "))
}
