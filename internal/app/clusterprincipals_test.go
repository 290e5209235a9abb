package app_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// principalNodes starts nodes whose server program has per_session, and returns how to ask for the process that serves a
// caller at a node and path.
func principalNodes(t *testing.T, count int) (c *nodes, pid func(n *node, path, token string) string) {
	t.Helper()
	c = startNodesWith(t, 0, "policy: {rules: [{action: deny, namespace: another}]}\n")
	c.programs = ", " + strings.Replace(programConfig(t), "{command", "{per_session: true, command", 1)
	for i := range count {
		c.start(fmt.Sprint("n", i))
	}
	tool := regexp.MustCompile(`prog:pid#[0-9a-f]+`).FindString(c.calls(c.all[0], c.open(c.all[0]), "tool_browse", `{"query":"names the process"}`))
	return c, func(n *node, path, token string) string {
		t.Helper()
		c.path = path
		name, call := "pid", `"name":"pid","arguments":{},`
		if path == "/mcp" {
			name, call = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":{}},`
		}
		got := c.agent(n, token, "tools/call", name, call)
		if found := regexp.MustCompile(`pid ([0-9]+)`).FindStringSubmatch(got); found != nil {
			return found[1]
		}
		return "none: " + got
	}
}

// TestProgramOfAPrincipal: the clients of a principal without sessions have one process of a server with per_session,
// whichever nodes and paths they ask. Other principals and sessions have others. The process is taken over when its
// node ends, and when it is killed.
func TestProgramOfAPrincipal(t *testing.T) {
	t.Parallel()
	c, pid := principalNodes(t, 3)
	paths := []string{"/mcp", "/mcps/prog/mcp"}
	same := func(token string) string {
		t.Helper()
		first := ""
		for _, n := range c.all {
			for _, path := range paths {
				if n.off {
					continue
				}
				got := pid(n, path, token)
				if first == "" {
					first = got
				}
				if got != first || strings.HasPrefix(got, "none") {
					t.Errorf("%s at %s: %s, not %s", path, n.name, got, first)
				}
			}
		}
		return first
	}
	ann, bob := same(clusterToken), same(otherToken)
	if ann == bob {
		t.Errorf("two principals have the process %s", ann)
	}
	c.path = "/mcps/prog/mcp"
	session := c.open(c.all[0])
	if _, got := c.postTo(c.all[0], session, `{"jsonrpc":"2.0","id":70,"method":"tools/call","params":{"name":"pid","arguments":{}}}`); !strings.Contains(got, "pid ") || strings.Contains(got, ann) || strings.Contains(got, bob) {
		t.Errorf("a session: %s", got)
	}
	const answer = `"inputResponses":{"who":{"action":"accept","content":{"name":"Ada"}}},`
	asked := c.agent(c.all[1], clusterToken, "tools/call", "ask", `"name":"ask","arguments":{},`)
	state := regexp.MustCompile(`"requestState":"[^"]+",`).FindString(asked + ",")
	for _, n := range c.all {
		if got := c.agent(n, clusterToken, "tools/call", "ask", `"name":"ask","arguments":{},`+state+answer); state == "" || !strings.Contains(got, "hello Ada") {
			t.Errorf("the answer to a question, at %s: %s after %s", n.name, got, asked)
		}
	}
	c.stop(c.all[0]) // has both
	c.settles(func() (bool, string) {
		got := pid(c.all[1], paths[0], clusterToken)
		return !strings.HasPrefix(got, "none"), got
	})
	next := same(clusterToken)
	if next == ann {
		t.Error("the process of a node that has ended goes on")
	}
	c.kill(c.all[1])
	c.settles(func() (bool, string) {
		got := pid(c.all[2], paths[0], clusterToken)
		return !strings.HasPrefix(got, "none"), got
	})
	if last := same(clusterToken); last == next {
		t.Error("the process of a killed node goes on")
	}
}
