package web_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// TestKeptWithoutSecrets: what the console shows and saves of a kept result has no secrets where
// results are redacted, as what an agent reads.
func TestKeptWithoutSecrets(t *testing.T) {
	p := startServing(t, "", "artifacts: {redact: true}")
	resp, _ := p.do("POST", "/mcp", staticToken, initialize)
	session := []string{"Mcp-Session-Id", resp.Header.Get("Mcp-Session-Id")}
	_, found := p.do("POST", "/mcp", staticToken, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_browse","arguments":{"query":"echo"}}}`, session...)
	id := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(found)
	rows := strings.TrimSuffix(strings.Repeat(`{\\\"word\\\":\\\"plain\\\",\\\"link\\\":\\\"https://ann:kept-pass-4711@example.com/\\\"},`, 200), ",")
	_, called := p.do("POST", "/mcp", staticToken, `{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"`+id+`","args":{"text":"[`+strings.ReplaceAll(rows, `\\\"`, `\"`)+`]"}}}}`, session...)
	handle := regexp.MustCompile(`art_[A-Za-z0-9_-]+`).FindString(called)
	if handle == "" {
		t.Fatal(called)
	}
	at := "/api/v1/artifacts/" + handle
	for _, path := range []string{at, at + "/file?format=csv", at + "/file?format=json", at + "/file?format=bytes", "/artifacts/" + handle} {
		resp, body := p.do("GET", path, staticToken, "")
		if resp.StatusCode != http.StatusOK || strings.Contains(body, "kept-pass") || !strings.Contains(body, "plain") {
			t.Errorf("%s: status %d, %.300s", path, resp.StatusCode, body)
		}
	}
}
