package web_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
)

// tap is an MCP server that keeps each byte of the requests to it.
type tap struct {
	url  string
	open bool // it serves callers without a token, too
	// known reports whether a token serves; nil takes all.
	known func(token string) bool
	// short returns the challenge for a token whose scopes do not suffice for a request, or "".
	short func(token, request string) string

	mu   sync.Mutex // guards below
	seen []string
	sent map[string][]string // tokens of requests by the Mcp-Session-Id
}

func newTap(t *testing.T, open bool) *tap {
	t.Helper()
	fake, err := fakemcp.New(fakemcp.Config{})
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{open: open, sent: map[string][]string{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dump, _ := httputil.DumpRequest(r, r.Method == http.MethodPost)
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		p.mu.Lock()
		p.seen = append(p.seen, string(dump))
		if id := r.Header.Get("Mcp-Session-Id"); token != "" && id != "" && !slices.Contains(p.sent[id], token) {
			p.sent[id] = append(p.sent[id], token)
		}
		p.mu.Unlock()
		if token == "" && !p.open || token != "" && p.known != nil && !p.known(token) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if p.short != nil {
			if challenge := p.short(token, string(dump)); challenge != "" {
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusForbidden)
				return
			}
		}
		fake.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { fake.Close(); server.CloseClientConnections(); server.Close() })
	p.url = server.URL
	return p
}

// holding returns the requests that have a text.
func (p *tap) holding(text string) (found []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.seen {
		if strings.Contains(one, text) {
			found = append(found, one)
		}
	}
	return found
}

// recorder is a program that writes its environment and its input into the file $0, and answers each
// request with the same result.
const recorder = `env >"$0"; while IFS= read -r l; do printf '%s\n' "$l" >>"$0"; id=$(printf %s "$l" | sed -n 's/.*"id":\([0-9]*\).*/\1/p'); [ -n "$id" ] && printf '{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"r","version":"1"},"tools":[{"name":"echo","inputSchema":{"type":"object"}}],"content":[{"type":"text","text":"hello"}]}}\n' "$id"; done; true`

// TestTokensOfCallersStayHere taps the transports of weir to servers: a token of a caller reaches those
// with credentials: forward that it names in aud, and no byte of it any other.
func TestTokensOfCallersStayHere(t *testing.T) {
	plain, old, wrong := newTap(t, true), newTap(t, true), newTap(t, false)
	forward, streamed := newTap(t, false), newTap(t, false)
	said := filepath.Join(t.TempDir(), "said")
	p := startServing(t, fmt.Sprintf(`plain: {url: %q},
  old: {url: %q, type: sse},
  program: {command: sh, args: ["-c", %q, %q]},
  wrong: {url: %q, credentials: forward},
  forward: {url: %q, credentials: forward, oauth: {audience: "api://crm"}},
  streamed: {url: %q, type: sse, credentials: forward, oauth: {resource: "https://crm.example.com"}}, `,
		plain.url+"/mcp", old.url+"/sse", recorder, said, wrong.url+"/mcp", forward.url+"/mcp", streamed.url+"/sse"))
	shown := 0
	for _, way := range []string{"plain", "old", "program", "wrong", "forward", "streamed"} {
		for _, user := range []string{"u1", "u2"} {
			shown++
			token := p.token(user, "", "aud", []string{p.base, "api://crm", "https://crm.example.com"})
			body := callEcho(t, p, way, token)
			if works := way != "wrong"; strings.Contains(body, "hello") != works {
				t.Errorf("%s for %s: %s", way, user, body)
			}
			if way == "wrong" && !strings.Contains(body, "ask the issuer corp for a token that names both weir and "+wrong.url) {
				t.Errorf("the refusal says: %s", body)
			}
			for name, one := range map[string]*tap{"plain": plain, "old": old, "wrong": wrong, "forward": forward, "streamed": streamed} {
				got := one.holding(token)
				if name == "forward" || name == "streamed" { // the token names them: they may be listed with it
					if name == way && len(got) == 0 {
						t.Errorf("%s has not the token of %s", name, user)
					}
					continue
				}
				if len(got) > 0 {
					t.Errorf("%s: a token of %s went to %s:\n%s", way, user, name, got[0])
				}
			}
		}
	}
	// All tokens have the same header and begin alike.
	begin, _, _ := strings.Cut(p.token("u1", ""), ".")
	if data, err := os.ReadFile(said); err != nil || !bytes.Contains(data, []byte(`"tools/call"`)) || bytes.Contains(data, []byte(begin)) {
		t.Errorf("the program has one of %d tokens, or was not called: %v", shown, err)
	}
	for name, one := range map[string]*tap{"forward": forward, "streamed": streamed} {
		for id, tokens := range one.sent {
			if len(tokens) != 1 {
				t.Errorf("%s: %d tokens in the session %s", name, len(tokens), id)
			}
		}
		if n := len(one.holding("Authorization: Bearer " + staticToken)); n > 0 {
			t.Errorf("%s: %d requests with a static token", name, n)
		}
	}
}

