package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/search/selection"
)

// TestOperators runs a gateway with controls and looks at what operators see.
func TestOperators(t *testing.T) {
	t.Parallel()
	events := filepath.Join(t.TempDir(), "events.jsonl")
	s := serve(t, oneFake+`
    env: {TOKEN_OF_FAKE: hunter22-hunter22}
rate_limits: {tool_execute: {max_calls_per_session: 3}}
policy: {rules: [{action: deny, tool: refuse, reason: not here}]}
cache: {read_only: true}
events: {file: `+events+`}
`)
	echo := s.tool("fake:echo")
	at := []string{"--url", s.url}
	run := func(args ...string) finished { t.Helper(); return weir(t, append(args, at...)...) }
	run("call", s.tool("fake:refuse"), "--arg", "message=x").want(t, exitRefused, "PERMISSION_DENIED", "not here")
	for range 3 {
		run("call", echo, "--arg", "text=my private text")
	}
	run("call", echo, "--arg", "text=x").want(t, exitRefused, "RATE_LIMITED", "tool_execute/session")

	stats := decode[usage.Stats](t, run("stats", "--json").want(t, exitOK).stdout)
	if stats.Total.Calls < 5 || stats.Total.Tokens.Read == 0 || len(stats.Sessions) == 0 {
		t.Errorf("%+v", stats)
	}
	run("stats").want(t, exitOK, "SESSION", "total", "cl100k_base")

	get := func(path string) string {
		t.Helper()
		resp, err := http.Get(strings.TrimSuffix(s.url, "/mcp") + path)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", path, resp.Status, err)
		}
		return string(body)
	}
	metrics := get("/metrics")
	for _, want := range []string{
		`weir_quota_breaches_total{meta_tool="tool_execute",window="session"} 1`, `weir_errors_total{code="PERMISSION_DENIED",meta_tool="tool_execute"} 1`,
		`weir_upstream_state{state="ready",upstream="fake"} 1`, "weir_tokens_read_total", "weir_tools ",
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s", want)
		}
	}
	if doc := get("/stats"); !json.Valid([]byte(doc)) {
		t.Errorf("%s", doc)
	}

	data, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		e := decode[struct {
			Event    string
			Session  string
			Upstream string
		}](t, line)
		seen[e.Event] = true
		if e.Event == telemetry.CatalogRefresh && e.Upstream != "fake" {
			t.Errorf("a refresh of which server? %s", line)
		}
	}
	for _, want := range []string{telemetry.CatalogLoaded, telemetry.CatalogRefresh, telemetry.ExecuteCompleted, telemetry.ExecuteFailed} {
		if !seen[want] {
			t.Errorf("no %s among the events", want)
		}
	}
	if strings.Contains(string(data), "private") || strings.Contains(string(data)+metrics, "hunter22") {
		t.Errorf("too much is told: %s", data)
	}
}

func TestEventsFileMustOpen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(config, []byte("listen: 127.0.0.1:0\nmcpServers: {}\nevents: {file: no/such/folder/x}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	weir(t, "serve", "--config", config).want(t, exitUsage, "events.file")
}

// What controls name and no server has is told once the servers have been listed.
func TestControlsWithoutATool(t *testing.T) {
	t.Parallel()
	s := serve(t, oneFake+`
policy: {rules: [{action: deny, tool: "fake:ehco*"}, {action: allow, tool: "fake:*"}]}
rate_limits: {per_tool: {"fake:echo@9": {max_calls_per_session: 1}}}
`)
	s.tool("fake:echo")
	s.await("what is told of the controls", func(gateway.Health) bool { return strings.Contains(s.stderr.String(), "rate_limits.per_tool") })
	log := s.stderr.String()
	for _, want := range []string{`policy.rules[0] (tool: \"fake:ehco*\") matches nothing`, `there is no \"fake:echo@9\"; close to it: fake:echo#`} {
		if strings.Count(log, want) != 1 {
			t.Errorf("%q is told %d times", want, strings.Count(log, want))
		}
	}
	if strings.Contains(log, "policy.rules[1]") {
		t.Error("a rule that matches is told")
	}
}

func TestSelect(t *testing.T) {
	t.Parallel()
	schema := decode[struct {
		InputSchema struct {
			Properties map[string]struct{ Enum []string }
		} `json:"input_schema"`
	}](t, weir(t, "select", "a:b@1", "a:c@1", "--variant", "anthropic").want(t, exitOK).stdout)
	if got := strings.Join(schema.InputSchema.Properties[selection.Property].Enum, " "); got != "a:b@1 a:c@1" {
		t.Errorf("%q", got)
	}
	weir(t, "select", "a:b@1", "--check", "A:B@1").want(t, exitOK, "case_fold", "a:b@1")
	weir(t, "select", "a:b@1", "a:c@1", "--check", "a:").want(t, exitRefused, "ambiguous_prefix")
	weir(t, "select").want(t, exitUsage, "no candidates")
	weir(t, "select", "--check", "a").want(t, exitUsage, "no candidates")
	weir(t, "select", "a:b", "--variant", "gemini").want(t, exitUsage, "json_schema, openai or anthropic")
	weir(t, "select", "a:b", "--query", "x").want(t, exitUsage, "not both")

	s := serve(t, oneFake)
	weir(t, "select", "--query", "echo", "--url", s.url).want(t, exitOK, s.tool("fake:echo"))
	weir(t, "select", "--path", "/fake", "--url", s.url).want(t, exitOK, s.tool("fake:echo"), s.tool("fake:refuse"))
}
