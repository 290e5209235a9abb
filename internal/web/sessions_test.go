package web_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestMaxSessions: at http.max_sessions a new session takes the place of one of the principal that has most.
// /metrics says how many live and how many were replaced.
func TestMaxSessions(t *testing.T) {
	p := startServing(t, "", "http: {max_sessions: 3}")
	begin := func(token string) string {
		t.Helper()
		resp, body := p.do("POST", "/mcp", token, initialize)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", resp.StatusCode, body)
		}
		return resp.Header.Get("Mcp-Session-Id")
	}
	lives := func(token, session string) bool {
		t.Helper()
		resp, _ := p.do("POST", "/mcp", token, `{"jsonrpc":"2.0","id":2,"method":"ping"}`, "Mcp-Session-Id", session)
		return resp.StatusCode == http.StatusOK
	}
	one := begin(operatorToken)
	var many []string
	for range 4 {
		many = append(many, begin(staticToken))
	}
	if lives(staticToken, many[0]) || lives(staticToken, many[1]) || !lives(staticToken, many[2]) || !lives(staticToken, many[3]) || !lives(operatorToken, one) {
		t.Error("other sessions live than the two newest of the principal that has most, and that of the other principal")
	}
	_, metrics := p.do("GET", "/metrics", operatorToken, "")
	for _, want := range []string{"\nweir_http_sessions 3\n", "\nweir_http_sessions_replaced_total 2\n"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("/metrics does not have %q", want)
		}
	}
}
