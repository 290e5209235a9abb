package fakeidp

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Options configures a Provider. The zero value needs only an Issuer.
type Options struct {
	// Issuer is the URL that tokens and metadata name, with or without a path.
	Issuer string
	// Alg is the algorithm of the first signer; "ES256" where empty.
	Alg string
	// Now is the clock; time.Now where nil.
	Now func() time.Time
	// CacheControl is the header of the answers with keys; none where empty.
	CacheControl string
	// ClientID and ClientSecret are the credentials that introspection and the token endpoint
	// expect by HTTP Basic or in the form; all clients are admitted where ClientID is empty.
	ClientID, ClientSecret string
	// OpenIDOnly leaves out the metadata of RFC 8414, as many providers do.
	OpenIDOnly bool
	// Plain is OAuth as GitHub has it: no ID tokens, no refresh tokens, secrets in the form, and errors with status 200.
	Plain bool
}

// A Provider is one issuer. It is safe for concurrent use.
type Provider struct {
	o Options

	mu       sync.Mutex // guards below
	signers  []*Signer
	opaque   map[string]map[string]any
	codes    map[string]grant
	refresh  map[string]grant
	requests map[string]int
	down     bool
	refusing bool
	metadata map[string]any
	idToken  map[string]any
	keys     []map[string]any
	issued   map[string]map[string]any // claims of the tokens of Token
	trusted  []*Provider
	failing  map[string]any // the answer of exchanges
	forms    []url.Values   // of exchanges
	about    map[string]fact
}

// A fact is what an access token opens.
type fact struct {
	answer any
	more   bool
}

// New returns a Provider with one signer.
func New(o Options) *Provider {
	if o.Alg == "" {
		o.Alg = "ES256"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	p := &Provider{o: o, opaque: map[string]map[string]any{}, codes: map[string]grant{}, refresh: map[string]grant{}, requests: map[string]int{}, issued: map[string]map[string]any{}}
	p.Rotate(o.Alg)
	return p
}

// Issuer returns the URL that tokens and metadata name.
func (p *Provider) Issuer() string { return p.o.Issuer }

// Client returns an HTTP client that reaches the Provider without a network, and nothing else.
func (p *Provider) Client() *http.Client { return &http.Client{Transport: transport{p}} }

// Start serves a Provider at a free port on loopback. Its issuer is the URL of the server plus path.
// The caller closes the server.
func Start(o Options, path string) (*Provider, *httptest.Server) {
	var p *Provider
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.ServeHTTP(w, r) }))
	o.Issuer = server.URL + path
	p = New(o)
	return p, server
}

// Outage makes every request fail with 503 until it is called with false.
func (p *Provider) Outage(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = on
}

// Unreachable makes the in-memory client fail as if no server listened.
func (p *Provider) Unreachable(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusing = on
}

// Requests returns how many requests came to a path, such as "/t/jwks".
func (p *Provider) Requests(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.requests[path]
}

// SetMetadata overrides members of the metadata; a nil value removes one.
func (p *Provider) SetMetadata(changes map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.metadata = changes
}

// SetIDToken overrides claims of ID tokens; a nil value removes one.
func (p *Provider) SetIDToken(changes map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idToken = changes
}

// About makes a URL, which may be of another host, answer those who show an access token of the Provider. more says that
// the answer goes on at another page.
func (p *Provider) About(address string, answer any, more bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.about == nil {
		p.about = map[string]fact{}
	}
	_, place, _ := strings.Cut(address, "://")
	p.about[place] = fact{answer, more}
}

// tell answers at a URL of About. It reports false at every other one.
func (p *Provider) tell(w http.ResponseWriter, r *http.Request) bool {
	host := r.URL.Host
	if host == "" { // a server's request
		host = r.Host
	}
	p.mu.Lock()
	known, ok := p.about[host+r.URL.RequestURI()]
	p.mu.Unlock()
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case !ok:
		return false
	case p.Claims(token) == nil || r.Header.Get("User-Agent") == "":
		reply(w, http.StatusUnauthorized, map[string]any{"message": "Bad credentials"})
	default:
		if known.more {
			w.Header().Set("Link", `<https://api.example/next>; rel="next", <https://api.example/last>; rel="last"`)
		}
		reply(w, http.StatusOK, known.answer)
	}
	return true
}

