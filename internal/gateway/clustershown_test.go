package gateway_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestShownAtOtherNodes: the calls of a client without sessions count for conditions at all nodes, and the cards that it
// was shown at one node are the beginning of answers at the others, after a restart of all nodes too.
func TestShownAtOtherNodes(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 2, "cache_stable: true\npolicy: {rules: [{action: deny, tool: sleep, when: \"session.calls < 3\"}]}\n")
	first, second := c.All[0], c.All[1]
	browse := func(n *gatewaytest.Node, query string) string {
		status, body := c.Modern(n, "tools/call", "tool_browse", `"name":"tool_browse","arguments":{"query":"`+query+`"},`)
		if status != http.StatusOK {
			t.Errorf("%s: %d %s", n.Name, status, body)
		}
		return body
	}
	call := func(n *gatewaytest.Node, tool string) string {
		_, body := c.Modern(n, "tools/call", "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":{"sleep_ms":0}},`)
		return body
	}
	echo := regexp.MustCompile(`up:echo#[0-9a-f]+`).FindString(browse(first, "echo"))
	_, found := c.Modern(first, "tools/call", "tool_browse", `"name":"tool_browse","arguments":{"path":"/up"},`)
	sleep := regexp.MustCompile(`up:sleep#[0-9a-f]+`).FindString(found)
	if echo == "" || sleep == "" {
		t.Fatal(found)
	}
	if body := call(second, sleep); !strings.Contains(body, `"isError":true`) {
		t.Errorf("the first call of a principal passes: %s", body)
	}
	call(first, echo)
	call(second, echo)
	call(first, echo)
	for _, n := range c.All {
		c.Settles(func() (bool, string) {
			body := call(n, sleep)
			return !strings.Contains(body, `"isError":true`), n.Name + ": " + body
		})
	}
	for _, n := range c.All {
		c.Stop(n)
	}
	third := c.Start("n2")
	if body := call(third, sleep); strings.Contains(body, `"isError":true`) {
		t.Errorf("after a restart: %s", body)
	}
	if body := call(third, strings.ToUpper(sleep)); !strings.Contains(body, "repaired") {
		t.Errorf("an id that was shown elsewhere, in another case: %s", body)
	}
}
