package membership_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/mcp"
)

// TestKeyOfACluster: while the key of a cluster changes node by node, its nodes work together: sessions and answers of
// modern agents go between nodes with either key, and an agent hears of both secrets that may sign.
func TestKeyOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 0)
	former := c.Key
	next, err := link.Parse(strings.Repeat("fedcba9876543210", 4))
	if err != nil {
		t.Fatal(err)
	}
	c.Old = []*link.Key{next}
	before := c.Start("n0")
	c.Key, c.Old = next, []*link.Key{former}
	after := c.Start("n1")
	session, later := c.Open(before), c.Open(after)
	c.Works(session)
	c.Works(later)
	var secrets [2][]string
	for i, n := range c.All {
		secrets[i] = c.Secrets(n)
	}
	if len(secrets[0]) != 2 || secrets[0][0] == secrets[0][1] || secrets[0][0] != secrets[1][1] || secrets[0][1] != secrets[1][0] {
		t.Errorf("the nodes tell an agent of %d and %d secrets, or of others", len(secrets[0]), len(secrets[1]))
	}
	c.Stop(before)
	c.Works(session) // it was sealed with the former key
}

// TestAgentAtAPeerLink: an agent that registers with the address that servers at other nodes have reaches no peer link,
// where its requests would be those of a node.
func TestAgentAtAPeerLink(t *testing.T) {
	t.Parallel()
	c := gatewaytest.ScopedNodes(t, 2, "", mcp.V20251125)
	if status, answer := c.Register(c.All[1], "http://"+c.All[0].Node.Inc()+".node.invalid/mcp"); status != http.StatusOK {
		t.Fatal(status, answer) // a name that is not known yet is not refused
	}
	c.Path = "/mcps/helper/mcp"
	if status, body := c.Modern(c.All[1], "tools/list", "", ""); strings.Contains(body, `"tools"`) {
		t.Errorf("an agent's address leads to another node: %d %.300s", status, body)
	}
}

// TestAgentsOfACluster: an agent that registers at one gateway is called at all of them, also when that
// gateway is killed.
func TestAgentsOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 3)
	register := func(n *gatewaytest.Node) (int, string) { return c.Register(n, c.Up.URL+"/mcp") }
	if status, answer := register(c.All[0]); status != http.StatusOK || !strings.Contains(answer, `"leaseMs":60000`) || !strings.Contains(answer, `"secret"`) {
		t.Fatal(status, answer)
	}
	call := func(n *gatewaytest.Node) {
		t.Helper()
		c.Path = "/mcps/helper/mcp"
		defer func() { c.Path = "/mcp" }()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			status, body := c.Modern(n, "tools/call", "echo", `"name":"echo","arguments":{"text":"hello"},`)
			if status == http.StatusOK && strings.Contains(body, "hello") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("at %s: %d %s", n.Name, status, body)
			}
		}
	}
	for _, n := range c.All {
		call(n)
	}
	c.Kill(c.All[0])
	if status, answer := register(c.All[2]); status != http.StatusOK {
		t.Error(status, answer)
	}
	call(c.All[1])
	call(c.Start("n3"))
}
