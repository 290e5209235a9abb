package gateway_test

import (
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestQuotaOfAPrincipalOverNodes: a client without sessions has one quota at all gateways, also when one of
// them is killed.
func TestQuotaOfAPrincipalOverNodes(t *testing.T) {
	c := gatewaytest.StartNodesWith(t, 3, "rate_limits: {tool_browse: {max_calls_per_session: 20}}\n")
	passed := 0
	for i := range 30 {
		if i == 12 {
			c.Kill(c.All[1])
		}
		if !c.Browse(c.Next()) {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d calls of 30 passed, want 20", passed)
	}
	if c.Start("n3"); !c.Browse(c.All[3]) {
		t.Error("a new gateway has a quota of its own")
	}
	c.Stop(c.All[0])
	if !c.Browse(c.All[2]) {
		t.Error("the end of a gateway gives calls back that were made")
	}
}
