package web_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/audit/trail"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/testkit/fakeidp"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/web"
	"github.com/weir-mcp/weir/internal/web/api"
)

// protected is a gateway that accepts tokens of a fake provider.
type protected struct {
	t    testing.TB
	base string
	idp  *fakeidp.Provider

	gateway *gateway.Gateway
	server  *web.Server
	text    string // of the configuration
}

// staticToken is the token of the principal static, longToken that of long, and operatorToken that of
// ops, an operator.
const (
	staticToken   = "0123456789abcdef0123456789abcdef"
	operatorToken = "fedcba9876543210fedcba9876543210"
)

var longToken = strings.Repeat("0123456789abcdef", 88)

// gatewayOf returns a Gateway of a configuration, and the configuration.
func gatewayOf(t testing.TB, text string) (*gateway.Gateway, *config.Config) {
	t.Helper()
	c, _, err := config.Parse("weir.yaml", []byte(text), config.Options{})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	records, err := trail.Open(t.Context(), c, "", log)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gateway.New(t.Context(), c, gateway.Options{Version: "test", Logger: log, Audit: records})
	if err != nil {
		t.Fatal(err)
	}
	return g, c
}

func startProtected(t testing.TB, more ...string) *protected {
	t.Helper()
	return startServing(t, "", more...)
}

// startServing is startProtected with further servers, entries of mcpServers in YAML's flow style.
// {CORP} in them stands for the issuer of the callers.
func startServing(t testing.TB, servers string, more ...string) *protected {
	t.Helper()
	idp, issuer := fakeidp.Start(fakeidp.Options{}, "/t")
	t.Cleanup(issuer.Close)
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	upstream := httptest.NewServer(fake)
	t.Cleanup(func() { fake.Close(); upstream.Close() })
	var server *web.Server
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { server.ServeHTTP(w, r) }))
	t.Cleanup(front.Close)
	text := fmt.Sprintf(`
mode: gateway
public_url: %s
auth: {issuers: {corp: {issuer: %q, scopes: [mcp]}}, roles: {operator: {groups: [sre]}, auditor: {groups: [audit]}}, login: {issuer: corp, client_id: weir-web}, tokens: [{name: static, sha256: %x}, {name: long, sha256: %x}, {name: ops, sha256: %x, operator: true}]}
mcpServers: {%sup: {url: %q}}
`+strings.Join(more, "\n"), front.URL, idp.Issuer(), sha256.Sum256([]byte(staticToken)), sha256.Sum256([]byte(longToken)), sha256.Sum256([]byte(operatorToken)), strings.ReplaceAll(servers, "{CORP}", idp.Issuer()), upstream.URL+"/mcp")
	g, c := gatewayOf(t, text)
	if err := g.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	server = web.NewHandler(g, c, front.URL, api.Machine{}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := server.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		g.Close(ctx)
	})
	return &protected{t, front.URL, idp, g, server, text}
}

// token returns a fresh token of a user for a path.
func (p *protected) token(user, path string, more ...any) string {
	claims := map[string]any{"sub": user, "aud": p.base + path, "scope": "mcp", "jti": fmt.Sprint(time.Now().UnixNano())}
	for i := 0; i < len(more); i += 2 {
		claims[more[i].(string)] = more[i+1]
	}
	return p.idp.Token(claims)
}

