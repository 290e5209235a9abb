package authserver

import (
	"crypto/rand"
	_ "embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"sync"

	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/internal/text/visible"
)

//go:embed page.html
var pageSource string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageSource)) })

// view is the data of page.html.
type view struct {
	Title, Text, Problem string

	Path, Request  string // of a form: where it goes, and the text that it must have
	Password       bool   // the form asks for a name and a password
	Name           string // that was entered, or that the client has guessed
	Consent        bool   // the form asks for a decision
	Client, Person string
	Known, Host    string // how the client is known, and where the browser goes back to
	Resource       string
	Scopes         []string

	Back string // the redirect, to which the answer of a form may lead
}

// protect sets the headers that every page has.
func protect(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer browsers send Origin: null with forms
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; frame-ancestors 'none'")
}

// page writes a page. It has no script, and no other page may frame it.
func (x *exchange) page(status int, v view) {
	nonce := rand.Text()
	v.Problem = text.Line(visible.Text(v.Problem), 600)
	h := x.w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// Browsers look at the redirect that answers a form as well.
	h.Set("Content-Security-Policy", fmt.Sprintf(
		"default-src 'none'; style-src 'nonce-%s'; base-uri 'none'; form-action 'self'%s; frame-ancestors 'none'", nonce, source(v.Back)))
	x.w.WriteHeader(status)
	_ = page().Execute(x.w, struct { // the browser may be gone
		view
		Nonce string
	}{v, nonce})
}

// source returns a redirect as a source of a Content-Security-Policy, with a space before it.
func source(redirect string) string {
	u, err := url.Parse(redirect)
	switch {
	case err != nil || redirect == "":
		return ""
	case u.Scheme == "https" || u.Scheme == "http":
		return " " + u.Scheme + "://" + u.Host
	}
	return " " + u.Scheme + ":"
}

// askConsent writes the page that asks a person for consent.
func (x *exchange) askConsent(c *Client, p *pending, secret string) {
	x.page(http.StatusOK, view{
		Title: c.label() + " wants to use this gateway", Consent: true, Path: consentPath, Back: p.Redirect,
		Request: secret[:10] + "." + x.macs("consent form", secret)[0],
		Client:  c.label(), Person: p.Person.Principal, Known: c.known(), Host: hostOf(p.Redirect),
		Resource: x.p.resourceName(p.Resource), Scopes: inWords(p.Scopes),
	})
}

// known says how a client is known.
func (c *Client) known() string {
	switch c.From {
	case configured:
		return "It is in the configuration of this gateway."
	case documented:
		return "It is the client of " + hostOf(c.ID) + ", which vouches for its name."
	}
	return "It has registered itself. Nobody vouches for its name."
}

// inWords says what scopes mean.
func inWords(scopes []string) []string {
	var words []string
	for _, scope := range scopes {
		switch scope {
		case "mcp":
			words = append(words, "call tools and read resources in your name")
		case scopeOpenID:
			words = append(words, "learn who you are at this gateway")
		case scopeOffline:
			words = append(words, "go on while you are away, until you sign out")
		default:
			words = append(words, "use the right "+text.Line(visible.Text(scope), 60))
		}
	}
	return words
}
