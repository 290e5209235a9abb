package app_test

import (
	"net/http"
	"strings"
	"testing"
)

// modern makes a request of a client of 2026-07-28 at a node.
func (c *nodes) modern(n *node, method, name, params string) (int, string) {
	c.t.Helper()
	return c.sends(n, c.path, clusterToken, method, name, params, "")
}

// browse calls tool_browse at a node, and reports whether a quota refuses it.
func (c *nodes) browse(n *node) (limited bool) {
	c.t.Helper()
	status, body := c.modern(n, "tools/call", "tool_browse", `"name":"tool_browse","arguments":{"query":"echo"},`)
	if limited = strings.Contains(body, "RATE_LIMITED"); status != http.StatusOK || !limited && !strings.Contains(body, "echo") {
		c.t.Fatalf("at %s: %d %s", n.name, status, body)
	}
	return limited
}

// TestQuotaOfAPrincipalOverNodes: a client without sessions has one quota at all gateways, also when one of
// them is killed.
func TestQuotaOfAPrincipalOverNodes(t *testing.T) {
	c := startNodesWith(t, 3, "rate_limits: {tool_browse: {max_calls_per_session: 20}}\n")
	passed := 0
	for i := range 30 {
		if i == 12 {
			c.kill(c.all[1])
		}
		if !c.browse(c.next()) {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d calls of 30 passed, want 20", passed)
	}
	if c.start("n3"); !c.browse(c.all[3]) {
		t.Error("a new gateway has a quota of its own")
	}
	c.stop(c.all[0])
	if !c.browse(c.all[2]) {
		t.Error("the end of a gateway gives calls back that were made")
	}
}
