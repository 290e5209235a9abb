package signin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
)

// Login asks an identity provider who the person of a browser is. Its methods are called concurrently.
type Login interface {
	// Name is the name of the provider, for the page.
	Name() string
	// Begin returns the URL to send the browser to, the state with which it comes back to redirect, and
	// the facts that Finish needs.
	Begin(ctx context.Context, redirect string) (address, state string, memo identity.Secret, err error)
	// Finish ends a login with the query with which the browser came back. proof is for End. The error is shown.
	Finish(ctx context.Context, memo identity.Secret, query url.Values) (who *identity.Identity, proof identity.Secret, err error)
	// End returns the URL at which the provider ends its session with the browser and sends it back to back; "" if
	// the provider has no such page, or cannot be asked.
	End(ctx context.Context, proof identity.Secret, back string) (address string)
}

// begunLogin is a login whose browser is at the identity provider. The browser keeps it, sealed: so
// strangers who start logins take no room, and end no login of others.
type begunLogin struct {
	State, Memo string
	Server      string // whose page is next; "": the console
	Until       time.Time
	Epoch       uint64
}

// newSeal returns a cipher with a key of this process.
func newSeal() cipher.AEAD {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		panic(err) // the length is one of AES
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return seal
}

// loginCookie returns the name of the cookie with a started login.
func (p *Pages) loginCookie() string { return p.cookieName() + "_login" }

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
	address, err := p.sendOff(w, r, front, server, browser)
	if err != nil {
		write(w, http.StatusBadGateway, view{Title: "Sign in at " + server, Problem: err.Error(), Again: URL("", server)})
		return
	}
	write(w, http.StatusOK, view{Title: "Sign in at " + front.Login.Name(), Text: "The browser goes to the provider now.", Next: address})
}

// sendOff starts a login of a browser and returns where the browser goes.
func (p *Pages) sendOff(w http.ResponseWriter, r *http.Request, front *Front, server, browser string) (address string, err error) {
	address, state, memo, err := front.Login.Begin(r.Context(), front.Base+CallbackPath)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(begunLogin{State: state, Server: server, Memo: string(memo), Until: p.now().Add(sessionTime), Epoch: p.epoch.Load()})
	if err != nil {
		return "", err
	}
	p.setLogin(w, base64.RawURLEncoding.EncodeToString(p.seal.Seal(nil, nil, text, []byte(browser))), int(sessionTime/time.Second))
	return address, nil
}

func (p *Pages) setLogin(w http.ResponseWriter, value string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: p.loginCookie(), Value: value, Path: "/", HttpOnly: true, Secure: p.secure(), SameSite: http.SameSiteLaxMode, MaxAge: seconds})
}

// begun returns the login that a browser has started, or nil.
func (p *Pages) begun(r *http.Request) *begunLogin {
	cookie, err := r.Cookie(p.loginCookie())
	if err != nil {
		return nil
	}
	sealed, err := base64.RawURLEncoding.DecodeString(cookie.Value)
	if err != nil {
		return nil
	}
	text, err := p.seal.Open(nil, nil, sealed, []byte(p.browser(r)))
	if err != nil {
		return nil
	}
	var l begunLogin
	if err := json.Unmarshal(text, &l); err != nil || !p.now().Before(l.Until) || l.Epoch != p.epoch.Load() {
		return nil
	}
	return &l
}

// finishLogin takes a browser that comes back from the identity provider. It reports false if no login
// of the browser has this state.
func (p *Pages) finishLogin(w http.ResponseWriter, r *http.Request, query url.Values) bool {
	front, l := p.front.Load(), p.begun(r)
	login := front.Login
	if login == nil || l == nil || subtle.ConstantTimeCompare([]byte(l.State), []byte(query.Get("state"))) != 1 {
		return false
	}
	p.setLogin(w, "", -1)
	caller, proof, err := login.Finish(r.Context(), identity.Secret(l.Memo), query)
	switch {
	case l.Epoch != p.epoch.Load(): // Forget was called meanwhile
		return false
	case err != nil && l.Server == "":
		write(w, http.StatusBadGateway, view{Title: "Sign in at this gateway", Problem: err.Error(), Again: consolePath})
		return true
	case l.Server == "":
		p.people.finish(w, r, front, caller, proof, l)
		return true
	case err != nil:
		write(w, http.StatusBadGateway, view{Title: "Sign in at " + l.Server, Problem: err.Error(), Again: URL("", l.Server)})
		return true
	}
	p.begin(w, caller, l.Epoch)
	http.Redirect(w, r, URL("", l.Server), http.StatusSeeOther)
	return true
}
