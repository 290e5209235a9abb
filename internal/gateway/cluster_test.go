package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestSessionsOfACluster: a session works at every node, and goes on when its node drains or is killed, again
// and again.
func TestSessionsOfACluster(t *testing.T) {
	for _, path := range []string{"/mcp", "/mcps/up/mcp"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			testSessions(t, path)
		})
	}
}

func testSessions(t *testing.T, path string) {
	c := gatewaytest.StartNodes(t, 3)
	c.Path = path
	first := c.All[0]
	session, other := c.Open(first), c.Open(c.All[1])
	if !strings.HasPrefix(session, "w1."+first.Node.Inc()+".") {
		t.Errorf("the id %.20q does not name its node", session)
	}
	c.Works(session)
	c.Works(other)
	c.Stop(first)
	c.Finds(session)
	c.Finds(other)
	c.Works(session)
	c.Works(other)
	c.Kill(c.All[1])
	c.Finds(session)
	c.Finds(other)
	c.Works(session)
	c.Works(other)
	c.Start("n3")
	c.Works(session)
	c.Works(other)
	c.Stop(c.All[2])
	c.Finds(session)
	c.Finds(other)
	c.Works(session)
	c.Works(other)
	resp, body := c.Post(strings.Replace(session, "w1.", "w1.x", 1), `{"jsonrpc":"2.0","id":1,"method":"ping"}`)
	if resp.StatusCode != http.StatusNotFound {
		t.Errorf("an id that was changed: %d %s", resp.StatusCode, body)
	}
}
