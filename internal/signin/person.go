package signin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// LoginPath signs the person of a browser in at the gateway, and out: GET says who is signed in,
	// POST starts a login, DELETE signs out and says where the provider does so as well (spec/signin §10).
	LoginPath = "/login"
	// LoginHeader is the header in which the page shows the token of its login with each change.
	LoginHeader = "Weir-Login"

	consolePath = "/console"
	personTime  = 8 * time.Hour
)

// people are the browsers whose person has signed in at the gateway. It holds nothing for browsers
// whose person has not.
type people struct {
	pages *Pages
	known *bounded.Map[string, *person]
}

// person is who has signed in, in the epoch in which the login started.
type person struct {
	*identity.Identity
	proof   identity.Secret // for Login.End
	epoch   uint64
	started time.Time
}

func newPeople(p *Pages) *people {
	return &people{
		pages: p, known: bounded.New(bounded.Options[string, *person]{MaxCount: maxSessions, TTL: personTime, Now: p.now}),
	}
}

// cookie returns the name of the cookie of a person.
func (s *people) cookie() string {
	if s.pages.secure() {
		return "__Host-weir_person"
	}
	return "weir_person"
}

// text returns the text that stands for a signed-in browser, "" if there is none.
func (s *people) text(r *http.Request) string {
	c, err := r.Cookie(s.cookie())
	if err != nil || len(c.Value) > 100 {
		return ""
	}
	return c.Value
}

// slot returns the place of a text in known, which has no text that a browser could show.
func (s *people) slot(text string) string { return s.pages.formToken("person " + text) }

// token returns the text that the page of a signed-in browser sends with changes.
func (s *people) token(text string) string { return s.pages.formToken("login " + text) }

// of returns who has signed in with a text, or nil.
func (s *people) of(text string) *identity.Identity {
	p, ok := s.known.Get(s.slot(text))
	if !ok || p.epoch != s.pages.epoch.Load() || s.pages.logouts.ended(p.Identity, p.started) {
		return nil
	}
	return p.Identity
}

// enter signs the person of a browser in.
func (s *people) enter(w http.ResponseWriter, caller *identity.Identity, proof identity.Secret, l *begunLogin) {
	text := rand.Text() + rand.Text()
	id := *caller.WithoutCredential()
	id.Expires = s.pages.now().Add(personTime)
	s.known.Put(s.slot(text), &person{&id, proof, l.Epoch, l.Until.Add(-sessionTime)}, 0)
	s.set(w, text, int(personTime/time.Second))
}

// set sets the cookie. It is strict: no request that another site causes has it.
func (s *people) set(w http.ResponseWriter, text string, seconds int) {
	http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: text, Path: "/", HttpOnly: true, Secure: s.pages.secure(), SameSite: http.SameSiteStrictMode, MaxAge: seconds})
}