// callEcho calls echo at a server's own path, with an event stream open, and ends the session.
func callEcho(t *testing.T, p *protected, server, token string) string {
	t.Helper()
	at := "/mcps/" + server + "/mcp"
	resp, body := p.do("POST", at, token, initialize)
	if resp.StatusCode != http.StatusOK {
		return body
	}
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25"}
	p.do("POST", at, token, `{"jsonrpc":"2.0","method":"notifications/initialized"}`, session...)
	_, body = p.do("POST", at, token, fmt.Sprintf(echoIn, 2), session...)
	p.do("POST", at, token, `{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t"}}`, session...)
	p.do("DELETE", at, token, "", session...)
	return body
}

// executed calls a tool of a server at /mcp, by the id that a query finds, and returns the answer.
func executed(p *protected, token, query, tool, args string) string {
	p.t.Helper()
	resp, _ := p.do("POST", "/mcp", token, initialize)
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	named := regexp.MustCompile(tool + `#[0-9a-f]+`)
	id := ""
	for end := time.Now().Add(30 * time.Second); id == ""; time.Sleep(20 * time.Millisecond) {
		// A server is listed a moment after the first caller who can list it.
		_, found := p.do("POST", "/mcp", token, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"`+query+`"}}}`, session...)
		if id = named.FindString(found); id == "" && time.Now().After(end) {
			p.t.Fatalf("%q finds %s", query, found)
		}
	}
	_, body := p.do("POST", "/mcp", token, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":`+args+`}}}`, session...)
	return body
}

// TestForwardedTokenOfTooFewScopes: a caller whose token lacks scopes reads which ones the server asks
// for, at both surfaces, and keeps the connection.
func TestForwardedTokenOfTooFewScopes(t *testing.T) {
	forward := newTap(t, false)
	var narrow string
	forward.short = func(token, request string) string {
		if token != narrow || !strings.Contains(request, `"tools/call"`) {
			return ""
		}
		return `Basic realm="x", Bearer error="insufficient_scope", scope="crm.read crm.write x\"y z` + "\u00e9 " + token + `"`
	}
	p := startServing(t, fmt.Sprintf(`crm: {url: %q, credentials: forward, oauth: {audience: "api://crm"}}, `, forward.url+"/mcp"))
	token := func(scope string) string {
		return p.token("u1", "", "aud", []string{p.base, "api://crm"}, "client_id", "c", "scope", scope)
	}
	narrow = token("mcp")
	listed := `"scopes":["crm.read","crm.write"]`
	at := map[string]string{
		"/mcps/crm/mcp": callEcho(t, p, "crm", narrow),
		"/mcp":          executed(p, narrow, "crm echo", "crm:echo", `{"text":"hello"}`),
	}
	for path, body := range at {
		plain := strings.ReplaceAll(body, `\"`, `"`)
		for _, want := range []string{listed, `"server":"crm"`, "for want of the scopes crm.read crm.write", "call with a token of the issuer corp"} {
			if !strings.Contains(plain, want) {
				t.Errorf("%s: %s does not say %s", path, body, want)
			}
		}
		if strings.Contains(body, narrow) {
			t.Errorf("%s: the token stands in the answer", path)
		}
	}
	if !strings.Contains(at["/mcp"], "AUTH_FAILED") || strings.Contains(strings.ReplaceAll(at["/mcp"], `\"`, `"`), `"retryable":true`) {
		t.Errorf("the call at /mcp: %s", at["/mcp"])
	}
	if body := callEcho(t, p, "crm", token("mcp crm.read crm.write")); !strings.Contains(body, "hello") {
		t.Errorf("with the scopes: %s", body)
	}
}

