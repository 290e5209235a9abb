package web_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
)

// TestSecretsInArguments: with guards.secrets.args, neither a credential of the configuration nor the
// token of the caller reaches a server, on every way to it.
func TestSecretsInArguments(t *testing.T) {
	const configured = "conf1gured-credential-of-crm"
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer crm.Close()
	p := startServing(t, `crm: {url: "`+crm.URL+`/mcp", headers: {X-Key: "`+configured+`"}}, `, "guards: {secrets: {args: deny}}")
	token := p.token("u1", "")
	resp, _ := p.do("POST", "/mcp", token, initialize)
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	_, found := p.do("POST", "/mcp", token, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"echo"}}}`, session...)
	id := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(found)
	if id == "" {
		t.Fatal(found)
	}
	resp, _ = p.do("POST", "/mcps/up/mcp", token, initialize)
	direct := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	ways := map[string]func(text string) string{
		"/mcp": func(text string) string {
			_, body := p.do("POST", "/mcp", token, fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"text":%q}}}}`, id, text), session...)
			return body
		},
		"/mcps/up/mcp": func(text string) string {
			_, body := p.do("POST", "/mcps/up/mcp", token, fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q}}}`, text), direct...)
			return body
		},
		"/mcps/up/mcp, 2026-07-28": func(text string) string {
			_, body := p.do("POST", "/mcps/up/mcp", token, fmt.Sprintf(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":%q},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, text),
				"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "echo")
			return body
		},
	}
	for name, call := range ways {
		for _, secret := range []string{configured, base64.StdEncoding.EncodeToString([]byte("key: " + configured)), token, "AKIA2E0A8F3B244C9986"} {
			if body := call("it is " + secret); !strings.Contains(body, "guards.secrets.args") || strings.Contains(body, secret) {
				t.Errorf("%s with %.40s: %s", name, secret, body)
			}
		}
		if body := call("usual words"); !strings.Contains(body, "usual words") {
			t.Errorf("%s without a secret: %s", name, body)
		}
	}
}
