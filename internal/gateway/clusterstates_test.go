package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/mcp"
)

// TestStatesOfACluster: the answers of a modern agent come to any node, and reach the call that waits for them once. They
// are refused when its node is gone, and those of another principal are.
func TestStatesOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 0)
	legacy, err := fakemcp.New(fakemcp.Config{Versions: []string{mcp.V20250618}})
	if err != nil {
		t.Fatal(err)
	}
	c.Up.Close()
	c.Up = httptest.NewServer(legacy)
	t.Cleanup(func() { legacy.Close(); c.Up.Close() })
	first, second, third := c.Start("n0"), c.Start("n1"), c.Start("n2")
	c.Elicit = regexp.MustCompile(`up:elicit#[0-9a-f]+`).FindString(c.Calls(first, c.Open(first), "tool_browse", `{"query":"elicit"}`))
	const given = `,"inputResponses":{"ask-1":{"action":"accept","content":{"name":"Ada"}}}`
	ask := func(path string) string {
		t.Helper()
		status, asked := c.Answers(first, path, gatewaytest.AnnToken, "")
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		if status != http.StatusOK || state == nil || !strings.HasPrefix(state[1], `"weir2.`+first.Node.Inc()+"-") {
			t.Fatalf("%s: %d %s", path, status, asked)
		}
		return `,"requestState":` + state[1]
	}
	for _, path := range []string{"/mcps/up/mcp", "/mcp"} {
		state := ask(path)
		if _, body := c.Answers(second, path, gatewaytest.BobToken, state+given); !strings.Contains(body, "requestState is not for this request") {
			t.Errorf("%s: another principal: %s", path, body)
		}
		if status, body := c.Answers(second, path, gatewaytest.AnnToken, state+given); status != http.StatusOK || !strings.Contains(body, "Ada") {
			t.Errorf("%s: at another node: %d %s", path, status, body)
		}
		if _, body := c.Answers(third, path, gatewaytest.AnnToken, state+given); !strings.Contains(body, "nothing waits for these answers any more") {
			t.Errorf("%s: the second time: %s", path, body)
		}
	}
	state := ask("/mcp")
	c.Kill(first)
	c.Settles(func() (bool, string) {
		_, body := c.Answers(second, "/mcp", gatewaytest.AnnToken, state+given)
		return strings.Contains(body, "is gone; make the call again") && strings.Contains(body, "-32602"), body
	})
}

// TestApprovalsOfACluster: the yes of a person comes to any node and lets the call run once, wherever it is told again.
func TestApprovalsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 3, "policy: {rules: [{action: require_approval, namespace: up}]}\n")
	first := c.All[0]
	c.Elicit = regexp.MustCompile(`up:elicit#[0-9a-f]+`).FindString(c.Calls(first, c.Open(first), "tool_browse", `{"query":"elicit"}`))
	for _, path := range []string{"/mcps/up/mcp", "/mcp"} {
		status, asked := c.Answers(first, path, gatewaytest.AnnToken, "")
		state := regexp.MustCompile(`"requestState":("[^"]+")`).FindStringSubmatch(asked)
		if status != http.StatusOK || state == nil || !strings.Contains(asked, "Allow ") {
			t.Fatalf("%s: %d %s", path, status, asked)
		}
		given := `,"requestState":` + state[1] + `,"inputResponses":{"approve-1":{"action":"accept","content":{}}}`
		if _, body := c.Answers(c.All[1], path, gatewaytest.BobToken, given); !strings.Contains(body, "requestState is not for this request") {
			t.Errorf("%s: another principal: %s", path, body)
		}
		ran := 0
		for _, n := range []*gatewaytest.Node{c.All[1], c.All[2], first} {
			switch _, body := c.Answers(n, path, gatewaytest.AnnToken, given); {
			case strings.Contains(body, "input_required"): // the server asks in its turn
				ran++
			case !strings.Contains(body, "nothing waits for these answers any more"):
				t.Errorf("%s: at %s: %s", path, n.Name, body)
			}
		}
		if ran != 1 {
			t.Errorf("%s: one yes let %d calls run", path, ran)
		}
	}
}
