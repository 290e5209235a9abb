package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Server is an MCP server and its authorization server at one address. The fields may be set before
// the first request.
type Server struct {
	URL string // of both; the MCP endpoint is /mcp
	// Life is the life of tokens; zero is an hour.
	Life time.Duration
	// Metadata change the metadata of the authorization server; a nil value removes a key.
	Metadata map[string]any
	// Resource changes the metadata of the resource in the same way.
	Resource map[string]any
	// Quiet leaves resource_metadata out of the challenge.
	Quiet bool
	// NoMetadata leaves the metadata of the resource out, as servers of 2025-03-26 do.
	NoMetadata bool
	// NoRotation leaves refresh_token out of the answers to refreshes.
	NoRotation bool
	// NoRefresh leaves refresh_token out of the answers to sign-ins.
	NoRefresh bool
	// NoResource says that clients send no resource parameter.
	NoResource bool
	// NoIssuer leaves iss out of redirects, and WrongIssuer sends another one.
	NoIssuer    bool
	WrongIssuer string
	// Secret is the secret of the client "configured", which needs no registration.
	Secret string
	// Scope is demanded of tokens at /mcp.
	Scope string
	// Workload is the JWT that serves as a grant (RFC 7523).
	Workload string
	// Proof checks the DPoP proof of a request to an address with an access token, which may be "". It returns the
	// thumbprint of the key, or an error code with the nonce for the next proof. Nil knows no DPoP, and binds no token.
	Proof func(r *http.Request, address, token string) (thumbprint, code, nonce string)
	// Handler answers requests to /mcp that have a token; nil says "welcome".
	Handler http.Handler

	http *httptest.Server

	mu       sync.Mutex // guards below
	problems []string
	clients  map[string][]string // id → redirects
	codes    map[string]url.Values
	devices  map[string]*device
	tokens   map[string]*family // access tokens
	refresh  map[string]*family // refresh tokens, used ones too
	counts   map[string]int
	down     bool
	answers  map[string]int // status by path
	fail     string         // the error of the next refreshes
}

type device struct {
	agreed string // "", "yes" or "no"
	scope  string
}

// family is one sign-in with its tokens.
type family struct {
	client  string
	access  string
	refresh string
	scope   string
	expires time.Time
	revoked bool
	key     string // thumbprint of the key of its tokens, "" for bearer tokens
}

// New starts a server. Call Close.
func New() *Server {
	s := &Server{clients: map[string][]string{}, codes: map[string]url.Values{}, devices: map[string]*device{}, tokens: map[string]*family{}, refresh: map[string]*family{}, counts: map[string]int{}, answers: map[string]int{}}
	mux := http.NewServeMux()
	mux.HandleFunc("/mcp", s.mcp)
	mux.HandleFunc("GET /.well-known/oauth-protected-resource/mcp", s.resource)
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", s.metadata)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /register", s.register)
	mux.HandleFunc("POST /token", s.token)
	mux.HandleFunc("POST /device", s.device)
	mux.HandleFunc("POST /revoke", s.revoke)
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		down, status := s.down, s.answers[r.URL.Path]
		s.counts[r.URL.Path]++
		s.mu.Unlock()
		if status != 0 {
			http.Error(w, http.StatusText(status), status)
			return
		}
		if down && r.URL.Path != "/mcp" {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	s.URL = s.http.URL
	return s
}

// Close ends the server.
func (s *Server) Close() { s.http.Close() }

// Problems returns the mistakes of clients.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Count returns how often a path was asked for, or how often one of "sign-in" and "refreshed" was done.
func (s *Server) Count(what string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[what]
}

// Live returns how many sign-ins have tokens that are not revoked.
func (s *Server) Live() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := map[*family]bool{}
	for _, of := range []map[string]*family{s.tokens, s.refresh} {
		for _, f := range of {
			if !f.revoked {
				live[f] = true
			}
		}
	}
	return len(live)
}

// SetDown makes the authorization server answer 503, or answer again.
func (s *Server) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Answers makes a path answer with a status, also while the authorization server is down.
func (s *Server) Answers(path string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = status
}

// FailRefresh makes refreshes fail with an error code; "" ends that.
func (s *Server) FailRefresh(code string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail = code
}

// Expire ends all access tokens, although their clients do not know it.
func (s *Server) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.tokens)
}

// Agree decides a device code of a person: all of them that are open.
func (s *Server) Agree(yes bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		d.agreed = map[bool]string{true: "yes", false: "no"}[yes]
	}
}

// Browse is the person's browser: it opens the URL of an authorization and returns where it is sent.
func (s *Server) Browse(address string) (*url.URL, error) {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(address)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusFound {
		return nil, fmt.Errorf("the authorization server answered %d: %v", resp.StatusCode, s.Problems())
	}
	return resp.Location()
}

// problem notes a mistake of a client and answers it.
func (s *Server) problem(w http.ResponseWriter, code, format string, args ...any) {
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
	refuse(w, code)
}

