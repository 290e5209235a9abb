package web_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// echoes are the ways to the tool echo of the server "up", in both eras. Each returns a call of it.
func echoes(t *testing.T, p *protected) map[string]func(text string) string {
	t.Helper()
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
	const modern = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
	call := func(path, params, name string, header ...string) string {
		if header == nil {
			params += "," + modern
			header = []string{"Mcp-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", name}
		}
		_, body := p.do("POST", path, token, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{`+params+`}}`, header...)
		return body
	}
	execute := func(text string) string {
		return fmt.Sprintf(`"name":"tool_execute","arguments":{"tool_id":%q,"args":{"text":%q}}`, id, text)
	}
	echo := func(text string) string { return fmt.Sprintf(`"name":"echo","arguments":{"text":%q}`, text) }
	return map[string]func(text string) string{
		"/mcp":                     func(text string) string { return call("/mcp", execute(text), "tool_execute", session...) },
		"/mcp, 2026-07-28":         func(text string) string { return call("/mcp", execute(text), "tool_execute") },
		"/mcps/up/mcp":             func(text string) string { return call("/mcps/up/mcp", echo(text), "echo", direct...) },
		"/mcps/up/mcp, 2026-07-28": func(text string) string { return call("/mcps/up/mcp", echo(text), "echo") },
	}
}

// TestHooks: hooks at a URL and hooks that are programs decide about calls and results, on every way to
// a server.
func TestHooks(t *testing.T) {
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		question, _ := io.ReadAll(r.Body)
		action := "allow"
		if strings.Contains(string(question), `"kind":"call"`) && strings.Contains(string(question), "outgoing") || strings.Contains(string(question), `"kind":"result"`) && strings.Contains(string(question), "incoming") {
			action = "deny"
		}
		if !strings.Contains(string(question), `"principal":"corp:u1"`) || r.Header.Get("X-Key") != "key-of-the-hook" {
			w.WriteHeader(http.StatusForbidden)
		}
		_, _ = fmt.Fprintf(w, `{"action":%q,"reason":"not today"}`, action)
	}))
	defer hook.Close()
	guards := `guards: {hooks: [{name: detector, url: "` + hook.URL + `", headers: {X-Key: key-of-the-hook}, timeout: 20s, failure: deny}`
	_, err := exec.LookPath("sh")
	programs := err == nil
	if programs {
		guards += `, {on: [call], command: [sh, -c, 'if grep -q weighty; then echo "{\"action\":\"deny\",\"reason\":\"too heavy\"}"; else echo "{\"action\":\"allow\"}"; fi'], timeout: 20s, failure: deny}`
	}
	p := startServing(t, "", guards+"]}")
	for name, call := range echoes(t, p) {
		if body := call("usual words"); !strings.Contains(body, "usual words") {
			t.Errorf("%s: %s", name, body)
		}
		if body := call("outgoing words"); strings.Contains(body, "outgoing words") || !strings.Contains(body, "guards.hooks.detector refuses it (not today)") {
			t.Errorf("%s: %s", name, body)
		}
		if body := call("incoming words"); strings.Contains(body, "incoming words") || !strings.Contains(body, "guards.hooks.detector refuses its result (not today)") {
			t.Errorf("%s: %s", name, body)
		}
		if body := call("weighty words"); programs && (strings.Contains(body, "weighty words") || !strings.Contains(body, "guards.hooks[1] refuses it (too heavy)")) {
			t.Errorf("%s: %s", name, body)
		}
	}
}

// TestHookThatFails: its failure decides, and nothing of what is behind the gateway is told.
func TestHookThatFails(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for failure, passes := range map[string]bool{"deny": false, "allow": true} {
		p := startServing(t, "", `guards: {hooks: [{url: "`+gone.URL+`", failure: `+failure+`}]}`)
		for name, call := range echoes(t, p) {
			body := call("usual words")
			if strings.Contains(body, "usual words") != passes || !passes && !strings.Contains(body, "guards.hooks[0] has not judged it") || strings.Contains(body, "127.0.0.1") {
				t.Errorf("%s with failure: %s: %s", name, failure, body)
			}
		}
	}
}
