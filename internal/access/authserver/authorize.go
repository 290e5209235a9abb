package authserver

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/net/httpserver"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of an authorization. The cookie of a sign-in must fit into 4,096 bytes.
const (
	signInTime = 10 * time.Minute
	codeTime   = time.Minute
	replayTime = 10 * time.Minute // in which a second use of a code is noticed
	maxState   = 1500
	maxCookie  = 3900
	maxForm    = 64 << 10
)

// request is an authorization request that was checked.
type request struct {
	Client, Redirect, State, Challenge string
	Resource                           string // the audience
	Asked                              string // the resource as the client wrote it
	Scopes                             []string
	Nonce, JKT, Hint                   string `json:",omitempty"`
	Ask                                bool   `json:",omitempty"` // for consent, whatever was agreed before
}

// begunSignIn is a request whose person is not known yet. The browser keeps it, sealed.
type begunSignIn struct {
	request
	State0 string // of the sign-in: the browser comes back with it
	Memo   string `json:",omitempty"`
	Until  int64
}

// pending is a request whose person is known and has not agreed yet.
type pending struct {
	request
	Person Person
	At     int64 // of the sign-in
}

// code is what an authorization code stands for.
type code struct {
	pending
	Grant string // that it starts
	Spent bool
}

// authorize answers authorizePath.
func (x *exchange) authorize() {
	q, err := url.ParseQuery(x.r.URL.RawQuery)
	if err != nil {
		x.page(http.StatusBadRequest, view{Title: "This link is damaged", Problem: "Its query cannot be read. Start again in your client."})
		return
	}
	if pushed := q.Get("request_uri"); pushed != "" {
		if q, err = x.pushed(pushed, q.Get("client_id")); err != nil {
			x.stranger(err)
			return
		}
	}
	c, err := x.client(x.r.Context(), q.Get("client_id"))
	if err != nil {
		x.stranger(err)
		return
	}
	req, err := x.checked(c, q)
	if err != nil {
		x.rejected(req, err)
		return
	}
	if slices.Contains(strings.Fields(q.Get("prompt")), "none") {
		x.sendBack(req, url.Values{"error": {"login_required"}, "error_description": {"a person has to sign in here"}})
		return
	}
	x.start(c, req)
}

// stranger tells a person that a client is not served. The browser is sent nowhere.
func (x *exchange) stranger(err error) {
	why := "The gateway cannot look the client up now. Try again in your client."
	status := http.StatusBadGateway
	var r *refusal
	if errors.As(err, &r) {
		why, status = r.why, http.StatusBadRequest
	} else {
		x.log.Warn("a client cannot be looked up", "err", err)
	}
	if x.o.Refused != nil {
		x.o.Refused(x.r, status, err)
	}
	x.page(status, view{Title: "This client cannot sign in here", Problem: why})
}

// rejected tells a client that its request is not served. Without a redirect of the client the person is told.
func (x *exchange) rejected(req *request, err error) {
	var r *refusal
	if !errors.As(err, &r) || req.Redirect == "" {
		x.stranger(err)
		return
	}
	if x.o.Refused != nil {
		x.o.Refused(x.r, http.StatusBadRequest, err)
	}
	x.sendBack(req, url.Values{"error": {r.code}, "error_description": {r.why}})
}

// challengePattern matches the challenge of S256: SHA-256 in base64url.
var challengePattern = regexp.MustCompile(`^[A-Za-z0-9_-]{43}$`)

