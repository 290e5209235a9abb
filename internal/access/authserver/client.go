package authserver

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
)

// Bounds of what clients say about themselves.
const (
	maxClientID  = 512
	maxRedirects = 20
	maxRedirect  = 512
	maxName      = 60
)

// origin says how a client is known.
type origin string

const (
	configured origin = "configured"
	documented origin = "documented"
	registered origin = "registered"
)

// A Client may ask for tokens.
type Client struct {
	ID, Name string
	// Redirects are where browsers may be sent back to, and Logouts where they may be sent after a logout.
	Redirects, Logouts []string
	// Secret is the client's secret, and Keys or KeysURL its public keys (a JWK set): with one of them the client
	// is confidential.
	Secret  string          `json:"-"`
	Keys    json.RawMessage `json:",omitempty"`
	KeysURL string          `json:",omitempty"`
	// Groups are the groups of the client itself where it calls without a person.
	Groups []string `json:",omitempty"`
	// Scopes are those that it may get; all for none.
	Scopes []string `json:",omitempty"`

	From   origin
	Method string // of authentication: one of authMethods
	Used   int64  `json:",omitempty"` // when a person last signed in with it; 0: never
	Made   int64  `json:",omitempty"`
}

// confidential reports whether a client can show who it is.
func (c *Client) confidential() bool { return c.Secret != "" || len(c.Keys) > 0 || c.KeysURL != "" }

// method returns how a client shows who it is.
func (c *Client) method() string {
	switch {
	case c.Method != "":
		return c.Method
	case c.Secret != "":
		return "client_secret_basic"
	case c.confidential():
		return "private_key_jwt"
	}
	return "none"
}

// label returns the name of a client for people.
func (c *Client) label() string {
	if name := text.Line(visible.Text(c.Name), maxName); strings.TrimSpace(name) != "" {
		return name
	}
	return "A client without a name"
}

// appSchemes are schemes of programs that are known to take browsers back. Others must have a dot, as RFC 8252 §7.1
// has them: a scheme such as javascript or ms-msdt would have a browser do something else.
var appSchemes = []string{"cursor", "vscode", "vscode-insiders", "vscodium", "windsurf", "zed", "claude", "goose", "raycast", "kiro", "trae", "warp"}

// usableRedirect returns why a client must not be sent back to a URL, "" if it may.
func usableRedirect(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil || len(redirect) > maxRedirect || u.Scheme == "":
		return "is not a URL"
	case strings.ContainsFunc(redirect, func(r rune) bool { return r <= ' ' || r > unicode.MaxASCII || r == '\\' || r == 0x7f }):
		return "has characters that browsers read in different ways"
	case u.User != nil || strings.Contains(redirect, "@") && u.Host == "":
		return "has a user"
	case strings.Contains(redirect, "#"):
		return "has a fragment"
	case strings.Contains(redirect, "*"):
		return "has a wildcard"
	case u.Scheme == "https" && u.Hostname() != "":
		return ""
	case u.Scheme == "http" && loopback(u):
		return ""
	case u.Scheme == "http":
		return "is http and does not lead to this machine"
	case u.Scheme != strings.ToLower(u.Scheme):
		return "has a scheme with capital letters"
	case slices.Contains(appSchemes, u.Scheme), strings.Contains(u.Scheme, ".") && u.Opaque == "":
		return ""
	}
	return "has a scheme that is not known here"
}

// loopback reports whether a URL leads to the browser's own machine.
func loopback(u *url.URL) bool {
	host := u.Hostname()
	ip, ok := address.ParseIP(host)
	return host == "localhost" || ok && ip.IsLoopback()
}

// redirects reports whether a client may be sent back to a URL: it has registered this very text, or the same text
// with another port of the browser's own machine (RFC 8252 §7.3).
func (c *Client) redirects(redirect string) bool {
	if usableRedirect(redirect) != "" {
		return false
	}
	return slices.ContainsFunc(c.Redirects, func(known string) bool { return known == redirect || anyPort(known, redirect) })
}

// anyPort reports whether two loopback URLs differ only in their port. The port is put into the known text, so that
// nothing depends on how a text is parsed.
func anyPort(known, redirect string) bool {
	k, err := url.Parse(known)
	if err != nil || k.Scheme != "http" || !loopback(k) {
		return false
	}
	r, err := url.Parse(redirect)
	if err != nil {
		return false
	}
	start := len("http://")
	end := start + len(k.Host)
	if !strings.HasPrefix(known, "http://"+k.Host) {
		return false
	}
	host := strings.TrimSuffix(k.Host, ":"+k.Port())
	if port := r.Port(); port != "" {
		host += ":" + port
	}
	return known[:start]+host+known[end:] == redirect
}

// remembers reports whether a consent may stand for later sign-ins that send the browser back there. Every program
// of a machine can listen on a loopback port or claim a scheme, so those are asked about each time.
func remembers(redirect string) bool { return strings.HasPrefix(redirect, "https://") }

// hostOf returns what a person is shown of a redirect or of the URL of a document.
func hostOf(address string) string {
	u, err := url.Parse(address)
	switch {
	case err != nil:
		return ""
	case loopback(u):
		return "a program on this computer (" + u.Host + ")"
	case u.Scheme != "https":
		return "the program that opens " + u.Scheme + ": links"
	}
	return u.Host
}

// clientMetadata is what a client says about itself (RFC 7591 §2), in a document or as it registers.
type clientMetadata struct {
	ID        string          `json:"client_id,omitempty"`
	Name      string          `json:"client_name,omitempty"`
	Redirects []string        `json:"redirect_uris"`
	Logouts   []string        `json:"post_logout_redirect_uris,omitempty"`
	Grants    []string        `json:"grant_types,omitempty"`
	Responses []string        `json:"response_types,omitempty"`
	Method    string          `json:"token_endpoint_auth_method,omitempty"`
	Scope     string          `json:"scope,omitempty"`
	Keys      json.RawMessage `json:"jwks,omitempty"`
	KeysURL   string          `json:"jwks_uri,omitempty"`
}

// check returns why metadata are not served, "" if they are.
func (m *clientMetadata) check() string {
	switch {
	case len(m.Redirects) == 0:
		return "redirect_uris is missing"
	case len(m.Redirects) > maxRedirects || len(m.Logouts) > maxRedirects:
		return fmt.Sprintf("there are more than %d redirects", maxRedirects)
	case len(m.Name) > 200:
		return "client_name is too long"
	case m.Responses != nil && !slices.Contains(m.Responses, "code"):
		return "response_types must have code"
	case m.Grants != nil && !slices.Contains(m.Grants, "authorization_code"):
		return "grant_types must have authorization_code"
	case len(m.Keys) > 0 && m.KeysURL != "":
		return "jwks and jwks_uri are both there"
	}
	for _, redirect := range slices.Concat(m.Redirects, m.Logouts) {
		if why := usableRedirect(redirect); why != "" {
			return fmt.Sprintf("the redirect %.100q %s", redirect, why)
		}
	}
	return ""
}
