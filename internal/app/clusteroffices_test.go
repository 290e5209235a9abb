package app_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/smcp/computer"
)

// computer starts a Computer with the cluster's MCP server, at a node.
func (c *nodes) computer(n *node, name string) *computer.Computer {
	c.t.Helper()
	it, err := computer.New(computer.Options{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = it.Close(ctx) // its hub may be gone
	})
	f, err := computer.Parse("test", fmt.Appendf(nil, `{"servers":{"far":{"type":"streamable","default_tool_meta":{"auto_apply":true},"server_parameters":{"url":%q}}}}`, c.up.URL+"/mcp"))
	if err == nil {
		err = it.Load(c.t.Context(), f)
	}
	if err == nil {
		err = it.Connect(c.t.Context(), computer.Hub{URL: n.front.URL, Office: "weir", Token: clusterToken})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return it
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
// reach it, large ones too. When its node is killed, it comes back at another one, and calls go on.
func TestOfficesOfACluster(t *testing.T) {
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
	c.kill(c.all[2])
	c.computer(c.all[1], "desk")
	for i, n := range c.all[:2] {
		c.reaches(n, sessions[i], "desk", fmt.Sprint("again", i))
	}
}
