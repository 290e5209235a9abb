package gateway_test

import (
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestApprovalsWithoutTheirNode: the gateway that has asked a person is killed or drained, and any other one goes on with the
// call: once, also when the yes comes to two of them at the same time.
func TestApprovalsWithoutTheirNode(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 4, "policy: {rules: [{action: require_approval, namespace: up}]}\n")
	c.Elicit = regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(c.Calls(c.All[0], c.Open(c.All[0]), "tool_browse", `{"query":"echo"}`))
	call := func(n *gatewaytest.Node, path, token, text, more string) (int, string) {
		name, params := "echo", `"name":"echo","arguments":{"text":"`+text+`"}`
		if path == "/mcp" {
			name, params = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+c.Elicit+`","args":{"text":"`+text+`"}}`
		}
		return c.Sends(n, path, token, "tools/call", name, params+more+",", `"elicitation":{"form":{}}`)
	}
	yes := func(n *gatewaytest.Node, path string) string {
		t.Helper()
		status, asked := call(n, path, gatewaytest.AnnToken, "it ran", "")
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		if status != http.StatusOK || state == nil {
			t.Fatalf("%s: %d %s", path, status, asked)
		}
		return `,"requestState":` + state[1] + `,"inputResponses":{"approve-1":{"action":"accept","content":{}}}`
	}
	// runs tells two nodes of a yes at the same time.
	runs := func(what, path, given string, at [2]*gatewaytest.Node) {
		t.Helper()
		var ran atomic.Int32
		var both sync.WaitGroup
		for _, n := range at {
			both.Go(func() {
				switch status, body := call(n, path, gatewaytest.AnnToken, "it ran", given); {
				case status == http.StatusOK && strings.Contains(body, "it ran"):
					ran.Add(1)
				case !strings.Contains(body, "they were given before"):
					t.Errorf("%s: %s: at %s: %d %s", what, path, n.Name, status, body)
				}
			})
		}
		if both.Wait(); ran.Load() != 1 {
			t.Errorf("%s: %s: one yes let %d calls run", what, path, ran.Load())
		}
	}
	third, fourth := c.All[2], c.All[3]
	for i, end := range []func(n *gatewaytest.Node){c.Kill, func(n *gatewaytest.Node) { n.Node.Drain() }} {
		what, path := []string{"killed", "drained"}[i], []string{"/mcp", "/mcps/up/mcp"}[i]
		given := yes(c.All[i], path)
		end(c.All[i])
		refused := func(who, token, text string) {
			t.Helper()
			c.Settles(func() (bool, string) {
				_, body := call(third, path, token, text, given)
				return strings.Contains(body, "requestState is not for this request"), what + ": " + who + ": " + body
			})
		}
		refused("another principal", gatewaytest.BobToken, "it ran")
		refused("other arguments", gatewaytest.AnnToken, "other")
		runs(what, path, given, [2]*gatewaytest.Node{third, fourth})
	}
}