// do sends a request and returns its answer with the body.
func (p *protected) do(method, path, token, body string, header ...string) (*http.Response, string) {
	p.t.Helper()
	r, err := http.NewRequest(method, p.base+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		p.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return resp, string(raw)
}

const initialize = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`

// TestRefusalLeadsToTheIssuer walks the way of a client that knows the URL of /mcp alone.
func TestRefusalLeadsToTheIssuer(t *testing.T) {
	p := startProtected(t)
	resp, _ := p.do("POST", "/mcp", "", initialize)
	want := `Bearer resource_metadata="` + p.base + `/.well-known/oauth-protected-resource/mcp", scope="mcp"`
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 || got != want {
		t.Fatalf("%d, %q", resp.StatusCode, got)
	}
	// A page of any origin may read the metadata.
	resp, body := p.do("GET", "/.well-known/oauth-protected-resource/mcp", "", "", "Origin", "https://inspector.example")
	var meta struct {
		Resource string
		Servers  []string `json:"authorization_servers"`
	}
	if err := json.Unmarshal([]byte(body), &meta); err != nil || meta.Resource != p.base+"/mcp" || len(meta.Servers) != 1 || meta.Servers[0] != p.idp.Issuer() {
		t.Errorf("%s, %v", body, err)
	}
	if resp.Header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("headers %v", resp.Header)
	}
	if resp, _ := p.do("POST", "/mcp", p.token("u1", meta.Resource[len(p.base):]), initialize); resp.StatusCode != 200 {
		t.Errorf("with a token for the resource: %d", resp.StatusCode)
	}
	resp, _ = p.do("POST", "/mcp", p.token("u1", "/mcp", "scope", "other"), initialize)
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 403 || !strings.Contains(got, `scope="mcp", error="insufficient_scope"`) {
		t.Errorf("without the scope: %d, %q", resp.StatusCode, got)
	}
	for _, path := range []string{"/mcp", "/mcps/up/mcp", "/mcp/up/mcp", "/sse", "/api/v1/me", "/catalog", "/status/data", "/agents"} {
		if resp, _ := p.do("POST", path, p.idp.Token(map[string]any{"aud": "https://other.example/mcp", "scope": "mcp"}), initialize); resp.StatusCode != 401 {
			t.Errorf("a foreign audience at %s: %d", path, resp.StatusCode)
		}
	}
	if resp, _ := p.do("POST", "/mcps/up/mcp", p.token("u1", "/mcps/up/mcp"), initialize); resp.StatusCode != 200 {
		t.Errorf("a server's own resource: %d", resp.StatusCode)
	}
}

// TestSessionsBelongToThePrincipal: a refreshed token of the same user goes on; another user's
// session and handle are unknown.
func TestSessionsBelongToThePrincipal(t *testing.T) {
	p := startProtected(t)
	resp, _ := p.do("POST", "/mcp", p.token("u1", "/mcp"), initialize)
	session := resp.Header.Get("Mcp-Session-Id")
	if session == "" {
		t.Fatal("no session")
	}
	call := func(user, name, args string) (int, string) {
		resp, body := p.do("POST", "/mcp", p.token(user, "/mcp"), `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+name+`","arguments":`+args+`}}`, "Mcp-Session-Id", session)
		return resp.StatusCode, body
	}
	_, body := call("u1", "tool_browse", `{"query":"echo"}`)
	id := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(body)
	status, body := call("u1", "tool_execute", `{"tool_id":"`+id+`","args":{"size":20000}}`)
	handle := ""
	if m := regexp.MustCompile(`handle[\\": ]+([A-Za-z0-9:_-]+)`).FindStringSubmatch(body); m != nil {
		handle = m[1]
	}
	if status != 200 || handle == "" {
		t.Fatalf("%d %.600s", status, body)
	}
	view := `{"handle":"` + handle + `","selector":{"type":"head"}}`
	if status, body := call("u1", "tool_view", view); status != 200 || strings.Contains(body, `"isError":true`) {
		t.Errorf("a refreshed token: %d %.300s", status, body)
	}
	_, metrics := p.do("GET", "/metrics", p.token("ops", "", "groups", []string{"sre"}), "")
	if !strings.Contains(metrics, "\nweir_artifacts 1\n") {
		t.Errorf("the result of a principal of an issuer is not among the figures: %s", regexp.MustCompile(`weir_artifacts.*`).FindAllString(metrics, -1))
	}
	status, body = call("u2", "tool_view", view)
	unknown, unknownBody := p.do("POST", "/mcp", p.token("u2", "/mcp"), `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", "no-such-session")
	if status != 404 || unknown.StatusCode != 404 || string(rawjson.Get([]byte(body), "error")) != string(rawjson.Get([]byte(unknownBody), "error")) {
		t.Errorf("another user: %d %s; unknown: %d %s", status, body, unknown.StatusCode, unknownBody)
	}
	// The same session by a user of its own does not open the handle either.
	resp, _ = p.do("POST", "/mcp", p.token("u2", "/mcp"), initialize)
	session = resp.Header.Get("Mcp-Session-Id")
	if _, body := call("u2", "tool_view", view); !strings.Contains(body, `"isError":true`) {
		t.Errorf("another user's handle: %.300s", body)
	}
}

func TestWhoami(t *testing.T) {
	p := startProtected(t)
	_, body := p.do("GET", "/whoami", p.token("u1", "/mcp", "groups", []string{"sre"}, "exp", 4102444800), "")
	if want := `{"principal":"corp:u1","issuer":"corp","groups":["sre"],"scopes":["mcp"],"roles":["operator"],"expires":"2100-01-01T00:00:00Z"}`; strings.TrimSpace(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
	if resp, _ := p.do("GET", "/whoami", "", ""); resp.StatusCode != 401 {
		t.Errorf("without a token: %d", resp.StatusCode)
	}
	for groups, want := range map[string]int{"sre": 200, "dev": 403} {
		if resp, body := p.do("GET", "/metrics", p.token("u1", "", "groups", []string{groups}), ""); resp.StatusCode != want {
			t.Errorf("/metrics as %s: %d %s", groups, resp.StatusCode, body)
		}
	}
}