func refuse(w http.ResponseWriter, code string) {
	answer(w, http.StatusBadRequest, map[string]any{"error": code})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}

func changed(doc, changes map[string]any) map[string]any {
	maps.Copy(doc, changes)
	maps.DeleteFunc(doc, func(_ string, v any) bool { return v == nil })
	return doc
}

func (s *Server) mcp(w http.ResponseWriter, r *http.Request) {
	scheme := "Bearer "
	if s.Proof != nil {
		scheme = "DPoP "
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), scheme)
	s.mu.Lock()
	f := s.tokens[token]
	ok := f != nil && !f.revoked && time.Now().Before(f.expires)
	s.mu.Unlock()
	challenge := scheme
	if ok && s.Proof != nil {
		key, code, nonce := s.Proof(r, s.URL+"/mcp", token)
		if nonce != "" {
			w.Header().Set("DPoP-Nonce", nonce)
		}
		if code == "" && key != f.key {
			code = "invalid_dpop_proof"
		}
		if code != "" {
			w.Header().Set("WWW-Authenticate", `DPoP error="`+code+`"`)
			http.Error(w, "no", http.StatusUnauthorized)
			return
		}
	}
	if !s.Quiet {
		challenge += `resource_metadata="` + s.URL + `/.well-known/oauth-protected-resource/mcp", `
	}
	switch {
	case !ok:
		w.Header().Set("WWW-Authenticate", challenge+`error="invalid_token"`)
		http.Error(w, "no", http.StatusUnauthorized)
	case s.Scope != "" && !slices.Contains(strings.Fields(f.scope), s.Scope):
		w.Header().Set("WWW-Authenticate", challenge+`error="insufficient_scope", scope="`+s.Scope+`"`)
		http.Error(w, "no", http.StatusForbidden)
	case s.Handler != nil:
		s.Handler.ServeHTTP(w, r)
	default:
		fmt.Fprint(w, "welcome")
	}
}

func (s *Server) resource(w http.ResponseWriter, r *http.Request) {
	if s.NoMetadata {
		http.NotFound(w, r)
		return
	}
	answer(w, http.StatusOK, changed(map[string]any{"resource": s.URL + "/mcp", "authorization_servers": []string{s.URL}, "scopes_supported": []string{"read"}}, s.Resource))
}

func (s *Server) metadata(w http.ResponseWriter, _ *http.Request) {
	answer(w, http.StatusOK, changed(map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"registration_endpoint": s.URL + "/register", "revocation_endpoint": s.URL + "/revoke", "device_authorization_endpoint": s.URL + "/device",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
		"token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic", "client_secret_post"},
	}, s.Metadata))
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var want struct {
		Redirects []string `json:"redirect_uris"`
		Method    string   `json:"token_endpoint_auth_method"`
		Type      string   `json:"application_type"`
	}
	if err := json.NewDecoder(r.Body).Decode(&want); err != nil || len(want.Redirects) == 0 || want.Type == "" {
		s.problem(w, "invalid_client_metadata", "a registration without redirects or application type")
		return
	}
	id := rand.Text()
	s.clients[id] = want.Redirects
	answer(w, http.StatusCreated, map[string]any{"client_id": id, "redirect_uris": want.Redirects, "token_endpoint_auth_method": "none"})
}

func (s *Server) known(id string) bool {
	_, ok := s.clients[id]
	return ok || id == "configured" && (s.Secret != "" || s.Workload != "") || strings.Contains(id, "/oauth/client/")
}

