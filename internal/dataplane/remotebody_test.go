package dataplane_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestBodiesOfACluster: a ddi:// handle of a modern agent works at each node, once, for its principal alone, and ends
// with its node.
func TestBodiesOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 0, "policy: {rules: [{action: deny, namespace: another}]}\n")
	c.Programs = ", " + strings.Replace(gatewaytest.ProgramConfig(t), "{command", "{tables: {dispatch: true}, command", 1)
	for i := range 3 {
		c.Start(fmt.Sprint("n", i))
	}
	tool := regexp.MustCompile(`prog:args#[0-9a-f]+`).FindString(c.Calls(c.All[0], c.Open(c.All[0]), "tool_browse", `{"query":"returns its arguments"}`))
	for _, path := range []string{"/mcp", "/mcps/prog/mcp"} {
		call := func(n *gatewaytest.Node, token, args string) string {
			t.Helper()
			c.Path = path
			if path == "/mcp" {
				return c.Agent(n, token, "tools/call", "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":`+args+`},`)
			}
			return c.Agent(n, token, "tools/call", "args", `"name":"args","arguments":`+args+`,`)
		}
		makes := func(n *gatewaytest.Node) string {
			t.Helper()
			got := call(n, gatewaytest.AnnToken, `{"abstract":[{"_row_id":0,"a":1}],"body":[{"_row_id":0,"b":"the body"}]}`)
			handle := regexp.MustCompile(`ddi://[A-Za-z0-9_-]+`).FindString(got)
			if !strings.HasPrefix(handle, "ddi://"+n.Node.Inc()+"-") || strings.Contains(got, "the body") {
				t.Fatalf("%s at %s: %s", path, n.Name, got)
			}
			return `{"resource_url":"` + handle + `","more":1}`
		}
		first, second, third := c.All[0], c.All[1], c.All[2]
		args := makes(first)
		if got := call(second, gatewaytest.BobToken, args); strings.Contains(got, "the body") || !strings.Contains(got, "unknown ddi:// handle") {
			t.Errorf("%s, another principal: %s", path, got)
		}
		if got := call(second, gatewaytest.AnnToken, args); !strings.Contains(got, "body_data") || !strings.Contains(got, "the body") || strings.Contains(got, "ddi:") {
			t.Errorf("%s, at another node: %s", path, got)
		}
		for _, n := range c.All {
			if got := call(n, gatewaytest.AnnToken, args); strings.Contains(got, "the body") || !strings.Contains(got, "unknown ddi:// handle") {
				t.Errorf("%s, the second time at %s: %s", path, n.Name, got)
			}
		}
		if got := call(third, gatewaytest.AnnToken, makes(third)); !strings.Contains(got, "the body") {
			t.Errorf("%s, at its own node: %s", path, got)
		}
		if path == "/mcp" {
			continue
		}
		args = makes(first)
		c.Kill(first)
		c.Settles(func() (bool, string) {
			got := call(second, gatewaytest.AnnToken, args)
			return strings.Contains(got, "had its body is gone"), got
		})
	}
}

// TestBodiesOfAMovedSession: a ddi:// handle of a session works once after the session has moved to another node, while
// the node of the handle is there, and says so when that is gone.
func TestBodiesOfAMovedSession(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 0, "policy: {rules: [{action: deny, namespace: another}]}\n")
	c.Programs = ", " + strings.Replace(gatewaytest.ProgramConfig(t), "{command", "{tables: {dispatch: true}, command", 1)
	first, second := c.Start("n0"), c.Start("n1")
	session := c.Open(first)
	tool := regexp.MustCompile(`prog:args#[0-9a-f]+`).FindString(c.Calls(first, session, "tool_browse", `{"query":"returns its arguments"}`))
	call := func(n *gatewaytest.Node, session, args string) string {
		t.Helper()
		return c.Calls(n, session, "tool_execute", `{"tool_id":"`+tool+`","args":`+args+`}`)
	}
	makes := func() string {
		t.Helper()
		got := call(first, session, `{"abstract":[{"_row_id":0,"a":1}],"body":[{"_row_id":0,"b":"the body"}]}`)
		handle := regexp.MustCompile(`ddi://[A-Za-z0-9_-]+`).FindString(got)
		if !strings.HasPrefix(handle, "ddi://"+first.Node.Inc()+"-") || strings.Contains(got, "the body") {
			t.Fatal(got)
		}
		return `{"resource_url":"` + handle + `","more":1}`
	}
	one, two, three := makes(), makes(), makes()
	if got := call(first, session, one); !strings.Contains(got, "the body") {
		t.Errorf("before the session moves: %s", got)
	}
	first.Node.Drain()
	if got := call(second, session, two); !strings.Contains(got, "the body") || strings.Contains(got, "ddi:") {
		t.Errorf("at the next node: %s", got)
	}
	if got := call(second, session, two); strings.Contains(got, "the body") || !strings.Contains(got, "unknown ddi:// handle") {
		t.Errorf("the second time: %s", got)
	}
	c.Stop(first)
	c.Settles(func() (bool, string) {
		got := call(second, session, three)
		return strings.Contains(got, "had its body is gone"), got
	})
}
