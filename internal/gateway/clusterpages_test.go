package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestPagesOfANode: any node answers for another one that the request names, with the rights of the caller, and the
// usage is that of all nodes or of the one that is named.
func TestPagesOfANode(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 2)
	first, second := c.All[0], c.All[1]
	c.Calls(first, c.Open(first), "tool_browse", `{"query":"echo"}`)
	c.Calls(second, c.Open(second), "tool_browse", `{"query":"echo"}`)
	c.Calls(second, c.Open(second), "tool_browse", `{"query":"echo"}`)
	stats := func(n *gatewaytest.Node, query, token string) (s observe.ClusterStats) {
		t.Helper()
		status, body := c.Look(n, "/stats"+query, token)
		if status != http.StatusOK || json.Unmarshal([]byte(body), &s) != nil {
			t.Fatalf("%d %s", status, body)
		}
		return s
	}
	all := stats(first, "", gatewaytest.OpsToken)
	if strings.Join(all.Nodes, " ") != "n0 n1" || len(all.Silent) != 0 || all.Total.Calls < 3 || len(all.Sessions) < 3 {
		t.Errorf("the usage of all nodes: %+v", all)
	}
	own := stats(second, "?node=n1", gatewaytest.OpsToken)
	if there := stats(first, "?node=n1", gatewaytest.OpsToken); strings.Join(there.Nodes, " ") != "n1" || there.Total.Calls != own.Total.Calls || there.Total.Calls < 2 || there.Total.Calls >= all.Total.Calls {
		t.Errorf("the usage of n1: %+v, and there %+v; of all %+v", there, own, all.Total)
	}
	if bob := stats(first, "", gatewaytest.BobToken); bob.Total.Calls != 0 || len(bob.Sessions) != 0 {
		t.Errorf("a caller without calls sees those of others: %+v", bob)
	}
	if ann := stats(first, "", gatewaytest.AnnToken); ann.Total.Calls < 3 {
		t.Errorf("a caller's calls at other nodes are missing: %+v", ann)
	}
	instance := func(path, token string) (string, int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, first.Front.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var line string
		lines := bufio.NewScanner(resp.Body)
		for lines.Scan() && line == "" {
			line = lines.Text()
		}
		return resp.Header.Get("Weir-Instance"), resp.StatusCode, line
	}
	for _, tt := range []struct {
		path, token string
		status      int
		at          *gatewaytest.Node
	}{
		{"/api/v1/overview?node=n1", gatewaytest.AnnToken, 200, second},
		{"/api/v1/overview?node=" + second.Node.Inc(), gatewaytest.AnnToken, 200, second},
		{"/api/v1/overview?node=n0", gatewaytest.AnnToken, 200, first},
		{"/api/v1/calls?node=n1", gatewaytest.OpsToken, 200, second},
		{"/api/v1/servers?node=n1", gatewaytest.OpsToken, 200, second},
		{"/api/v1/servers?node=n1", gatewaytest.AnnToken, 403, first},
		{"/api/v1/logs?node=n1", gatewaytest.OpsToken, 200, second},
		{"/api/v1/usage?node=n1", gatewaytest.AnnToken, 200, second},
		{"/healthz?node=n1", gatewaytest.AnnToken, 200, second},
		{"/api/v1/overview?node=n7", gatewaytest.AnnToken, 404, first},
		{"/healthz?node=n7", gatewaytest.AnnToken, 404, first},
		{"/api/v1/overview?node=n1", "a-token-of-none-0123456789", 401, first},
	} {
		got, status, line := instance(tt.path, tt.token)
		if status != tt.status || got != tt.at.Gateway.Run.Instance {
			t.Errorf("%s: %d of %q, want %d of %s (%s): %s", tt.path, status, got, tt.status, tt.at.Name, tt.at.Gateway.Run.Instance, line)
		}
	}
	// A stream of another node comes as it is written.
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, first.Front.URL+"/api/v1/calls/stream?node=n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+gatewaytest.OpsToken)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	c.Calls(second, c.Open(second), "tool_browse", `{"query":"echo"}`)
	found := false
	for lines := bufio.NewScanner(resp.Body); !found && lines.Scan(); {
		found = strings.Contains(lines.Text(), "browse")
	}
	if !found {
		t.Error("the calls of n1 do not come to n0")
	}
}

// TestPagesOfANodeThatIsGone: the usage is that of the other nodes, and what is asked of the node fails.
func TestPagesOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	c := gatewaytest.StartNodes(t, 2)
	first := c.All[0]
	c.Kill(c.All[1])
	var s observe.ClusterStats
	if status, body := c.Look(first, "/stats", gatewaytest.OpsToken); status != http.StatusOK || json.Unmarshal([]byte(body), &s) != nil || strings.Join(s.Nodes, " ") != "n0" || len(s.Silent) > 1 {
		t.Errorf("%d %s", status, body)
	}
	if status, body := c.Look(first, "/api/v1/overview?node=n1", gatewaytest.AnnToken); status != http.StatusNotFound && (status != http.StatusBadGateway || !strings.Contains(body, "node_gone")) {
		t.Errorf("a node that is gone: %d %s", status, body)
	}
}