// checked reads an authorization request. The request of an error has a Redirect if the client may be told there.
func (x *exchange) checked(c *Client, q url.Values) (*request, error) {
	for name, values := range q {
		if len(values) > 1 && name != "resource" {
			return &request{}, refused("invalid_request", text.Line(name, 40)+" is there twice")
		}
	}
	req := &request{Client: c.ID}
	redirect := q.Get("redirect_uri")
	switch {
	case redirect == "":
		return req, refused("invalid_request", "redirect_uri is missing")
	case !c.redirects(redirect):
		return req, refused("invalid_request", "The client wants the browser to be sent to an address that it has not registered.")
	case len(q.Get("state")) > maxState:
		return req, refused("invalid_request", "state is too long")
	}
	req.Redirect, req.State = redirect, q.Get("state")
	mode, challenge := q.Get("response_mode"), q.Get("code_challenge")
	switch {
	case q.Get("request") != "" || q.Get("registration") != "":
		return req, refused("request_not_supported", "requests as objects are not supported; push the request to "+pushPath)
	case q.Get("response_type") != "code":
		return req, refused("unsupported_response_type", "response_type must be code")
	case mode != "" && mode != "query":
		return req, refused("invalid_request", "response_mode must be query")
	case challenge == "" || q.Get("code_challenge_method") != "S256":
		return req, refused("invalid_request", "PKCE is required: code_challenge with code_challenge_method S256")
	case !challengePattern.MatchString(challenge):
		return req, refused("invalid_request", "code_challenge is not a SHA-256 in base64url")
	}
	req.Challenge, req.Nonce, req.JKT, req.Hint = challenge, q.Get("nonce"), q.Get("dpop_jkt"), text.Line(q.Get("login_hint"), 200)
	req.Ask = slices.Contains(strings.Fields(q.Get("prompt")), "consent")
	if len(req.Nonce) > 300 || len(req.JKT) > 64 {
		return req, refused("invalid_request", "nonce or dpop_jkt is too long")
	}
	var err error
	if req.Resource, err = x.p.audience(q["resource"]); err != nil {
		return req, err
	}
	req.Asked = q.Get("resource")
	req.Scopes, err = x.p.scopes(c, q.Get("scope"))
	return req, err
}

// cookie returns the name of a cookie of one sign-in. tail is the beginning of its state.
func (x *exchange) cookie(kind, state string) string {
	name := "weir_" + kind + "_" + state[:min(len(state), 10)]
	if x.p.secure() {
		name = "__Host-" + name
	}
	return name
}

// set sets a cookie for a sign-in; seconds below 0 remove it. It is lax, because the provider sends the browser back.
func (x *exchange) set(name, value string, life time.Duration) {
	http.SetCookie(x.w, &http.Cookie{Name: name, Value: value, Path: "/", HttpOnly: true, Secure: x.p.secure(), SameSite: http.SameSiteLaxMode, MaxAge: int(life / time.Second)})
}

// start asks who the person is.
func (x *exchange) start(c *Client, req *request) {
	b := begunSignIn{request: *req, Until: x.now().Add(signInTime).Unix()}
	next := ""
	if x.p.People == nil {
		b.State0 = rand.Text()
	} else {
		var memo identity.Secret
		var err error
		if next, b.State0, memo, err = x.p.People.Begin(x.r.Context(), req.Hint); err != nil {
			x.log.Warn("the provider where people sign in cannot be asked", "provider", x.p.People.Name(), "err", err)
			x.page(http.StatusBadGateway, view{Title: "Sign in at " + x.p.People.Name(), Problem: "The provider cannot be asked now. Try again in your client."})
			return
		}
		b.Memo = string(memo)
	}
	raw, err := json.Marshal(b)
	sealed := x.key.Seal(purpose+"/sign-in", raw, []byte(b.State0))
	if err != nil || len(sealed) > maxCookie {
		x.rejected(req, refused("invalid_request", "the request is too long"))
		return
	}
	x.set(x.cookie("signin", b.State0), sealed, signInTime)
	if next != "" {
		http.Redirect(x.w, x.r, next, http.StatusFound)
		return
	}
	x.page(http.StatusOK, view{Title: "Sign in", Password: true, Request: b.State0, Name: req.Hint, Client: c.label(), Back: req.Redirect, Path: signInPath})
}

// started returns the sign-in of this browser with a state, and nil if there is none.
func (x *exchange) started(state string) *begunSignIn {
	cookie, err := x.r.Cookie(x.cookie("signin", state))
	if err != nil || state == "" {
		return nil
	}
	raw, ok := x.key.Open(purpose+"/sign-in", cookie.Value, []byte(state))
	var b begunSignIn
	if !ok || json.Unmarshal(raw, &b) != nil || b.State0 != state || x.now().Unix() >= b.Until {
		return nil
	}
	return &b
}

