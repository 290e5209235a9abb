package passthrough_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/seal"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
)

// TestSessionsOutlastTheRouter: a session with an HTTP upstream goes on at another Router with the same
// key, for its principal alone, and the agent never gets the upstream's own id.
func TestSessionsOutlastTheRouter(t *testing.T) {
	_, url := serveFake(t, fakemcp.Config{})
	_, url2 := serveFake(t, fakemcp.Config{})
	key, err := seal.NewKey(base64.RawURLEncoding.EncodeToString([]byte(strings.Repeat("k", 32))))
	if err != nil {
		t.Fatal(err)
	}
	ids := sessionid.New(key, store.NewMemory(store.MemoryOptions{}), nil)
	begin := func(url string) *env {
		return start(t, func(_ *config.Server, o *passthrough.Options) { o.Sessions = ids.At },
			&config.Server{Name: "fake", Type: mcpserver.TransportHTTP, URL: url + "/mcp"}).ready()
	}
	first := begin(url)
	id := first.initialize("2025-11-25")
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"counter"}}`
	for _, want := range []string{`"text":"1"`, `"text":"2"`} {
		if res := first.post(mcpPath, call, "Mcp-Session-Id", id); res.status != http.StatusOK || !strings.Contains(res.body, want) {
			t.Fatalf("%d %s, want %s", res.status, res.body, want)
		}
	}
	again := begin(url)
	for name, header := range map[string][]string{
		"another principal": {"Mcp-Session-Id", id, "Authorization", "Bearer bob"},
		"a made-up id":      {"Mcp-Session-Id", "u1.session-1"},
		"the upstream's id": {"Mcp-Session-Id", "session-1"},
	} {
		if res := again.post(mcpPath, call, header...); res.status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, res.status, res.body)
		}
	}
	if res := begin(url2).post(mcpPath, call, "Mcp-Session-Id", id); res.status != http.StatusNotFound {
		t.Errorf("at another server of the name: %d %s", res.status, res.body)
	}
	if res := again.post(mcpPath, call, "Mcp-Session-Id", id); res.status != http.StatusOK || !strings.Contains(res.body, `"text":"3"`) {
		t.Errorf("after the restart: %d %s", res.status, res.body)
	}
	if res := again.do(again.request(context.Background(), http.MethodDelete, mcpPath, "", "Mcp-Session-Id", id)); res.status != http.StatusNoContent {
		t.Errorf("DELETE: %d", res.status)
	}
	if res := begin(url).post(mcpPath, call, "Mcp-Session-Id", id); res.status != http.StatusNotFound {
		t.Errorf("after DELETE: %d %s", res.status, res.body)
	}
}
