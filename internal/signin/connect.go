package signin

import (
	"context"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/net/address"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/store"
)

// Paths of the pages, below the base URL.
const (
	Path         = "/connect/"
	CallbackPath = "/connect/callback"
)

// Bounds of the pages.
const (
	sessionTime = 10 * time.Minute
	maxSessions = 1000
	maxBegun    = 8 // sign-ins of one browser at a time
	maxForm     = 64 << 10
	finishTime  = time.Minute // of an exchange of a code for a token
)

// SignIns starts and finishes sign-ins. Its methods are called concurrently.
type SignIns interface {
	// Owner returns whose a sign-in of a caller at a server is. The error is shown to the caller if
	// there is no sign-in at the server, or the caller may not make it.
	Owner(caller *identity.Identity, server string) (principal string, err error)
	// Begin starts a sign-in of a principal, for the caller of ctx, and returns the URL to send the browser
	// to. The browser comes back to redirect, or to a path below it.
	Begin(ctx context.Context, server, principal, redirect string) (address, state string, err error)
	// Finish ends the sign-in with the query with which the browser came back, and the tail of the path
	// behind redirect. ctx has the caller, and goes on if the browser goes away.
	Finish(ctx context.Context, principal, tail string, query url.Values) (server string, err error)
}

// Options configure Pages.
type Options struct {
	SignIns SignIns
	Texts   Texts // nil: there are none
	Front   Front
	// Docs tells all processes that share it of logouts by the provider.
	Docs store.Docs
	Now  func() time.Time // nil: time.Now
}

// A Front has the texts that the pages show to browsers. It changes with the configuration.
type Front struct {
	// Base is the URL of the gateway for browsers, without a final slash.
	Base string
	// Authenticate returns whose a token is. Nil takes every browser for the local principal.
	Authenticate func(r *http.Request, token string) (*identity.Identity, error)
	// Login knows people without a token; nil: there is none. It needs Authenticate.
	Login Login
	// SignedIn is called for each person who signs in at the gateway by Login for longer than one
	// page. The context has the person's identity. It may be nil.
	SignedIn func(ctx context.Context)
	// SignedOut is called when a person has signed out at the gateway. It may be nil.
	SignedOut func()
}

// Pages serves the pages. It is safe for concurrent use. The caller checks the headers Host and
// Origin of requests first.
type Pages struct {
	signIns SignIns
	texts   Texts
	now     func() time.Time
	front   atomic.Pointer[Front]
	key     []byte // of the tokens in forms
	open    *bounded.Map[string, *session]
	seal    cipher.AEAD   // of logins
	epoch   atomic.Uint64 // of logins, sessions and people; Forget starts the next
	people  *people
	logouts *logouts
}

// session is a browser whose person is known.
type session struct {
	caller  *identity.Identity
	epoch   uint64 // in which the caller was looked up
	started time.Time

	mu    sync.Mutex // guards below
	begun map[string]string
	order []string // states of begun, the oldest first
}

// New returns Pages.
func New(o Options) *Pages {
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Pages{
		signIns: o.SignIns, texts: o.Texts, now: o.Now, key: []byte(rand.Text()),
		open: bounded.New(bounded.Options[string, *session]{MaxCount: maxSessions, TTL: sessionTime, Now: o.Now}),
		seal: newSeal(),
	}
	p.people = newPeople(p)
	p.logouts = newLogouts(o, func() {
		if f := p.front.Load(); f.SignedOut != nil {
			f.SignedOut()
		}
	})
	p.front.Store(&o.Front)
	return p
}

// Apply replaces the front. Sign-ins that are in progress go on.
func (p *Pages) Apply(f Front) { p.front.Store(&f) }

// Forget ends all sessions and logins, and so the sign-ins that are in progress: who may sign in has
// changed.
//
// A caller who is being looked up meanwhile is of the epoch in which that started, so an entry that
// is stored for that caller afterwards counts for no request.
func (p *Pages) Forget() {
	p.epoch.Add(1)
	p.people.known.Clear()
	p.open.Clear()
}

// URL returns the address of the page of a server.
func URL(base, server string) string { return base + Path + url.PathEscape(server) }

