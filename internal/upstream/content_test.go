package upstream

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// The result of a tool has content, whatever the server left out of it: clients
// depend on that.
func TestToolResultsHaveContent(t *testing.T) {
	answer := func(result string) mcp.Handler {
		return mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return json.RawMessage(result), nil })
	}
	open := func(context.Context) (mcp.Stream, error) {
		near, far := mcp.Pipe()
		conn := mcp.NewConn(far, mcp.ConnOptions{Drain: time.Millisecond, Handler: &mcp.Lifecycle{
			ServerInfo: json.RawMessage(`{"name":"mem","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
			Next: &mcp.Mux{Methods: map[string]mcp.Handler{
				"tools/list": answer(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`), "tools/call": answer(`{}`), "resources/read": answer(`{}`),
			}},
		}})
		t.Cleanup(func() { _ = conn.Close() })
		return near, nil
	}
	m, _ := manage(t, Options{})
	if err := m.Attach(&mcpserver.Server{Name: "bare", Namespace: "bare", Type: mcpserver.TransportStdio, Timeout: 5 * time.Second}, open); err != nil {
		t.Fatal(err)
	}
	u := upstreamOf(t, m, "bare")
	for method, want := range map[string]string{"tools/call": `{"content":[]}`, "resources/read": `{}`} {
		if got, err := u.Call(t.Context(), method, json.RawMessage(`{"name":"t"}`), nil); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", method, got, err, want)
		}
	}
}
