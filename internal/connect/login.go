package connect

import (
	"context"
	"crypto/subtle"
	"net/http"
	"net/url"

	"github.com/weir-mcp/weir/internal/identity"
)

// Login asks an identity provider who the person of a browser is. Its methods are called concurrently.
type Login interface {
	// Name is the name of the provider, for the page.
	Name() string
	// Begin returns the URL to send the browser to, the state with which it comes back to redirect, and
	// what takes that query.
	Begin(ctx context.Context, redirect string) (address, state string, finish FinishLogin, err error)
}

// FinishLogin ends a login with the query with which the browser came back. The error is shown.
type FinishLogin func(ctx context.Context, query url.Values) (*identity.Identity, error)

// begunLogin is a login whose browser is at the identity provider.
type begunLogin struct {
	state, server string
	finish        FinishLogin
}

// ask writes the page that asks who the person is.
func (p *Pages) ask(w http.ResponseWriter, status int, server, problem, browser string) {
	v := view{Title: "Sign in at " + server, Ask: true, Problem: problem, Form: p.formToken(browser),
		Text: "First tell this gateway who you are: paste the token that your MCP client uses here. It is checked and not kept."}
	if login := p.front.Load().Login; login != nil {
		v.Login = login.Name()
		v.Text = "First tell this gateway who you are: at " + v.Login + ", or with the token that your MCP client uses here. A token is checked and not kept."
	}
	write(w, status, v)
}

// beginLogin sends a browser to the identity provider.
func (p *Pages) beginLogin(w http.ResponseWriter, r *http.Request, front *Front, server, browser string) {
	address, state, finish, err := front.Login.Begin(r.Context(), front.Base+CallbackPath)
	if err != nil {
		write(w, http.StatusBadGateway, view{Title: "Sign in at " + server, Problem: err.Error(), Again: URL("", server)})
		return
	}
	p.logins.Put(p.formToken("login "+browser), &begunLogin{state, server, finish}, 0)
	write(w, http.StatusOK, view{Title: "Sign in at " + front.Login.Name(), Text: "The browser goes to the provider now.", Next: address})
}

// finishLogin takes a browser that comes back from the identity provider. It reports false if no login
// of the browser has this state.
func (p *Pages) finishLogin(w http.ResponseWriter, r *http.Request, query url.Values) bool {
	key := p.formToken("login " + p.browser(r))
	l, ok := p.logins.Get(key)
	if !ok || subtle.ConstantTimeCompare([]byte(l.state), []byte(query.Get("state"))) != 1 {
		return false
	}
	if _, ok := p.logins.Take(key); !ok {
		return false
	}
	caller, err := l.finish(r.Context(), query)
	if err != nil {
		write(w, http.StatusBadGateway, view{Title: "Sign in at " + l.server, Problem: err.Error(), Again: URL("", l.server)})
		return true
	}
	p.begin(w, caller)
	http.Redirect(w, r, URL("", l.server), http.StatusSeeOther)
	return true
}