// lost tells a person that a sign-in is not open.
func (x *exchange) lost() {
	x.page(http.StatusBadRequest, view{Title: "This sign-in is not open", Problem: "It was used already, is older than 10 minutes, or was started in another browser. Start again in your client."})
}

// Callback takes a browser that comes back from the provider. It reports false if the browser has started no sign-in
// of this Server with the state of the request.
func (s *Server) Callback(w http.ResponseWriter, r *http.Request) bool {
	p := s.policy.Load()
	if p == nil || p.People == nil {
		return false
	}
	x := &exchange{Server: s, p: p, w: w, r: r}
	q := r.URL.Query()
	b := x.started(q.Get("state"))
	if b == nil {
		return false
	}
	httpserver.Protect(w.Header())
	x.set(x.cookie("signin", b.State0), "", -time.Second)
	person, err := p.People.Finish(r.Context(), identity.Secret(b.Memo), q)
	if err != nil {
		x.log.Info("a sign-in has failed", "provider", p.People.Name(), "err", err)
		x.page(http.StatusBadGateway, view{Title: "Sign in at " + p.People.Name(), Problem: err.Error()})
		return true
	}
	x.known(&b.request, person)
	return true
}

// signIn answers signInPath: a person's name and password.
func (x *exchange) signIn() {
	if !x.form() {
		return
	}
	b := x.started(x.r.PostForm.Get("request"))
	if b == nil || x.p.People != nil {
		x.lost()
		return
	}
	c, err := x.client(x.r.Context(), b.Client)
	if err != nil {
		x.stranger(err)
		return
	}
	name := x.r.PostForm.Get("name")
	account, wait, err := x.password(name, x.r.PostForm.Get("password"))
	if err != nil {
		status, problem := http.StatusUnauthorized, "The name or the password is wrong."
		if wait > 0 {
			x.w.Header().Set("Retry-After", seconds(wait))
			status, problem = http.StatusTooManyRequests, "There were too many attempts. Wait "+wait.Round(time.Second).String()+" and try again."
		}
		if x.o.Refused != nil {
			x.o.Refused(x.r, status, err)
		}
		x.page(status, view{Title: "Sign in", Problem: problem, Password: true, Request: b.State0, Name: text.Line(name, 64), Client: c.label(), Back: b.Redirect, Path: signInPath})
		return
	}
	x.set(x.cookie("signin", b.State0), "", -time.Second)
	x.known(&b.request, account.person())
}

// form reads a form that a page of this Server has sent.
func (x *exchange) form() bool {
	x.r.Body = http.MaxBytesReader(x.w, x.r.Body, maxForm)
	if err := x.r.ParseForm(); err != nil {
		x.page(http.StatusBadRequest, view{Title: "This form is damaged", Problem: "Start again in your client."})
		return false
	}
	return true
}

// known goes on with a person who has signed in: to the page that asks for consent, or back to the client if the
// person has agreed before.
func (x *exchange) known(req *request, person *Person) {
	ctx := identity.With(x.r.Context(), person.identity(req.Client))
	x.o.Tell(ctx, SignedIn, "at the authorization server, for "+text.Line(req.Client, 200))
	c, err := x.client(x.r.Context(), req.Client)
	if err != nil {
		x.stranger(err)
		return
	}
	p := pending{request: *req, Person: *person, At: x.now().Unix()}
	if req.Client == ownClient || x.agreed(ctx, &p) {
		x.grantCode(ctx, &p)
		return
	}
	secret := rand.Text() + rand.Text()
	if err := x.keep(ctx, pendingPrefix+store.Hash(secret), p, 0, signInTime); err != nil {
		x.stranger(err)
		return
	}
	x.set(x.cookie("consent", secret), secret, signInTime)
	x.askConsent(c, &p, secret)
}

