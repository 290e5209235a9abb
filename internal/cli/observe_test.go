package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPassthroughIsCounted: calls through /mcps/NAME/mcp are in the metrics and among
// the events, as those through the gateway are.
func TestPassthroughIsCounted(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events")
	s := serve(t, oneFake+"events: {file: "+events+"}\n")
	id := s.tool("fake:echo")
	client := httpClient(t)
	call := func(path, tool string, args any) {
		t.Helper()
		status, body, err := post(t.Context(), client, s.base+path, tool, modernCall(1, tool, args))
		if err != nil || status != http.StatusOK {
			t.Fatalf("%d %s, %v", status, body, err)
		}
	}
	call("/mcp", "tool_execute", map[string]any{"tool_id": id, "args": map[string]any{"text": "x"}})
	call("/mcps/fake/mcp", "echo", map[string]any{"text": "private-text"})
	call("/mcps/fake/mcp", "refuse", map[string]any{"message": "x"})
	call("/mcps/fake/mcp", "fail", map[string]any{})
	want := []string{
		`weir_calls_total{outcome="ok",tool="fake:echo",upstream="fake"} 2`,
		`weir_calls_total{outcome="tool_error",tool="fake:refuse",upstream="fake"} 1`,
		`weir_calls_total{outcome="UPSTREAM_ERROR",tool="fake:fail",upstream="fake"} 1`,
		`weir_upstream_requests_in_flight{upstream="fake"} 0`,
		`weir_upstream_request_duration_seconds_count{upstream="fake"}`,
		`weir_upstream_restarts_total{upstream="fake"} 0`,
		`weir_build_info{`,
		`mcp_server_operation_duration_seconds_count{error_type="",mcp_method_name="tools/call"} `,
		`mcp_server_operation_duration_seconds_count{error_type="tool_error",mcp_method_name="tools/call"} 1`,
		`mcp_client_operation_duration_seconds_count{error_type="",mcp_method_name="tools/call"} 2`,
		`mcp_client_operation_duration_seconds_count{error_type="tool_error",mcp_method_name="tools/call"} 1`,
	}
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		_, metrics := get(t, s.base+"/metrics")
		missing := ""
		for _, text := range want {
			if !strings.Contains(metrics, text) {
				missing = text
			}
		}
		if missing == "" {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the metrics lack %s:\n%s", missing, metrics)
		}
	}
	data, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`"event":"passthrough.completed"`, `"event":"passthrough.failed"`, `"method":"tools/call"`, `"tool_id":"` + id + `"`, `"code":"UPSTREAM_ERROR"`} {
		if !strings.Contains(string(data), text) {
			t.Errorf("no %s among the events", text)
		}
	}
	if strings.Contains(string(data), "private-text") {
		t.Errorf("too much is told: %s", data)
	}
}

// TestMetricsToken: a token for /metrics opens nothing else, and one for single agents
// opens /metrics where it says so.
func TestMetricsToken(t *testing.T) {
	t.Parallel()
	hash := func(token string) string { sum := sha256.Sum256([]byte(token)); return hex.EncodeToString(sum[:]) }
	s := serve(t, oneFake+"hub: {}\nauth:\n  tokens:\n  - {name: all, sha256: "+hash("all")+"}\n  - {name: prom, sha256: "+hash("prom")+", metrics: true}\n  - {name: both, sha256: "+
		hash("both")+", metrics: true, agents: [fake]}\n  - {name: one, sha256: "+hash("one")+", agents: [fake]}\n")
	s2 := func(path, token string) int {
		t.Helper()
		code, _ := get(t, s.base+path, "Authorization", "Bearer "+token)
		return code
	}
	for token, want := range map[string]int{"all": 200, "prom": 200, "both": 200, "one": 403, "none": 401} {
		if got := s2("/metrics", token); got != want {
			t.Errorf("/metrics with %s: %d, want %d", token, got, want)
		}
	}
	for _, path := range []string{"/mcp", "/mcps/fake/mcp", "/mcp/fake/mcp", "/mcps/fake/task?taskId=x", "/sse", "/healthz", "/health", "/stats", "/catalog", "/status/data", "/agents", "/api/v1/overview", "/getTaskStatus?agent=fake&taskId=x"} {
		if got := s2(path, "prom"); got != http.StatusForbidden {
			t.Errorf("%s with the token for /metrics: %d", path, got)
		}
	}
	for _, path := range []string{"/mcp", "/mcp?mode=none"} {
		token := map[bool]string{true: "all", false: "one"}[strings.Contains(path, "?")]
		if code, body := exchange(t, "POST", s.base+path, `{"jsonrpc":"2.0","id":"mine","method":"ping"}`, "Authorization", "Bearer "+token, "Content-Type", "application/json"); code < 400 || !strings.Contains(body, `"id":"mine"`) {
			t.Errorf("POST %s with %s: %d %s", path, token, code, body)
		}
	}
	// Where the configuration is, and who is in which office, is for whole tokens.
	for token, whole := range map[string]bool{"both": false, "one": false, "all": true} {
		code, body := get(t, s.base+"/healthz", "Authorization", "Bearer "+token)
		if code != http.StatusOK || strings.Contains(body, s.config) != whole || strings.Contains(body, `"hub"`) != whole {
			t.Errorf("/healthz with %s: %d %s", token, code, body)
		}
	}
	// The hub of this machine takes a token of auth.tokens that opens everything.
	if code, body := get(t, s.base+"/smcp/?EIO=4&transport=polling", "Authorization", "Bearer prom"); code == http.StatusOK && strings.Contains(body, "connected") {
		t.Errorf("the hub: %d %s", code, body)
	}
	if code, body := get(t, s.base+"/metrics", "Authorization", "Bearer one"); code != http.StatusForbidden || !strings.Contains(body, "metrics: true") {
		t.Errorf("%d %s", code, body)
	}
}
