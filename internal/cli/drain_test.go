package cli

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/gateway"
)

// TestReloadFinishesCalls: a call at a server that a reload changes ends as it would
// have, through the gateway and through /mcps/NAME/mcp, while another process answers
// new ones.
func TestReloadFinishesCalls(t *testing.T) {
	t.Parallel()
	s := serve(t, "mcpServers:\n  a: {command: '%FAKE%'}\n")
	id := s.tool("a:sleep")
	before := s.await("a is listed", func(h gateway.Health) bool { return h.Upstreams["a"].Tools > 0 }).Upstreams["a"].Pid
	type answer struct {
		status int
		body   string
		err    error
	}
	answers := make(chan answer, 2)
	const slow = 1500
	client := httpClient(t)
	for _, c := range []struct{ path, tool string }{{"/mcp", "tool_execute"}, {"/mcps/a/mcp", "sleep"}} {
		args := map[string]any{"sleep_ms": slow}
		if c.tool == "tool_execute" {
			args = map[string]any{"tool_id": id, "args": args}
		}
		go func() {
			status, body, err := post(t.Context(), client, s.base+c.path, c.tool, modernCall(1, c.tool, args))
			answers <- answer{status, body, err}
		}()
	}
	s.await("both calls are in flight", func(h gateway.Health) bool { return h.Upstreams["a"].InFlight == 2 })
	if err := os.WriteFile(s.config, []byte(strings.ReplaceAll("mcpServers:\n  a: {command: '%FAKE%', tags: [new]}\n", "%FAKE%", fakeBin)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.await("another process serves a", func(h gateway.Health) bool { return h.Upstreams["a"].Pid != 0 && h.Upstreams["a"].Pid != before })
	for range 2 {
		select {
		case a := <-answers:
			if a.err != nil || a.status != 200 || !strings.Contains(a.body, "slept") {
				t.Errorf("%+v", a)
			}
		case <-time.After(limit):
			t.Fatal("no answer")
		}
	}
	if log := s.stderr.String(); !strings.Contains(log, "calls in flight go on although the configuration has changed") || strings.Contains(log, "cut off") {
		t.Error("the log does not say so")
	}
}
