package gateway_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestProgramOfAPrincipal: the clients of a principal without sessions have one process of a server with per_session,
// whichever nodes and paths they ask. Other principals and sessions have others. The process is taken over when its
// node ends, and when it is killed.
func TestProgramOfAPrincipal(t *testing.T) {
	t.Parallel()
	c, pid := gatewaytest.PrincipalNodes(t, 3)
	paths := []string{"/mcp", "/mcps/prog/mcp"}
	same := func(token string) string {
		t.Helper()
		first := ""
		for _, n := range c.All {
			for _, path := range paths {
				if n.Off {
					continue
				}
				got := pid(n, path, token)
				if first == "" {
					first = got
				}
				if got != first || strings.HasPrefix(got, "none") {
					t.Errorf("%s at %s: %s, not %s", path, n.Name, got, first)
				}
			}
		}
		return first
	}
	ann, bob := same(gatewaytest.AnnToken), same(gatewaytest.BobToken)
	if ann == bob {
		t.Errorf("two principals have the process %s", ann)
	}
	c.Path = "/mcps/prog/mcp"
	session := c.Open(c.All[0])
	if _, got := c.PostTo(c.All[0], session, `{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"name":"pid","arguments":{}}}`); !strings.Contains(got, "pid ") || strings.Contains(got, ann) || strings.Contains(got, bob) {
		t.Errorf("a session: %s", got)
	}
	const answer = `"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}},`
	asked := c.Agent(c.All[1], gatewaytest.AnnToken, "tools/call", "ask", `"name":"ask","arguments":{},`)
	state := regexp.MustCompile(`"requestState":"[^"]+",`).FindString(asked + ",")
	for _, n := range c.All {
		if got := c.Agent(n, gatewaytest.AnnToken, "tools/call", "ask", `"name":"ask","arguments":{},`+state+answer); state == "" || !strings.Contains(got, "hello Ada") {
			t.Errorf("the answer to a question, at %s: %s after %s", n.Name, got, asked)
		}
	}
	c.Stop(c.All[0]) // has both
	c.Settles(func() (bool, string) {
		got := pid(c.All[1], paths[0], gatewaytest.AnnToken)
		return !strings.HasPrefix(got, "none"), got
	})
	next := same(gatewaytest.AnnToken)
	if next == ann {
		t.Error("the process of a node that has ended goes on")
	}
	c.Kill(c.All[1])
	c.Settles(func() (bool, string) {
		got := pid(c.All[2], paths[0], gatewaytest.AnnToken)
		return !strings.HasPrefix(got, "none"), got
	})
	if last := same(gatewaytest.AnnToken); last == next {
		t.Error("the process of a killed node goes on")
	}
}
