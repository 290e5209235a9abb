package gatewaytest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/internal/web/api"
)

// principalNodes starts nodes whose server program has per_session, and returns how to ask for the process that serves a
// caller at a node and path.
func PrincipalNodes(t *testing.T, count int) (c *Nodes, pid func(n *Node, path, token string) string) {
	t.Helper()
	c = StartNodesWith(t, 0, "policy: {rules: [{action: deny, namespace: another}]}\n")
	c.Programs = ", " + strings.Replace(ProgramConfig(t), "{command", "{per_session: true, command", 1)
	for i := range count {
		c.Start(fmt.Sprint("n", i))
	}
	tool := regexp.MustCompile(`prog:pid#[0-9a-f]+`).FindString(c.Calls(c.All[0], c.Open(c.All[0]), "tool_browse", `{"query":"names the process"}`))
	return c, func(n *Node, path, token string) string {
		t.Helper()
		c.Path = path
		name, call := "pid", `"name":"pid","arguments":{},`
		if path == "/mcp" {
			name, call = "tool_execute", `"name":"tool_execute","arguments":{"tool_id":"`+tool+`","args":{}},`
		}
		got := c.Agent(n, token, "tools/call", name, call)
		if found := regexp.MustCompile(`pid ([0-9]+)`).FindStringSubmatch(got); found != nil {
			return found[1]
		}
		return "none: " + got
	}
}

// scopedNodes starts nodes whose server has scope: cluster.
func ScopedNodes(t *testing.T, count int, more string, versions ...string) *Nodes {
	t.Helper()
	c := StartNodesWith(t, 0, more)
	c.Up.Close()
	c.Fake.Close()
	var err error
	if c.Fake, err = fakemcp.New(fakemcp.Config{Versions: versions}); err != nil {
		t.Fatal(err)
	}
	c.Up = httptest.NewServer(c.Fake)
	t.Cleanup(func() { c.Fake.Close(); c.Up.Close() })
	c.UpAs = ", scope: cluster"
	for i := range count {
		c.Start(fmt.Sprint("n", i))
	}
	return c
}

// connections counts the connections that gateways have made to the server.
func (c *Nodes) Connections() (count int) {
	for _, event := range c.Fake.Events() {
		if strings.HasPrefix(event, "session session-") {
			count++
		}
	}
	return count
}

// eventually polls until ok.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("never: " + what)
		}
	}
}

// holder waits until all nodes name one holder of the server for which ok is true, and returns the holder.
func (c *Nodes) Holder(ok func(name string) bool) (name string) {
	c.t.Helper()
	Eventually(c.t, "all nodes name the holder", func() bool {
		names := map[string]bool{}
		for _, n := range c.All {
			if n.Off {
				continue
			}
			r, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, n.Front.URL+"/api/v1/cluster", nil)
			if err != nil {
				c.t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+OpsToken)
			resp, err := http.DefaultClient.Do(r)
			if err != nil {
				c.t.Fatal(err)
			}
			var status api.ClusterStatus
			err = json.NewDecoder(resp.Body).Decode(&status)
			resp.Body.Close()
			if err != nil || len(status.Servers) != 1 || status.Servers[0].Name != "up" {
				c.t.Fatalf("%s: %d %v %v", n.Name, resp.StatusCode, err, status.Servers)
			}
			name = status.Servers[0].Node
			names[name] = true
		}
		return len(names) == 1 && name != "" && ok(name)
	})
	return name
}
