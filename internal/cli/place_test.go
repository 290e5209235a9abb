package cli

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// A token with nothing but the right to register is no way to services that only
// this machine reaches: not by their address, nor through what they answer.
func TestRegistrationIsNoWayElsewhere(t *testing.T) {
	t.Parallel()
	const secret = "AKIA-INTERNAL-SECRET"
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/json") {
			w.Header().Set("Content-Type", "application/json")
		}
		fmt.Fprintf(w, `{"key":%q,"headers":%q}`, secret, r.Header)
	}))
	t.Cleanup(service.Close)
	s := serve(t, tokens("planner:, register: [planner], agents: [planner]")+"mcpServers: {}\n")
	for _, at := range []string{"http://169.254.169.254/latest/meta-data/iam", "http://10.255.0.1/mcp", "http://[fe80::1]/mcp", "http://0.0.0.0:1/mcp", "http://224.0.0.1/mcp"} {
		status, body := send(t, http.MethodPost, s.base+"/agents", "planner", fmt.Sprintf(`{"name":"planner","instance":"1","url":%q}`, at))
		if status != http.StatusForbidden || !strings.Contains(body, "agents.hosts") {
			t.Errorf("%s: %d %s", at, status, body)
		}
	}
	_, port, err := net.SplitHostPort(service.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/latest/meta-data/iam", "/json"} {
		status, body := send(t, http.MethodPost, s.base+"/agents", "planner", fmt.Sprintf(`{"name":"planner","instance":"1","url":"http://127.0.0.1:%s%s"}`, port, path))
		if status != http.StatusOK {
			t.Fatalf("%d %s", status, body)
		}
		at := s.base + "/mcps/planner/mcp"
		initialize := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
		until(t, "502 ", func() string {
			status, body := send(t, http.MethodPost, at, "planner", initialize)
			return fmt.Sprintf("%d %s", status, body)
		})
		for _, c := range []struct{ method, path, body string }{
			{http.MethodPost, at, initialize},
			{http.MethodPost, at, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`},
			{http.MethodPost, at, `{"jsonrpc":"2.0","method":"notifications/initialized"}`},
			{http.MethodPost, at, `{"jsonrpc":"2.0","id":3,"method":"tools/list","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`},
			{http.MethodGet, at, ""},
			{http.MethodDelete, at, ""},
			{http.MethodGet, s.base + "/mcps/planner/task?taskId=x", ""},
			{http.MethodGet, s.base + "/status/data", ""},
			{http.MethodGet, s.base + "/healthz", ""},
		} {
			if status, body := send(t, c.method, c.path, "planner", c.body); strings.Contains(body, secret) {
				t.Errorf("%s %s %s: %d %s", c.method, c.path, c.body, status, body)
			}
		}
	}
}
