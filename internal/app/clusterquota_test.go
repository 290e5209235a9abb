package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// modern makes a request of a client of 2026-07-28 at a node.
func (c *nodes) modern(n *node, method, name, params string) (int, string) {
	c.t.Helper()
	c.call++
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{%s"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`,
		c.call, method, params)
	r, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, n.front.URL+c.path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	for header, value := range map[string]string{
		"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Authorization": "Bearer " + clusterToken,
		"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method, "Mcp-Name": name,
	} {
		if value != "" {
			r.Header.Set(header, value)
		}
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatalf("%s: %v", n.name, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(raw)
}

// browse calls tool_browse at a node, and reports whether a quota refuses it.
func (c *nodes) browse(n *node) (limited bool) {
	c.t.Helper()
	status, body := c.modern(n, "tools/call", "tool_browse", `"name":"tool_browse","arguments":{"query":"echo"},`)
	if limited = strings.Contains(body, "RATE_LIMITED"); status != http.StatusOK || !limited && !strings.Contains(body, "echo") {
		c.t.Fatalf("at %s: %d %s", n.name, status, body)
	}
	return limited
}

// TestQuotaOfAPrincipalOverNodes: a client without sessions has one quota at all gateways, also when one of
// them is killed.
func TestQuotaOfAPrincipalOverNodes(t *testing.T) {
	c := startNodesWith(t, 3, "rate_limits: {tool_browse: {max_calls_per_session: 20}}\n")
	passed := 0
	for i := range 30 {
		if i == 12 {
			c.kill(c.all[1])
		}
		if !c.browse(c.next()) {
			passed++
		}
	}
	if passed != 20 {
		t.Errorf("%d calls of 30 passed, want 20", passed)
	}
	if c.start("n3"); !c.browse(c.all[3]) {
		t.Error("a new gateway has a quota of its own")
	}
	c.stop(c.all[0])
	if !c.browse(c.all[2]) {
		t.Error("the end of a gateway gives calls back that were made")
	}
}
