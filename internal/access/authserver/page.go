package authserver

import (
	_ "embed"
	"html/template"
	"net/http"
	"net/url"
	"sync"

	"github.com/weir-mcp/weir/internal/net/httpserver"
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

// page writes a page. Browsers look at the redirect that answers a form as well.
func (x *exchange) page(status int, v view) {
	v.Problem = text.Line(visible.Text(v.Problem), 600)
	httpserver.WritePage(x.w, status, page(), source(v.Back), func(nonce string) any {
		return struct {
			view
			Nonce string
		}{v, nonce}
	})
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
