package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestHandOverOfASession: at a drain the next node of a session knows how often the session has called and what it was
// offered, and lets through exactly what is left of its quota.
func TestHandOverOfASession(t *testing.T) {
	for name, drain := range map[string]func(c *gatewaytest.Nodes, first *gatewaytest.Node) (next *gatewaytest.Node){
		"drain": func(c *gatewaytest.Nodes, first *gatewaytest.Node) *gatewaytest.Node {
			first.Node.Drain()
			return c.All[1]
		},
		"at the node": func(_ *gatewaytest.Nodes, first *gatewaytest.Node) *gatewaytest.Node {
			first.Node.Drain()
			return first
		},
		"end": func(c *gatewaytest.Nodes, first *gatewaytest.Node) *gatewaytest.Node { c.Stop(first); return c.All[1] },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := gatewaytest.StartNodesWith(t, 2, "rate_limits: {tool_browse: {max_calls_per_session: 32}}\npolicy: {rules: [{action: deny, tool: sleep, when: \"session.calls < 3\"}]}\n")
			first := c.All[0]
			session := c.Open(first)
			if n := first.Gateway.OpenSessions(); n != 1 {
				t.Errorf("the node has %d sessions after a handshake", n)
			}
			call := func(n *gatewaytest.Node, params string) (int, string) {
				c.Call++
				resp, body := c.PostTo(n, session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, c.Call, params))
				return resp.StatusCode, body
			}
			_, found := call(first, `{"name":"tool_browse","arguments":{"path":"/up"}}`)
			execute := func(tool string) string {
				at := strings.Index(found, "up:"+tool+"#")
				if at < 0 {
					t.Fatal(found)
				}
				return fmt.Sprintf(`{"name":"tool_execute","arguments":{"tool_id":%q,"args":{"sleep_ms":0}}}`, found[at:at+len("up:"+tool+"#")+8])
			}
			echo, sleep := execute("echo"), execute("sleep")
			_, refused := call(first, sleep)
			if !strings.Contains(refused, `"isError":true`) {
				t.Fatalf("the first call of a session passes: %s", refused)
			}
			for range 3 {
				call(first, echo)
			}
			next := drain(c, first)
			if status, body := call(next, sleep); status != http.StatusOK || strings.Contains(body, `"isError":true`) || !strings.Contains(body, "result") {
				t.Errorf("session.calls begins anew: %d %s", status, body)
			}
			for i := range 31 {
				if _, body := call(next, `{"name":"tool_browse","arguments":{"query":"echo"}}`); strings.Contains(body, "RATE_LIMITED") {
					t.Fatalf("call %d of 31 that are left is refused: %s", i, body)
				}
			}
			if _, body := call(next, `{"name":"tool_browse","arguments":{"query":"echo"}}`); !strings.Contains(body, "RATE_LIMITED") {
				t.Errorf("a call over the quota: %s", body)
			}
		})
	}
}

// TestClaimsOfADrainingNode: another node has the server that runs once before the process of its node ends.
func TestClaimsOfADrainingNode(t *testing.T) {
	t.Parallel()
	c := gatewaytest.ScopedNodes(t, 2, "")
	holder := func() string {
		inc := ""
		for doc, err := range c.Docs.List(t.Context(), "u.") {
			if err == nil {
				inc = string(doc.Value)
			}
		}
		return inc
	}
	var first, second *gatewaytest.Node
	gatewaytest.Eventually(t, "a node holds the server", func() bool {
		for i, n := range c.All {
			if strings.Contains(holder(), n.Node.Inc()) {
				first, second = n, c.All[1-i]
			}
		}
		return first != nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	began := time.Now()
	first.Node.Drain()
	gatewaytest.Eventually(t, "the other node holds the server while the first one runs", func() bool { return strings.Contains(holder(), second.Node.Inc()) })
	t.Logf("after %v", time.Since(began))
	if first.Node.Gone(first.Node.Inc()) || ctx.Err() != nil {
		t.Error("the first node has ended")
	}
	session := c.Open(second)
	c.Works(session)
}