// ServeHTTP implements http.Handler.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	httpserver.Protect(w.Header())
	server := strings.TrimPrefix(r.URL.Path, Path)
	tail, back := strings.CutPrefix(r.URL.Path, CallbackPath)
	switch {
	case back && (tail == "" || tail[0] == '/') && r.Method == http.MethodGet:
		p.callback(w, r, tail)
	case server == "" || strings.Contains(server, "/") || r.URL.Path == CallbackPath:
		write(w, http.StatusNotFound, view{Title: "There is no such page", Text: "The address of a server's page is /connect/NAME."})
	case r.Method == http.MethodGet:
		if home := p.home(r); home != "" {
			http.Redirect(w, r, home, http.StatusSeeOther)
			return
		}
		p.show(w, r, server, "")
	case r.Method == http.MethodPost:
		p.post(w, r, server)
	default:
		w.Header().Set("Allow", "GET, POST")
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
	}
}

// movedParam marks a page that a browser was sent to by home. A proxy that changes the Host could
// otherwise have home send it there again and again.
const movedParam = "moved"

// home returns where a browser goes that has opened a page under another name of this machine than the
// provider will send it back to. Its cookie would not be there. It is "" for all others.
func (p *Pages) home(r *http.Request) string {
	base, err := url.Parse(p.front.Load().Base)
	here := (&url.URL{Host: r.Host}).Hostname()
	if err != nil || !address.Loopback(base.Hostname()) || !address.Loopback(here) || strings.EqualFold(here, base.Hostname()) || r.URL.Query().Has(movedParam) {
		return ""
	}
	return base.Scheme + "://" + base.Host + r.URL.EscapedPath() + "?" + movedParam
}

// secure reports whether browsers reach the pages over TLS, also where a proxy in front speaks it.
func (p *Pages) secure() bool { return strings.HasPrefix(p.front.Load().Base, "https://") }

// cookieName returns the name of the cookie. A browser takes a name with __Host- only over TLS, and
// only from this host.
func (p *Pages) cookieName() string {
	if p.secure() {
		return "__Host-weir_connect"
	}
	return "weir_connect"
}

// browser returns the text that stands for a browser, "" if it has none yet.
func (p *Pages) browser(r *http.Request) string {
	c, err := r.Cookie(p.cookieName())
	if err != nil || len(c.Value) > 100 {
		return ""
	}
	return c.Value
}

// mark gives a browser a new text.
func (p *Pages) mark(w http.ResponseWriter) string {
	text := rand.Text() + rand.Text()
	// Lax, because the authorization server sends the browser back.
	http.SetCookie(w, &http.Cookie{Name: p.cookieName(), Value: text, Path: "/", HttpOnly: true, Secure: p.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(sessionTime / time.Second)})
	return text
}

// formToken returns the text that a form of a browser must hold: a page of another site cannot know
// it.
func (p *Pages) formToken(browser string) string {
	mac := hmac.New(sha256.New, p.key)
	mac.Write([]byte(browser))
	return hex.EncodeToString(mac.Sum(nil))
}

// sessionOf returns the session of a browser, or nil. The map has no text that a browser could show.
func (p *Pages) sessionOf(browser string) *session {
	s, _ := p.open.Get(p.formToken("session " + browser))
	if s == nil || s.epoch != p.epoch.Load() || p.logouts.ended(s.caller, s.started) {
		return nil
	}
	return s
}

// begin starts a session of a caller in a browser, with a new text for the browser. epoch is the one
// in which the lookup of the caller started.
func (p *Pages) begin(w http.ResponseWriter, caller *identity.Identity, epoch uint64) (browser string, s *session) {
	browser, s = p.mark(w), p.newSession(caller, epoch)
	p.open.Put(p.formToken("session "+browser), s, 0)
	return browser, s
}

func (p *Pages) newSession(caller *identity.Identity, epoch uint64) *session {
	return &session{caller: caller.WithoutCredential(), epoch: epoch, started: p.now(), begun: map[string]string{}}
}

// show writes the page of a server: a question for a token, or the button that starts a sign-in.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, server, problem string) {
	browser := p.browser(r)
	s := p.sessionOf(browser)
	switch {
	case s == nil && p.front.Load().Authenticate == nil:
		s = p.newSession(identity.From(r.Context()), 0) // only for this page
		if browser == "" {
			browser = p.mark(w)
		}
	case s == nil:
		if browser == "" {
			browser = p.mark(w)
		}
		status := http.StatusOK
		if problem != "" {
			status = http.StatusUnauthorized
		}
		p.ask(w, status, server, problem, browser)
		return
	}
	if p.showTexts(w, r, s, server, browser, "") {
		return
	}
	if _, err := p.signIns.Owner(s.caller, server); err != nil {
		write(w, http.StatusForbidden, view{Title: "Sign in at " + server, Problem: err.Error()})
		return
	}
	write(w, http.StatusOK, view{Title: "Sign in at " + server, Form: p.formToken(browser), Go: true, Caller: s.name(),
		Text: "The next page is of the server's provider. Check its address before you enter a password there."})
}

