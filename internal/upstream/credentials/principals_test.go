package credentials

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/signin/vault"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// tokenServer is an MCP server in this process that knows its principals by their tokens.
type tokenServer struct {
	name string

	mu       sync.Mutex // guards below
	owners   map[string]string
	problems []string
}

// tokenOf is the token of a principal at a server.
func tokenOf(principal, server string) string { return "token-of-" + principal + "-at-" + server }

func (s *tokenServer) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

func (s *tokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body []byte
	if r.Body != nil {
		body, _ = io.ReadAll(r.Body)
		_ = r.Body.Close()
	}
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	method, id, session := rawjson.Text(rawjson.Get(body, "method")), rawjson.Get(body, "id"), r.Header.Get("Mcp-Session-Id")
	s.mu.Lock()
	defer s.mu.Unlock()
	// weir looks without a token whether the server is there, and neither lists nor calls then.
	looks := token == "" && !strings.HasPrefix(method, "tools/")
	if !looks && !strings.HasSuffix(token, "-at-"+s.name) || session != "" && s.owners[session] != token {
		s.problems = append(s.problems, fmt.Sprintf("%s %s with %q in the session of %q", r.Method, method, token, s.owners[session]))
	}
	switch {
	case r.Method != http.MethodPost:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	case id == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	}
	result := `{"tools":[{"name":"whoami","inputSchema":{"type":"object"}}]}`
	switch method {
	case "initialize":
		session = fmt.Sprint(len(s.owners))
		s.owners[session] = token
		w.Header().Set("Mcp-Session-Id", session)
		result = `{"protocolVersion":"2025-11-25","serverInfo":{"name":"tokens","version":"1"},"capabilities":{"tools":{}}}`
	case "tools/call":
		result = `{"content":[{"type":"text","text":"` + token + `"}]}`
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// manyRecords is a store for more records than one in memory has.
type manyRecords map[string]*vault.Memory // by server

func (m manyRecords) of(id vault.ID) *vault.Memory { return m[strings.Fields(id.Server)[0]] }

func (m manyRecords) Get(ctx context.Context, id vault.ID) (vault.Record, error) {
	return m.of(id).Get(ctx, id)
}

func (m manyRecords) Swap(ctx context.Context, id vault.ID, old, next vault.Record) error {
	return m.of(id).Swap(ctx, id, old, next)
}

func (m manyRecords) Delete(ctx context.Context, id vault.ID) error { return m.of(id).Delete(ctx, id) }

func (m manyRecords) Lock(ctx context.Context, id vault.ID) (func(), error) {
	return m.of(id).Lock(ctx, id)
}

func (m manyRecords) List(ctx context.Context) (all []vault.Entry, err error) {
	for _, one := range m {
		entries, err := one.List(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, entries...)
	}
	return all, nil
}

// TestTokensOfPrincipals calls many servers for many principals at the same time: each call carries the
// token of its caller at its server, and a caller without one is refused although others have one.
func TestTokensOfPrincipals(t *testing.T) {
	t.Parallel()
	principals, rounds, atOnce := 1000, 10, 5 // 50 servers, five at a time: connections take memory
	if testing.Short() || raced {
		principals, rounds = 100, 2
	}
	store, servers, c := manyRecords{}, map[string]*tokenServer{}, &config.Config{}
	s := New(store, func() *config.Config { return c }, func(string) {}, nil)
	for n := range rounds * atOnce {
		name := fmt.Sprint("s", n)
		entry, err := config.NewServer(name, "https://"+name+".example.com/mcp")
		if err != nil {
			t.Fatal(err)
		}
		entry.Credentials, entry.Agent, entry.PerSession = "user", false, false
		c.Servers = append(c.Servers, entry)
		store[name], servers[name] = vault.NewMemory(nil), &tokenServer{name: name, owners: map[string]string{}}
		for p := range principals {
			principal := fmt.Sprint("p", p)
			grant, err := json.Marshal(map[string]any{"access_token": tokenOf(principal, name), "issuer": "https://login.example.com", "token_endpoint": "https://login.example.com/token", "flow": "code"})
			if err != nil {
				t.Fatal(err)
			}
			id := vault.ID{Kind: vault.Token, Principal: principal, Server: name + " " + entry.URL}
			if err := store.Swap(t.Context(), id, vault.Record{}, vault.Record{Issuer: "https://login.example.com", Data: grant}); err != nil {
				t.Fatal(err)
			}
		}
	}
	m := upstream.New(upstream.Options{
		Transport:   s.Over(func(name string, _ *mcp.Session, _ http.RoundTripper) http.RoundTripper { return servers[name] }),
		Credentials: s,
		ReadyBudget: 5 * time.Minute, // all connections are made at once, on what processor there is
	})
	t.Cleanup(func() {
		if err := errors.Join(m.Close(context.Background()), s.Close(context.Background())); err != nil {
			t.Error(err)
		}
	})
	for round := range rounds {
		now := c.Servers[round*atOnce : (round+1)*atOnce]
		m.Apply(now)
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		var calls sync.WaitGroup
		for p := range principals {
			calls.Go(func() {
				session := mcp.NewSession("", fmt.Sprint("p", p))
				defer session.Close()
				for i := range now {
					name := now[(i+p)%len(now)].Name
					if got, err := whoami(t.Context(), m, session, name); err != nil || got != tokenOf(session.Principal(), name) {
						t.Errorf("%s at %s is %q: %v", session.Principal(), name, got, err)
					}
				}
			})
		}
		calls.Wait()
	}
	stranger := mcp.NewSession("", "stranger")
	if s.SignedIn("s0", "stranger") || s.SignedIn("s0", "") || !s.SignedIn("s0", "p1") {
		t.Error("SignedIn mistakes one principal for another")
	}
	last := c.Servers[len(c.Servers)-1].Name
	servers[last].mu.Lock() // connections may begin and end late
	before := len(servers[last].owners)
	servers[last].mu.Unlock()
	_, _ = whoami(t.Context(), m, stranger, last) // the fake takes it, and notes that it has no token
	servers[last].mu.Lock()
	if n := len(servers[last].problems); n == 0 || len(servers[last].owners) != before+1 {
		t.Errorf("the stranger used a connection of another principal: %d problems", n)
	}
	servers[last].problems = nil
	servers[last].mu.Unlock()
	for name, one := range servers {
		one.mu.Lock()
		if len(one.problems) > 0 {
			t.Errorf("%s: %d problems, the first: %s", name, len(one.problems), one.problems[0])
		}
		one.mu.Unlock()
	}
}

func whoami(ctx context.Context, m *upstream.Manager, session *mcp.Session, server string) (string, error) {
	ctx, cancel := context.WithTimeout(mcp.WithCaller(ctx, session), 5*time.Minute)
	defer cancel()
	peer, err := m.Peer(ctx, server)
	if err != nil {
		return "", err
	}
	result, err := peer.Call(ctx, "tools/call", json.RawMessage(`{"name":"whoami","arguments":{}}`), nil)
	var out struct{ Content []struct{ Text string } }
	if err == nil {
		err = json.Unmarshal(result, &out)
	}
	if err != nil || len(out.Content) == 0 {
		return "", fmt.Errorf("%s: %w", result, err)
	}
	return out.Content[0].Text, nil
}

// TestHolders finds principals in their order, behind the one that has failed.
func TestHolders(t *testing.T) {
	t.Parallel()
	store := vault.NewMemory(nil)
	put := func(kind vault.Kind, principal, server string) {
		if err := store.Swap(t.Context(), vault.ID{Kind: kind, Principal: principal, Server: server}, vault.Record{}, vault.Record{Data: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	put(vault.Token, "", "notes https://a.example/mcp")
	put(vault.Token, "bob", "notes https://a.example/mcp")
	put(vault.Token, "ann", "notes https://a.example/mcp")
	put(vault.Token, "ann", "notes https://b.example/mcp")
	put(vault.Text, "dan", "notes")
	put(vault.Token, "cy", "other https://a.example/mcp")
	now := time.Unix(1000, 0)
	h := newHolders(store)
	h.now = func() time.Time { return now }
	all := func(string) bool { return true }
	for after, want := range map[string]string{"": "ann", "ann": "bob", "bob": "ann", "az": "bob", "zoe": "ann"} {
		if got := h.next(vault.Token, "notes", after, all); got != want {
			t.Errorf("behind %q comes %q, want %q", after, got, want)
		}
	}
	if got := h.next(vault.Token, "notes", "", func(p string) bool { return p == "bob" }); got != "bob" {
		t.Errorf("the one with a token is %q", got)
	}
	if got := h.next(vault.Token, "notes", "", func(string) bool { return false }) + h.next(vault.Token, "none", "", all); got != "" {
		t.Errorf("none has a token, but %q", got)
	}
	if got := h.next(vault.Text, "notes", "", all); got != "dan" {
		t.Errorf("the text is of %q", got)
	}
	put(vault.Token, "a", "notes https://a.example/mcp")
	if got := h.next(vault.Token, "notes", "", all); got != "ann" {
		t.Errorf("the store is listed with each question: %q", got)
	}
	now = now.Add(holdersTime)
	if got := h.next(vault.Token, "notes", "", all); got != "a" {
		t.Errorf("after two seconds: %q", got)
	}
	h.forget()
	put(vault.Token, "A", "notes https://a.example/mcp")
	if got := h.next(vault.Token, "notes", "", all); got != "A" {
		t.Errorf("after a sign-in here: %q", got)
	}
}
