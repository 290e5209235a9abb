package app_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/smcp/hub"
)

// computer starts a Computer with the cluster's MCP server, at a node.
func (c *nodes) computer(n *node, name string) {
	c.t.Helper()
	c.computerAt(computer.Hub{URL: n.front.URL, Office: "weir", Token: clusterToken}, name)
}

// computerAt is computer for any hub.
func (c *nodes) computerAt(at computer.Hub, name string) {
	c.t.Helper()
	it, err := computer.New(computer.Options{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = it.Close(ctx) // its hub may be gone
	})
	f, err := computer.Parse("test", fmt.Appendf(nil, `{"servers":{"far":{"type":"streamable","default_tool_meta":{"auto_apply":true},"server_parameters":{"url":%q}}}}`, c.up.URL+"/mcp"))
	if err == nil {
		err = it.Load(c.t.Context(), f)
	}
	if err == nil {
		err = it.Connect(c.t.Context(), at)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// reaches calls a Computer's tool in a session at a node, until that works.
func (c *nodes) reaches(n *node, session, name, text string) {
	c.t.Helper()
	id := regexp.MustCompile(name + `-far:echo#[0-9a-f]+`)
	last := ""
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		last = c.calls(n, session, "tool_browse", `{"query":"echo"}`)
		if tool := id.FindString(last); tool != "" {
			last = c.calls(n, session, "tool_execute", fmt.Sprintf(`{"tool_id":%q,"arguments":{"text":%q}}`, tool, text))
			if strings.Contains(last, text[:min(len(text), 20)]) && !strings.Contains(last, `"isError":true`) {
				return
			}
		}
	}
	c.t.Fatalf("at %s, %s: %.500s", n.name, name, last)
}

// TestOfficesOfACluster: a Computer at one node is in the catalog of every node, and calls from all of them
// reach it, large ones too. When its node ends, it is found at the one that it comes back to.
func TestOfficesOfACluster(t *testing.T) {
	t.Parallel()
	c := startNodesWith(t, 3, "hub: {}\n")
	var sessions []string
	for _, n := range c.all {
		sessions = append(sessions, c.open(n))
	}
	c.computer(c.all[2], "desk")
	for i, n := range c.all {
		c.reaches(n, sessions[i], "desk", fmt.Sprint("word", i))
		c.reaches(n, sessions[i], "desk", "large"+strings.Repeat("x", 200<<10))
	}
	c.stop(c.all[2])
	c.computer(c.all[1], "desk")
	for i, n := range c.all[:2] {
		c.reaches(n, sessions[i], "desk", fmt.Sprint("again", i))
	}
}

// TestHubsOfACluster: one node is the agent in the office of a hub elsewhere, and its Computers are in the
// catalog of every node. When that node ends, another one is the agent.
func TestHubsOfACluster(t *testing.T) {
	t.Parallel()
	far := hub.New(hub.Options{})
	server := httptest.NewServer(far)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = far.Shutdown(ctx)
		server.Close()
	})
	c := startNodesWith(t, 2, fmt.Sprintf("hubs: {lab: {url: %q, office: lab}}\n", server.URL))
	c.computerAt(computer.Hub{URL: server.URL, Office: "lab"}, "bench")
	sessions := []string{c.open(c.all[0]), c.open(c.all[1])}
	for i, n := range c.all {
		c.reaches(n, sessions[i], "bench", fmt.Sprint("word", i))
	}
	agents := 0
	for _, m := range far.Members() {
		if m.Role == smcp.RoleAgent {
			agents++
		}
	}
	if agents != 1 {
		t.Errorf("%d agents in the office", agents)
	}
	c.stop(c.all[0])
	c.reaches(c.all[1], sessions[1], "bench", "again")
}