// TestForwardedTokensOfOneGrant: calls of a client with few scopes never carry the token of another
// client of the same principal, and share no connection with it.
func TestForwardedTokensOfOneGrant(t *testing.T) {
	forward := newTap(t, false)
	p := startServing(t, fmt.Sprintf(`crm: {url: %q, credentials: forward, oauth: {audience: "api://crm"}}, `, forward.url+"/mcp"))
	token := func(client, scope string) string {
		return p.token("u1", "", "aud", []string{p.base, "api://crm"}, "client_id", client, "scope", scope)
	}
	broad, narrow := token("admin", "mcp write"), token("reader", "mcp")
	for _, one := range []string{broad, narrow, broad, narrow} {
		if body := callEcho(t, p, "crm", one); !strings.Contains(body, "hello") {
			t.Fatal(body)
		}
		// Lists and streams of an earlier caller may come at any time.
		calls := forward.holding(`"tools/call"`)
		if last := calls[len(calls)-1]; !strings.Contains(last, one) {
			t.Errorf("a call went with another token:\n%s", last)
		}
	}
	fresh := token("reader", "mcp")
	if body := callEcho(t, p, "crm", fresh); !strings.Contains(body, "hello") || len(forward.holding(fresh)) == 0 {
		t.Errorf("after a refresh: %s", body)
	}
	forward.mu.Lock()
	defer forward.mu.Unlock()
	for id, tokens := range forward.sent {
		if slices.Contains(tokens, broad) && len(tokens) > 1 {
			t.Errorf("the session %s has tokens of two grants", id)
		}
	}
}

// TestCallersWithoutForwardableToken are refused before a connection is made for them, and read who mends it.
func TestCallersWithoutForwardableToken(t *testing.T) {
	forward := newTap(t, false)
	p := startServing(t, fmt.Sprintf(`crm: {url: %q, credentials: forward}, `, forward.url+"/mcp"))
	cnf := p.token("u1", "", "aud", []string{p.base, forward.url + "/mcp"}, "cnf", map[string]any{"x5t#S256": "x"})
	for token, want := range map[string]string{
		staticToken:       "static tokens and certificates stay here",
		p.token("u1", ""): "its administrator allows that",
		p.token("u1", "", "aud", []string{p.base, forward.url}): "aud of the token does not name " + forward.url + "/mcp",
		cnf: "bound",
	} {
		_, body := p.do("POST", "/mcps/crm/mcp", token, initialize)
		if !strings.Contains(body, want) {
			t.Errorf("%s does not say %q", body, want)
		}
		if got := forward.holding(token); len(got) > 0 {
			t.Errorf("the token went out:\n%s", got[0])
		}
	}
	resp, _ := p.do("POST", "/mcp", staticToken, initialize)
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	_, found := p.do("POST", "/mcp", staticToken, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"crm sign in"}}}`, session...)
	id := regexp.MustCompile(`crm:sign_in#[0-9a-f]+`).FindString(found)
	_, body := p.do("POST", "/mcp", staticToken, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{}}}}`, session...)
	if !strings.Contains(body, "AUTH_FAILED") || !strings.Contains(body, "auth.issuers") {
		t.Errorf("the tool %q of the server answers %s", id, body)
	}
}
