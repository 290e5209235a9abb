package office_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/computer"
	"github.com/weir-mcp/weir/smcp/hub"
)

// TestOfficesOfACluster: a Computer at one node is in the catalog of every node, and calls from all of them
// reach it, large ones too. When its node ends, it is found at the one that it comes back to.
func TestOfficesOfACluster(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodesWith(t, 3, "hub: {}\n")
	var sessions []string
	for _, n := range c.All {
		sessions = append(sessions, c.Open(n))
	}
	c.Computer(c.All[2], "desk")
	for i, n := range c.All {
		c.Reaches(n, sessions[i], "desk", fmt.Sprint("word", i))
		c.Reaches(n, sessions[i], "desk", "large"+strings.Repeat("x", 200<<10))
	}
	c.Stop(c.All[2])
	c.Computer(c.All[1], "desk")
	for i, n := range c.All[:2] {
		c.Reaches(n, sessions[i], "desk", fmt.Sprint("again", i))
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
	c := gatewaytest.StartNodesWith(t, 2, fmt.Sprintf("hubs: {lab: {url: %q, office: lab}}\n", server.URL))
	c.ComputerAt(computer.Hub{URL: server.URL, Office: "lab"}, "bench")
	sessions := []string{c.Open(c.All[0]), c.Open(c.All[1])}
	for i, n := range c.All {
		c.Reaches(n, sessions[i], "bench", fmt.Sprint("word", i))
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
	c.Stop(c.All[0])
	c.Reaches(c.All[1], sessions[1], "bench", "again")
}