func (s *Server) checkResource(q url.Values) bool { return s.NoResource == (q.Get("resource") == "") }

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	switch {
	case !s.known(q.Get("client_id")):
		s.problem(w, "invalid_client", "an unknown client %q", q.Get("client_id"))
		return
	case s.clients[q.Get("client_id")] != nil && !slices.Contains(s.clients[q.Get("client_id")], q.Get("redirect_uri")):
		s.problem(w, "invalid_request", "the redirect %q is not the client's", q.Get("redirect_uri"))
		return
	case q.Get("response_type") != "code" || q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || q.Get("state") == "":
		s.problem(w, "invalid_request", "an authorization without state or PKCE")
		return
	case !s.checkResource(q):
		s.problem(w, "invalid_target", "resource %q in an authorization", q.Get("resource"))
		return
	}
	code := rand.Text()
	s.codes[code] = q
	to, _ := url.Parse(q.Get("redirect_uri"))
	back := to.Query()
	back.Set("code", code)
	back.Set("state", q.Get("state"))
	if !s.NoIssuer {
		back.Set("iss", s.URL)
	}
	if s.WrongIssuer != "" {
		back.Set("iss", s.WrongIssuer)
	}
	to.RawQuery = back.Encode()
	http.Redirect(w, r, to.String(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	q := r.PostForm
	client, secret, basic := r.BasicAuth()
	if !basic {
		client, secret = q.Get("client_id"), q.Get("client_secret")
	}
	if !s.known(client) || client == "configured" && secret != s.Secret && q.Get("client_assertion") == "" {
		s.problem(w, "invalid_client", "a wrong client %q", client)
		return
	}
	if !s.checkResource(q) {
		s.problem(w, "invalid_target", "resource %q in a %s", q.Get("resource"), q.Get("grant_type"))
		return
	}
	key := ""
	if s.Proof != nil {
		var code, nonce string
		if key, code, nonce = s.Proof(r, s.URL+"/token", ""); nonce != "" {
			w.Header().Set("DPoP-Nonce", nonce)
		}
		if code != "" {
			refuse(w, code)
			return
		}
	}
	switch q.Get("grant_type") {
	case "authorization_code":
		s.code(w, q, client, key)
	case "refresh_token":
		s.renew(w, q, client, key)
	case "client_credentials":
		s.counts["sign-in"]++
		s.grant(w, &family{client: client, scope: q.Get("scope"), key: key}, false)
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		if s.Workload == "" || q.Get("assertion") != s.Workload || q.Get("client_assertion") != "" {
			s.problem(w, "invalid_grant", "the assertion %q", q.Get("assertion"))
			return
		}
		s.counts["sign-in"]++
		s.grant(w, &family{client: client, scope: q.Get("scope"), key: key}, false)
	case "urn:ietf:params:oauth:grant-type:device_code":
		s.poll(w, q, client)
	default:
		s.problem(w, "unsupported_grant_type", "the grant %q", q.Get("grant_type"))
	}
}

func (s *Server) code(w http.ResponseWriter, q url.Values, client, key string) {
	asked, ok := s.codes[q.Get("code")]
	delete(s.codes, q.Get("code"))
	sum := sha256.Sum256([]byte(q.Get("code_verifier")))
	if !ok || asked.Get("client_id") != client || asked.Get("redirect_uri") != q.Get("redirect_uri") ||
		asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("resource") != q.Get("resource") || asked.Get("dpop_jkt") != key {
		s.problem(w, "invalid_grant", "a code that does not fit its authorization")
		return
	}
	s.counts["sign-in"]++
	s.grant(w, &family{client: client, scope: asked.Get("scope"), key: key}, true)
}

// grant answers with new tokens of a family.
func (s *Server) grant(w http.ResponseWriter, f *family, refresh bool) {
	life := s.Life
	if life == 0 {
		life = time.Hour
	}
	delete(s.tokens, f.access)
	f.access, f.expires = rand.Text(), time.Now().Add(life)
	s.tokens[f.access] = f
	out := map[string]any{"access_token": f.access, "token_type": "bearer", "expires_in": life.Seconds(), "scope": f.scope}
	if f.key != "" {
		out["token_type"] = "DPoP"
	}
	if refresh && !s.NoRefresh {
		f.refresh = rand.Text()
		s.refresh[f.refresh] = f
		out["refresh_token"] = f.refresh
	}
	answer(w, http.StatusOK, out)
}

func (s *Server) renew(w http.ResponseWriter, q url.Values, client, key string) {
	if s.fail != "" {
		refuse(w, s.fail)
		return
	}
	f := s.refresh[q.Get("refresh_token")]
	switch {
	case f == nil || f.client != client || f.revoked || f.key != key:
		refuse(w, "invalid_grant")
		return
	case f.refresh != q.Get("refresh_token"):
		f.revoked = true
		s.problem(w, "invalid_grant", "a refresh token was used twice")
		return
	}
	s.counts["refreshed"]++
	s.grant(w, f, !s.NoRotation)
}

func (s *Server) device(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	if !s.known(r.PostForm.Get("client_id")) || !s.checkResource(r.PostForm) {
		s.problem(w, "invalid_client", "a device without client or resource")
		return
	}
	code := rand.Text()
	s.devices[code] = &device{scope: r.PostForm.Get("scope")}
	answer(w, http.StatusOK, map[string]any{"device_code": code, "user_code": "WDJB-MJHT", "verification_uri": s.URL + "/enter", "expires_in": 600, "interval": 1})
}

func (s *Server) poll(w http.ResponseWriter, q url.Values, client string) {
	d := s.devices[q.Get("device_code")]
	if d == nil {
		s.problem(w, "invalid_grant", "an unknown device code")
		return
	}
	switch d.agreed {
	case "yes":
		delete(s.devices, q.Get("device_code"))
		s.counts["sign-in"]++
		s.grant(w, &family{client: client, scope: d.scope}, true)
	case "no":
		refuse(w, "access_denied")
	default:
		refuse(w, "authorization_pending")
	}
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = r.ParseForm()
	if f := s.refresh[r.PostForm.Get("token")]; f != nil {
		f.revoked = true
	}
	if f := s.tokens[r.PostForm.Get("token")]; f != nil {
		f.revoked = true
	}
	s.counts["revoked"]++
	if r.PostForm.Get("client_id") == "configured" && strings.Count(r.PostForm.Get("client_assertion"), ".") == 2 {
		s.counts["revoked with a key"]++
	}
}