// Person returns who has signed in at the browser of a request, or nil. A request that changes
// something must show the token of its login, which pages of other origins cannot read; the error is
// of mcp.KindPermissionDenied. The caller checks that pages of other origins did not send the request.
func (p *Pages) Person(r *http.Request) (*identity.Identity, error) {
	text := p.people.text(r)
	if text == "" || p.front.Load().Login == nil {
		return nil, nil
	}
	id := p.people.of(text)
	if id == nil {
		return nil, nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead && !p.people.shown(r, text) {
		return nil, mcp.Errorf(mcp.KindPermissionDenied, "a change by a login needs the header %s with the token that GET %s answers", LoginHeader, LoginPath)
	}
	return id, nil
}

// SignedIn reports whether a person has signed in at the browser of a request.
func (p *Pages) SignedIn(r *http.Request) bool {
	return p.people.of(p.people.text(r)) != nil && p.front.Load().Login != nil
}

// shown reports whether a request shows the token of its login.
func (s *people) shown(r *http.Request, text string) bool {
	return subtle.ConstantTimeCompare([]byte(r.Header.Get(LoginHeader)), []byte(s.token(text))) == 1
}

// signedIn is the answer of GET LoginPath.
type signedIn struct {
	// Login is the name of the issuer; "" if the gateway has no login for browsers.
	Login string `json:"login"`
	// Principal is who is signed in; "" if the browser is not. Token goes into LoginHeader.
	Principal string     `json:"principal,omitempty"`
	Roles     []string   `json:"roles,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"`
	Token     string     `json:"token,omitempty"`
	// Address is where the provider ends its own session, in the answer of a sign-out; "" if it has no such page.
	Address string `json:"address,omitempty"`
}

// ServeLogin serves LoginPath. The caller admits only the gateway's own pages.
func (p *Pages) ServeLogin(w http.ResponseWriter, r *http.Request) {
	httpserver.Protect(w.Header())
	front := p.front.Load()
	switch {
	case r.Method == http.MethodGet:
		answer(w, http.StatusOK, p.people.who(r, front))
	case front.Login == nil:
		refuse(w, http.StatusNotFound, "this gateway has no login for browsers; the operator sets auth.login")
	case r.Method == http.MethodPost:
		p.people.begin(w, r, front)
	case r.Method == http.MethodDelete:
		text := p.people.text(r)
		if p.people.of(text) != nil && !p.people.shown(r, text) {
			refuse(w, http.StatusForbidden, "a sign-out needs the header "+LoginHeader+" with the token that GET "+LoginPath+" answers")
			return
		}
		answer(w, http.StatusOK, p.people.leave(w, r, front, text))
	default:
		w.Header().Set("Allow", "GET, POST, DELETE")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// who says who is signed in at a browser.
func (s *people) who(r *http.Request, front *Front) signedIn {
	if front.Login == nil {
		return signedIn{}
	}
	out := signedIn{Login: front.Login.Name()}
	text := s.text(r)
	if id := s.of(text); id != nil {
		out.Principal, out.Roles, out.Expires, out.Token = id.Principal, id.Roles, &id.Expires, s.token(text)
	}
	return out
}

// begin starts a login and answers with the address to send the browser to. A page that was opened
// under another name of the gateway is sent to the name to which the issuer will send the browser back,
// because its cookies would not be there.
func (s *people) begin(w http.ResponseWriter, r *http.Request, front *Front) {
	if origin := r.Header.Get("Origin"); origin != "" && address.Origin(origin) != address.Origin(front.Base) {
		answer(w, http.StatusOK, map[string]string{"address": front.Base + consolePath})
		return
	}
	browser := s.pages.browser(r)
	if browser == "" {
		browser = s.pages.mark(w)
	}
	address, err := s.pages.sendOff(w, r, front, "", browser)
	if err != nil {
		refuse(w, http.StatusBadGateway, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{"address": address})
}

// leave signs the person of a browser out, whether or not the provider can be asked where it ends its own session.
func (s *people) leave(w http.ResponseWriter, r *http.Request, front *Front, text string) signedIn {
	out := signedIn{Login: front.Login.Name()}
	p, ok := s.known.Take(s.slot(text))
	s.set(w, "", -1)
	if front.SignedOut != nil {
		front.SignedOut()
	}
	if ok && p.epoch == s.pages.epoch.Load() {
		out.Address = front.Login.End(r.Context(), p.proof, front.Base+consolePath)
	}
	return out
}

// finish signs a person in who comes back from the issuer.
func (s *people) finish(w http.ResponseWriter, r *http.Request, front *Front, caller *identity.Identity, proof identity.Secret, l *begunLogin) {
	s.enter(w, caller, proof, l)
	if front.SignedIn != nil {
		front.SignedIn(identity.With(r.Context(), caller))
	}
	http.Redirect(w, r, front.Base+consolePath, http.StatusSeeOther)
}

func answer(w http.ResponseWriter, status int, v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "internal error", http.StatusInternalServerError) // cannot happen: only texts
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(raw) // the browser may have gone
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]any{"error": map[string]string{"message": why}})
}
