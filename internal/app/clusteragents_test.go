package app_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/mcp"
)

// TestKeyOfACluster: while the key of a cluster changes node by node, its nodes work together: sessions and answers of
// modern agents go between nodes with either key, and an agent hears of both secrets that may sign.
func TestKeyOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 0)
	former := c.key
	next, err := link.Parse(strings.Repeat("fedcba9876543210", 4))
	if err != nil {
		t.Fatal(err)
	}
	c.old = []*link.Key{next}
	before := c.start("n0")
	c.key, c.old = next, []*link.Key{former}
	after := c.start("n1")
	session, later := c.open(before), c.open(after)
	c.works(session)
	c.works(later)
	var secrets [2][]string
	for i, n := range c.all {
		secrets[i] = c.secrets(n)
	}
	if len(secrets[0]) != 2 || secrets[0][0] == secrets[0][1] || secrets[0][0] != secrets[1][1] || secrets[0][1] != secrets[1][0] {
		t.Errorf("the nodes tell an agent of %d and %d secrets, or of others", len(secrets[0]), len(secrets[1]))
	}
	c.stop(before)
	c.works(session) // it was sealed with the former key
}

// secrets registers an agent at a node and returns the secrets that the agent is told.
func (c *nodes) secrets(n *node) []string {
	c.t.Helper()
	status, answer := c.register(n, c.up.URL+"/mcp")
	var told struct {
		Invocation struct {
			Secret string   `json:"secret"`
			Others []string `json:"others"`
		} `json:"invocation"`
	}
	if err := json.Unmarshal([]byte(answer), &told); err != nil || status != http.StatusOK {
		c.t.Fatal(status, answer, err)
	}
	return append([]string{told.Invocation.Secret}, told.Invocation.Others...)
}

// register registers an agent at a node.
func (c *nodes) register(n *node, at string) (int, string) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.front.URL+"/agents", strings.NewReader(`{"name":"helper","instance":"1","url":"`+at+`"}`))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+clusterToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

// TestAgentAtAPeerLink: an agent that registers with the address that servers at other nodes have reaches no peer link,
// where its requests would be those of a node.
func TestAgentAtAPeerLink(t *testing.T) {
	t.Parallel()
	c := scopedNodes(t, 2, "", mcp.V20251125)
	if status, answer := c.register(c.all[1], "http://"+c.all[0].node.Inc()+".node.invalid/mcp"); status != http.StatusOK {
		t.Fatal(status, answer) // a name that is not known yet is not refused
	}
	c.path = "/mcps/helper/mcp"
	if status, body := c.modern(c.all[1], "tools/list", "", ""); strings.Contains(body, `"tools"`) {
		t.Errorf("an agent's address leads to another node: %d %.300s", status, body)
	}
}

// TestAgentsOfACluster: an agent that registers at one gateway is called at all of them, also when that
// gateway is killed.
func TestAgentsOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodes(t, 3)
	register := func(n *node) (int, string) { return c.register(n, c.up.URL+"/mcp") }
	if status, answer := register(c.all[0]); status != http.StatusOK || !strings.Contains(answer, `"leaseMs":60000`) || !strings.Contains(answer, `"secret"`) {
		t.Fatal(status, answer)
	}
	call := func(n *node) {
		t.Helper()
		c.path = "/mcps/helper/mcp"
		defer func() { c.path = "/mcp" }()
		for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			status, body := c.modern(n, "tools/call", "echo", `"name":"echo","arguments":{"text":"hello"},`)
			if status == http.StatusOK && strings.Contains(body, "hello") {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("at %s: %d %s", n.name, status, body)
			}
		}
	}
	for _, n := range c.all {
		call(n)
	}
	c.kill(c.all[0])
	if status, answer := register(c.all[2]); status != http.StatusOK {
		t.Error(status, answer)
	}
	call(c.all[1])
	call(c.start("n3"))
}
