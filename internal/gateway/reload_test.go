package gateway

import (
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/part"
)

// TestDivided: a reload says "applied" of what is in force, and of nothing else.
func TestDivided(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		old, next      string
		applied, waits []string
	}{
		{"", "listen: 127.0.0.1:1", nil, []string{"listen"}},
		{"", "mode: proxy\nlisten: 127.0.0.1:1", []string{"mode"}, []string{"listen"}},
		{"", "log: {level: debug}", []string{"log"}, nil},
		{"", "log: {format: json}", nil, []string{"log.format"}},
		{"", "log: {format: json, level: debug}", []string{"log"}, []string{"log.format"}},
		{"", "http: {allowed_hosts: [x]}", []string{"http"}, nil},
		{"", "http: {keep_alive: 1s}", nil, []string{"http.max_body_bytes, max_sessions, session_idle and keep_alive"}},
		{"hub: {}", "hub: {tokens: [{name: a, sha256: " + sha + "}]}", []string{"hub"}, nil},
		{"hub: {}", "hub: {office: x}", nil, []string{"hub, except its tokens, issuers and computers"}},
		{"", "artifacts: {redact: true, ttl: 2h}", []string{"artifacts"}, []string{"artifacts.dir, ttl, max_bytes, max_count, memory_bytes, disk_bytes and backup"}},
		{"", "agents: {lease: 10s, max: 2000}", nil, []string{"agents.routing, agents.lease and agents.max"}},
		{"", "agents: {limits: {in_flight: 1}}", []string{"agents"}, nil},
		{"events: {file: a}", "events: {file: b}", nil, []string{"events"}},
		{"", "registry: {url: https://registry.example.com}", []string{"registry"}, nil},
		{"otlp: {url: http://127.0.0.1:1}", "otlp: {url: http://127.0.0.1:1, sample: 0.5}", []string{"otlp"}, nil},
		{"audit: {dir: a}", "audit: {dir: a, required: true}", nil, []string{"audit"}},
	} {
		read := func(text string) *config.Config {
			t.Helper()
			parsed, _, err := config.Parse("weir.yaml", []byte("mcpServers: {}\n"+text), config.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return parsed
		}
		old, next := read(c.old), read(c.next)
		applied, waits := new(Gateway).table().Divide(part.Reload{Now: old, Next: next, Change: config.Diff(old, next)})
		if !slices.Equal(applied, c.applied) || !slices.Equal(waits, c.waits) {
			t.Errorf("%q to %q: applied %q, waits %q; want %q, %q", c.old, c.next, applied, waits, c.applied, c.waits)
		}
	}
}

const sha = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
