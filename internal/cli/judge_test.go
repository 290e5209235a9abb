package cli

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
)

// passes calls a tool at a path of a gateway as one who knows only HTTP.
func passes(t *testing.T, base, path, tool string) string {
	t.Helper()
	_, body := exchange(t, http.MethodPost, base+path, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"`+tool+`","arguments":{"text":"passed through"}}}`,
		"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")
	return body
}

// TestPolicyByAnotherURL: what the policy refuses at /mcp it refuses at
// /mcps/NAME/mcp, of tools outside of the catalog as well, and a reload changes
// both.
func TestPolicyByAnotherURL(t *testing.T) {
	t.Parallel()
	const head = "mcpServers:\n  fake: {command: %FAKE%, exclude_tools: [echo]}\n"
	s := serve(t, head+`policy:
  approval_wait: 0s
  rules:
    - {action: deny, tool: refuse, reason: not here}
    - {action: deny, tool: "fake:echo#*"}
    - {action: require_approval, tool: odd}
`)
	s.await("ready", func(h gateway.Health) bool { return h.Upstreams["fake"].State == "ready" })
	for _, path := range []string{"/mcps/fake/mcp", "/mcp/fake/mcp"} {
		for tool, want := range map[string]string{
			"refuse":  `"error":{"code":-32001,"message":"tools/call of \"refuse\" at server \"fake\": the policy of this gateway refuses it, by policy.rules[0] (not here)"`,
			"echo":    `by policy.rules[1]`,
			"odd":     `a person has to approve it`,
			"counter": `"result"`,
		} {
			if body := passes(t, s.base, path, tool); !strings.Contains(body, want) || strings.Contains(body, `"error"`) != strings.Contains(body, `"kind":"permission_denied"`) {
				t.Errorf("%s at %s: %s", tool, path, body)
			}
		}
	}
	fake := strings.ReplaceAll(head, "%FAKE%", fakeBin)
	if err := os.WriteFile(s.config, []byte(fake+"policy: {rules: [{action: deny, tool: counter}]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	until(t, "permission_denied", func() string { return passes(t, s.base, "/mcps/fake/mcp", "counter") })
	if body := passes(t, s.base, "/mcps/fake/mcp", "refuse"); strings.Contains(body, "permission_denied") {
		t.Errorf("the old policy holds: %s", body)
	}
}

// TestPolicyOfComputers: a tool of a Computer is refused by whichever of its names.
func TestPolicyOfComputers(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers: {}\npolicy: {rules: [{action: deny, namespace: desk-excel, tool: echo}]}\nhub:\n  tokens: [{name: desk, sha256: "+
		fmt.Sprintf("%x", sha256.Sum256([]byte("t0ken-of-the-desk")))+", role: computer, offices: [weir]}]\n")
	dir := t.TempDir()
	path := filepath.Join(dir, "mcp.json")
	text := fmt.Sprintf(`{"mcpServers":{"excel":{"command":%q,"args":["-name","excel"],"default_tool_meta":{"auto_apply":true},"tool_meta":{"counter":{"alias":"tally"}}}}}`, fakeBin)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	base := strings.TrimSuffix(s.url, "/mcp")
	startComputer(t, dir, "WEIR_HUB_TOKEN=t0ken-of-the-desk", "--hub", base, "--name", "desk", "--config", path)
	s.await("the Computer's server is an upstream", func(h gateway.Health) bool { return h.Upstreams["desk-excel"].Tools > 0 })
	for _, path := range []string{"/mcps/desk-excel/mcp", "/mcps/desk.excel/mcp", "/mcps/desk/mcp"} {
		for _, tool := range []string{"echo", "excel__echo"} {
			if body := passes(t, base, path, tool); !strings.Contains(body, "permission_denied") && !(tool != "echo" && path != "/mcps/desk/mcp") {
				t.Errorf("%s at %s: %s", tool, path, body)
			}
		}
		if body := passes(t, base, path, "odd"); strings.Contains(body, "permission_denied") || !strings.Contains(body, `"result"`) {
			t.Errorf("odd at %s: %s", path, body)
		}
	}
	// What a Computer calls a tool is not what its server does: nobody knows that
	// this one is another than echo.
	if body := passes(t, base, "/mcps/desk/mcp", "tally"); !strings.Contains(body, "permission_denied") {
		t.Errorf("an alias: %s", body)
	}
}

// TestNothingPassesADefaultOfDeny: under `default: deny` no message of an agent
// reaches a server, by any URL and any method, and what another reader could read
// differently is refused in other words.
func TestNothingPassesADefaultOfDeny(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers:\n  fake: {command: %FAKE%}\npolicy: {default: deny}\n")
	s.await("ready", func(h gateway.Health) bool { return h.Upstreams["fake"].State == "ready" })
	send := func(path, method, params string) string {
		t.Helper()
		_, body := exchange(t, http.MethodPost, s.base+path, `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`,
			"Content-Type", "application/json", "Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18")
		return body
	}
	for _, path := range []string{"/mcps/fake/mcp", "/mcp/fake/mcp"} {
		for method, params := range map[string]string{
			"tools/call": `{"name":"echo","arguments":{"text":"hi"}}`, "resources/read": `{"uri":"file:///x"}`, "prompts/get": `{"name":"x"}`,
			"completion/complete": `{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}`,
			"tasks/get":           `{"taskId":"t"}`, "tasks/result": `{"taskId":"t"}`, "tasks/cancel": `{"taskId":"t"}`,
			"resources/subscribe": `{"uri":"file:///x"}`, "evil/custom": `{}`,
		} {
			if body := send(path, method, params); !strings.Contains(body, `"permission_denied"`) || !strings.Contains(body, "policy.default") {
				t.Errorf("%s at %s: %s", method, path, body)
			}
		}
		if body := send(path, "tools/call", `{"name":"echo","arguments":{"text":"hi"},"arguments":{"text":"ho"}}`); !strings.Contains(body, "-32602") {
			t.Errorf("two arguments at %s: %s", path, body)
		}
		if body := send(path, "tools/list", `{}`); !strings.Contains(body, `"result"`) {
			t.Errorf("tools/list at %s: %s", path, body)
		}
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if code, body := exchange(t, method, s.base+"/mcps/fake/task?taskId=t", ""); code != http.StatusForbidden || !strings.Contains(body, "permission_denied") {
			t.Errorf("%s of a task: %d %s", method, code, body)
		}
	}
	weir(t, "call", s.tool("fake:echo"), "--arg", "text=hi", "--url", s.url).want(t, exitRefused, "PERMISSION_DENIED")
}
