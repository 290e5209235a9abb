package gateway_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestNodeWithoutItsStore: a node that starts while its store is away serves what needs nothing of the store, with
// credentials as ever, and says store_unavailable to the rest. When the store comes, it is in the cluster, and what it
// gave out before is valid.
func TestNodeWithoutItsStore(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 0, "rate_limits: {tool_browse: {max_calls_per_minute: 100}}\n")
	c.Programs = ", " + strings.Replace(gatewaytest.ProgramConfig(t), "{command", "{scope: cluster, required: true, command", 1)
	first := c.Start("n0")
	before := c.Open(first)
	echo := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(c.Calls(first, before, "tool_browse", `{"query":"echo"}`))
	first.Out = true
	holder := func(n *gatewaytest.Node) string { return n.Gateway.Holders()["prog"] }
	c.Late = true
	late := c.Start("n1")
	// It has heard of no node that is better off. An operator sees what is wrong, and the node itself.
	for path, want := range map[string]string{
		"/readyz":  `{"reason":"this node has just started and the store of its cluster does not answer: [^"]+","status":"degraded"}`,
		"/healthz": `"status":"degraded".*"store":"this node has just started`, "/metrics": `(?s)weir_cluster_apart 1\n.*weir_cluster_nodes{state="apart"} 1\n`,
		"/api/v1/cluster": `"self":true,"state":"apart","version":"test".*"config":"[0-9a-f]+".*"warnings":\["n1: this node has just started`,
	} {
		if status, body := c.Look(late, path, gatewaytest.OpsToken); status != http.StatusOK || !regexp.MustCompile(want).MatchString(body) {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	for path, want := range map[string]int{"/healthz": http.StatusOK, "/stats": http.StatusOK, "/": http.StatusOK} {
		if status, body := c.Look(late, path, gatewaytest.AnnToken); status != want {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body := c.Look(late, "/stats", "a-token-of-none-0123456789"); status != http.StatusUnauthorized {
		t.Errorf("a wrong token: %d %s", status, body)
	}
	// What needs nothing of the store.
	session := c.Open(late)
	if !strings.HasPrefix(session, "w1."+late.Node.Inc()+".") {
		t.Errorf("the id %.20q does not name its node", session)
	}
	list := `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
	call := `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_execute","arguments":{"tool_id":"` + echo + `","args":{"text":"hello"}}}}`
	serves := func(n *gatewaytest.Node, session string) {
		t.Helper()
		for _, body := range []string{list, call} {
			if resp, answer := c.PostTo(n, session, body); resp.StatusCode != http.StatusOK || !strings.Contains(answer, `"result"`) || strings.Contains(answer, "isError\":true") {
				t.Errorf("%s at %s: %d %s", body, n.Name, resp.StatusCode, answer)
			}
		}
	}
	serves(late, session)
	if status, body := c.Modern(late, "tools/call", "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+echo+`","args":{"text":"hello"}},`); status != http.StatusOK || !strings.Contains(body, "hello") {
		t.Errorf("a modern call: %d %s", status, body)
	}
	// What needs the store.
	unavailable := func(what string, status int, body string) {
		t.Helper()
		if status != http.StatusServiceUnavailable || !strings.Contains(body, "store_unavailable") {
			t.Errorf("%s: %d %s", what, status, body)
		}
	}
	resp, body := c.PostTo(late, before, list)
	unavailable("a session of another node", resp.StatusCode, body)
	if resp.Header.Get("Retry-After") != "2" {
		t.Errorf("Retry-After: %v", resp.Header)
	}
	status, body := c.Register(late, c.Up.URL+"/mcp")
	unavailable("a registration", status, body)
	if !c.Browse(late) {
		t.Error("a call with a quota of all nodes passed")
	}
	if inc, there := holder(first), first.Node.Inc(); inc != there {
		t.Errorf("the server of the cluster is at %q, not at %q", inc, there)
	}
	if inc := holder(late); inc != "" {
		t.Errorf("without a store, the server of the cluster is at %q", inc)
	}

	inc := late.Node.Inc()
	late.Docs.Cut(false)
	gatewaytest.Eventually(t, "in the cluster", func() bool {
		status, body := c.Look(late, "/readyz", "")
		return status == http.StatusOK && strings.Contains(body, `"ok"`)
	})
	if late.Node.Inc() != inc {
		t.Error("the node has another INC")
	}
	first.Out = false
	serves(late, session)
	serves(first, session)
	serves(late, before)
	gatewaytest.Eventually(t, "a registration", func() bool {
		status, _ := c.Register(late, c.Up.URL+"/mcp")
		return status == http.StatusOK
	})
	gatewaytest.Eventually(t, "the holder of the server", func() bool { return holder(late) == first.Node.Inc() })
	gatewaytest.Eventually(t, "a quota", func() bool { return !c.Browse(late) })
	c.Stop(first)
	serves(late, session)
	gatewaytest.Eventually(t, "the server of the node that has ended", func() bool { return holder(late) == inc })
}