// name returns who the person is, for the page; "" for the local principal.
func (s *session) name() string {
	if s.caller.Principal == identity.Local {
		return ""
	}
	return s.caller.Principal
}

// post takes the form of a page.
func (p *Pages) post(w http.ResponseWriter, r *http.Request, server string) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	browser := p.browser(r)
	if err := r.ParseForm(); err != nil || browser == "" || subtle.ConstantTimeCompare([]byte(r.PostForm.Get("form")), []byte(p.formToken(browser))) != 1 {
		write(w, http.StatusForbidden, view{Title: "This form is not valid any more", Text: "Open the page again. The browser must accept its cookie.", Again: URL("", server)})
		return
	}
	epoch, front := p.epoch.Load(), p.front.Load()
	if token := strings.TrimSpace(r.PostForm.Get("token")); token != "" && front.Authenticate != nil {
		caller, err := front.Authenticate(r, token)
		if err != nil {
			p.show(w, r, server, "The gateway does not know this token.")
			return
		}
		p.begin(w, caller, epoch)
		http.Redirect(w, r, URL("", server), http.StatusSeeOther)
		return
	}
	if r.PostForm.Get("login") != "" && front.Login != nil {
		p.beginLogin(w, r, front, server, browser)
		return
	}
	s := p.sessionOf(browser)
	fresh := s == nil && front.Authenticate == nil
	if fresh {
		s = p.newSession(identity.From(r.Context()), epoch)
	}
	if s != nil && p.postText(w, r, s, server, browser) {
		return
	}
	if s == nil || r.PostForm.Get("go") == "" {
		p.show(w, r, server, "")
		return
	}
	owner, err := p.signIns.Owner(s.caller, server)
	if err != nil {
		write(w, http.StatusForbidden, view{Title: "Sign in at " + server, Problem: err.Error()})
		return
	}
	address, state, err := p.signIns.Begin(identity.With(r.Context(), s.caller), server, owner, front.Base+CallbackPath)
	if err != nil {
		write(w, http.StatusBadGateway, view{Title: "Sign in at " + server, Problem: err.Error(), Again: URL("", server)})
		return
	}
	if fresh {
		_, s = p.begin(w, s.caller, epoch)
	}
	s.note(state, owner)
	// A redirect from a form would need the provider in form-action, which nothing knows in advance.
	write(w, http.StatusOK, view{Title: "Sign in at " + server, Text: "The browser goes to the provider now.", Next: address})
}

// note remembers a sign-in that this browser has started.
func (s *session) note(state, owner string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) >= maxBegun {
		delete(s.begun, s.order[0])
		s.order = s.order[1:]
	}
	s.begun[state], s.order = owner, append(s.order, state)
}

// take returns the principal of a sign-in that this browser has started, once.
func (s *session) take(state string) (owner string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	owner, ok = s.begun[state]
	delete(s.begun, state)
	return owner, ok
}

// callback takes a browser that comes back from an authorization server. tail is the path below
// CallbackPath.
func (p *Pages) callback(w http.ResponseWriter, r *http.Request, tail string) {
	query := r.URL.Query()
	unknown := view{Title: "This sign-in is not open", Text: "It was used already, is older than 10 minutes, or was begun in another browser. Open the page /connect/NAME again."}
	if tail == "" && p.finishLogin(w, r, query) {
		return
	}
	s := p.sessionOf(p.browser(r))
	if s == nil {
		write(w, http.StatusBadRequest, unknown)
		return
	}
	owner, ok := s.take(query.Get("state"))
	if !ok {
		write(w, http.StatusBadRequest, unknown)
		return
	}
	// The code can be used once, so a browser that goes away does not end the exchange.
	ctx, cancel := context.WithTimeout(identity.With(context.WithoutCancel(r.Context()), s.caller), finishTime)
	defer cancel()
	server, err := p.signIns.Finish(ctx, owner, tail, query)
	switch {
	case err != nil && server == "":
		write(w, http.StatusBadRequest, unknown)
	case err != nil:
		write(w, http.StatusBadGateway, view{Title: "Sign in at " + server, Problem: err.Error(), Again: URL("", server)})
	default:
		write(w, http.StatusOK, view{Title: "Signed in at " + server, Caller: s.name(), Text: "You can close this page and go on in your client."})
	}
}