// EndTokens makes the Provider forget the access tokens that it has issued.
func (p *Provider) EndTokens() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.issued)
}

// AddKey publishes a key that the Provider does not sign with.
func (p *Provider) AddKey(jwk map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keys = append(p.keys, jwk)
}

// Opaque returns a token that introspection knows, with claims added to the default ones of Token.
func (p *Provider) Opaque(claims map[string]any) string {
	token := "opaque-" + random()
	all := p.claims(claims)
	all["active"] = true
	p.mu.Lock()
	defer p.mu.Unlock()
	p.opaque[token] = all
	return token
}

// Revoke ends an opaque token.
func (p *Provider) Revoke(token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.opaque, token)
}

// ServeHTTP implements http.Handler.
func (p *Provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.requests[r.URL.Path]++
	down := p.down
	p.mu.Unlock()
	if down {
		http.Error(w, "the provider is down", http.StatusServiceUnavailable)
		return
	}
	if p.tell(w, r) {
		return
	}
	base, _ := url.Parse(p.o.Issuer)
	path := strings.TrimSuffix(base.Path, "/")
	switch r.URL.Path {
	case "/.well-known/oauth-authorization-server" + path:
		if p.o.OpenIDOnly {
			http.NotFound(w, r)
			return
		}
		reply(w, http.StatusOK, p.described())
	case "/.well-known/openid-configuration" + path, path + "/.well-known/openid-configuration":
		reply(w, http.StatusOK, p.described())
	case path + "/jwks":
		if p.o.CacheControl != "" {
			w.Header().Set("Cache-Control", p.o.CacheControl)
		}
		reply(w, http.StatusOK, map[string]any{"keys": p.published()})
	case path + "/introspect":
		p.introspect(w, r)
	case path + "/authorize":
		p.authorize(w, r)
	case path + "/token":
		p.token(w, r)
	default:
		http.NotFound(w, r)
	}
}

// described returns the metadata document.
func (p *Provider) described() map[string]any {
	at := strings.TrimSuffix(p.o.Issuer, "/")
	all := map[string]any{
		"issuer": p.o.Issuer, "jwks_uri": at + "/jwks", "introspection_endpoint": at + "/introspect",
		"authorization_endpoint": at + "/authorize", "token_endpoint": at + "/token",
		"response_types_supported": []string{"code"}, "grant_types_supported": []string{"authorization_code", "refresh_token", "client_credentials"},
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for name, value := range p.metadata {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// claims returns the claims of an access token of an hour, with changes; a nil value removes one.
func (p *Provider) claims(changes map[string]any) map[string]any {
	now := p.o.Now().Unix()
	all := map[string]any{"iss": p.o.Issuer, "sub": "u1", "iat": now, "exp": now + 3600}
	maps.Copy(all, changes)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func (p *Provider) introspect(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || !p.admits(r) {
		http.Error(w, "invalid_client", http.StatusUnauthorized)
		return
	}
	p.mu.Lock()
	claims := p.opaque[r.FormValue("token")]
	p.mu.Unlock()
	if claims == nil {
		reply(w, http.StatusOK, map[string]any{"active": false})
		return
	}
	reply(w, http.StatusOK, claims)
}

// admits reports whether a request comes from the configured client.
func (p *Provider) admits(r *http.Request) bool {
	id, secret, ok := r.BasicAuth()
	if ok { // RFC 6749 §2.3.1
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
	} else {
		id, secret = r.FormValue("client_id"), r.FormValue("client_secret")
	}
	return p.o.ClientID == "" || id == p.o.ClientID && secret == p.o.ClientSecret
}

// transport calls a Provider in memory.
type transport struct{ p *Provider }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	base, err := url.Parse(t.p.o.Issuer)
	if err != nil {
		return nil, err
	}
	t.p.mu.Lock()
	refusing := t.p.refusing
	t.p.mu.Unlock()
	w := httptest.NewRecorder()
	switch {
	case !refusing && t.p.tell(w, r):
	case refusing || r.URL.Host != base.Host:
		return nil, errors.New("connection refused: " + r.URL.Host)
	default:
		if r.Body == nil {
			r.Body = io.NopCloser(strings.NewReader(""))
		}
		t.p.ServeHTTP(w, r)
	}
	response := w.Result()
	response.Request = r
	return response, nil
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
