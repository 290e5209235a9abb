package app_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// answers repeats a modern agent's call of the tool that asks for a name, with more in its params.
func (c *nodes) answers(n *node, path, token, more string) (int, string) {
	c.t.Helper()
	name, call := "elicit", `"name":"elicit","arguments":{}`
	if path == "/mcp" {
		name, call = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+c.elicit+`","args":{}}`
	}
	return c.sends(n, path, token, "tools/call", name, call+more+",", `"elicitation":{"form":{}}`)
}

// settles repeats a request to what a killed node had, until the answer is as it must be: the connection to that node may
// have taken the first ones.
func (c *nodes) settles(f func() (ok bool, got string)) {
	c.t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		ok, got := f()
		if ok {
			return
		}
		if time.Now().After(end) {
			c.t.Errorf("of a node that is gone: %s", got)
			return
		}
	}
}

// TestStatesOfACluster: the answers of a modern agent come to any node, and reach the call that waits for them once. They
// are refused when its node is gone, and those of another principal are.
func TestStatesOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 0)
	legacy, err := fakemcp.New(fakemcp.Config{Versions: []string{mcp.V20250618}})
	if err != nil {
		t.Fatal(err)
	}
	c.up.Close()
	c.up = httptest.NewServer(legacy)
	t.Cleanup(func() { legacy.Close(); c.up.Close() })
	first, second, third := c.start("n0"), c.start("n1"), c.start("n2")
	c.elicit = regexp.MustCompile(`up:elicit#[0-9a-f]+`).FindString(c.calls(first, c.open(first), "tool_browse", `{"query":"elicit"}`))
	const given = `,"inputResponses":{"ask-1":{"action":"accept","content":{"name":"Ada"}}}`
	ask := func(path string) string {
		t.Helper()
		status, asked := c.answers(first, path, clusterToken, "")
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		if status != http.StatusOK || state == nil || !strings.HasPrefix(state[1], `"weir2.`+first.node.Inc()+"-") {
			t.Fatalf("%s: %d %s", path, status, asked)
		}
		return `,"requestState":` + state[1]
	}
	for _, path := range []string{"/mcps/up/mcp", "/mcp"} {
		state := ask(path)
		if _, body := c.answers(second, path, otherToken, state+given); !strings.Contains(body, "requestState is not for this request") {
			t.Errorf("%s: another principal: %s", path, body)
		}
		if status, body := c.answers(second, path, clusterToken, state+given); status != http.StatusOK || !strings.Contains(body, "Ada") {
			t.Errorf("%s: at another node: %d %s", path, status, body)
		}
		if _, body := c.answers(third, path, clusterToken, state+given); !strings.Contains(body, "nothing waits for these answers any more") {
			t.Errorf("%s: the second time: %s", path, body)
		}
	}
	state := ask("/mcp")
	c.kill(first)
	c.settles(func() (bool, string) {
		_, body := c.answers(second, "/mcp", clusterToken, state+given)
		return strings.Contains(body, "is gone; make the call again") && strings.Contains(body, "-32602"), body
	})
}

// TestApprovalsOfACluster: the yes of a person comes to any node and lets the call run once, wherever it is told again.
func TestApprovalsOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodesWith(t, 3, "policy: {rules: [{action: require_approval, namespace: up}]}\n")
	first := c.all[0]
	c.elicit = regexp.MustCompile(`up:elicit#[0-9a-f]+`).FindString(c.calls(first, c.open(first), "tool_browse", `{"query":"elicit"}`))
	for _, path := range []string{"/mcps/up/mcp", "/mcp"} {
		status, asked := c.answers(first, path, clusterToken, "")
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		if status != http.StatusOK || state == nil || !strings.Contains(asked, "Allow ") {
			t.Fatalf("%s: %d %s", path, status, asked)
		}
		given := `,"requestState":` + state[1] + `,"inputResponses":{"approve-1":{"action":"accept","content":{}}}`
		if _, body := c.answers(c.all[1], path, otherToken, given); !strings.Contains(body, "requestState is not for this request") {
			t.Errorf("%s: another principal: %s", path, body)
		}
		ran := 0
		for _, n := range []*node{c.all[1], c.all[2], first} {
			switch _, body := c.answers(n, path, clusterToken, given); {
			case strings.Contains(body, "input_required"): // the server asks in its turn
				ran++
			case !strings.Contains(body, "nothing waits for these answers any more"):
				t.Errorf("%s: at %s: %s", path, n.name, body)
			}
		}
		if ran != 1 {
			t.Errorf("%s: one yes let %d calls run", path, ran)
		}
	}
}