// consent answers consentPath: a person's decision.
func (x *exchange) consent() {
	if !x.form() {
		return
	}
	shown := x.r.PostForm.Get("request")
	cookie, err := x.r.Cookie(x.cookie("consent", shown))
	if err != nil || !x.isMac("consent form", cookie.Value, strings.TrimPrefix(shown, cookie.Value[:min(10, len(cookie.Value))]+".")) {
		x.lost()
		return
	}
	key := pendingPrefix + store.Hash(cookie.Value)
	var p pending
	rev, ok, err := x.load(x.r.Context(), key, &p)
	if err == nil && ok {
		err = x.docs.Delete(x.r.Context(), key, rev)
	}
	switch {
	case err != nil && !errors.Is(err, store.ErrConflict):
		x.stranger(err)
		return
	case err != nil || !ok:
		x.lost()
		return
	}
	x.set(x.cookie("consent", cookie.Value), "", -time.Second)
	ctx := identity.With(x.r.Context(), p.Person.identity(p.Client))
	if x.r.PostForm.Get("decision") != "allow" {
		x.o.Tell(ctx, Denied, text.Line(p.Client, 200))
		x.sendBack(&p.request, url.Values{"error": {"access_denied"}, "error_description": {"the person has said no"}})
		return
	}
	x.o.Tell(ctx, Consented, text.Line(p.Client, 200)+" gets "+strings.Join(p.Scopes, " ")+" at "+p.Resource)
	x.remember(ctx, &p)
	x.grantCode(ctx, &p)
}

// consentOf is what a person has agreed to for one client.
type consentOf struct {
	Redirect, Resource string
	Scopes             []string
}

func (p *pending) consentKey() string {
	return consentPrefix + store.Hash(p.Person.Principal+"\n"+p.Client+"\n"+p.Resource+"\n"+hostOf(p.Redirect))
}

// agreed reports whether the person has agreed before to what the client asks for.
func (x *exchange) agreed(ctx context.Context, p *pending) bool {
	if x.p.AlwaysConsent || p.Ask || !remembers(p.Redirect) {
		return false
	}
	var before consentOf
	_, ok, err := x.load(ctx, p.consentKey(), &before)
	return err == nil && ok && !slices.ContainsFunc(p.Scopes, func(scope string) bool { return !slices.Contains(before.Scopes, scope) })
}

// remember keeps a consent as long as a grant can last.
func (x *exchange) remember(ctx context.Context, p *pending) {
	if x.p.AlwaysConsent || !remembers(p.Redirect) {
		return
	}
	key := p.consentKey()
	_, err := store.Change(ctx, x.docs, key, func(d store.Doc) ([]byte, time.Duration, error) {
		value, err := x.encode(key, consentOf{p.Redirect, p.Resource, p.Scopes})
		return value, x.p.RefreshTime, err
	})
	if err != nil {
		x.log.Warn("a consent is not remembered", "err", err)
	}
}

// grantCode sends the browser back with a code.
func (x *exchange) grantCode(ctx context.Context, p *pending) {
	text := rand.Text() + rand.Text()
	if err := x.keep(ctx, codePrefix+store.Hash(text), code{pending: *p, Grant: rand.Text()}, 0, codeTime); err != nil {
		x.stranger(err)
		return
	}
	x.registered.use(ctx, p.Client)
	x.sendBack(&p.request, url.Values{"code": {text}})
}

// sendBack sends the browser back to the client.
func (x *exchange) sendBack(req *request, answer url.Values) {
	u, err := url.Parse(req.Redirect)
	if err != nil {
		x.lost() // cannot happen: it was checked
		return
	}
	q := u.Query()
	for name, values := range answer {
		q.Set(name, values[0])
	}
	if req.State != "" {
		q.Set("state", req.State)
	}
	q.Set("iss", x.p.Issuer) // RFC 9207
	u.RawQuery = q.Encode()
	status := http.StatusFound
	if x.r.Method == http.MethodPost {
		status = http.StatusSeeOther
	}
	x.w.Header().Set("Location", u.String())
	x.w.WriteHeader(status)
}
