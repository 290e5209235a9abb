package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

// The copies of a large request that are on the way to an attached server are counted before it is sent, and a large
// answer until the call has ended.
func TestAttachedIsCounted(t *testing.T) {
	const size = 1 << 20
	pool := memory.NewPool(memory.Options{Limit: 32 << 20, Wait: 10 * time.Millisecond})
	asked := make(chan int64, 2)
	open := func(context.Context) (mcp.Stream, error) {
		near, far := mcp.Pipe()
		conn := mcp.NewConn(far, mcp.ConnOptions{Drain: time.Millisecond, Handler: &mcp.Lifecycle{
			ServerInfo: json.RawMessage(`{"name":"mem","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
			Next: mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
				if r.Method == "tools/list" {
					return json.RawMessage(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`), nil
				}
				asked <- pool.Usage().Memory
				return json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`), nil
			}),
		}})
		t.Cleanup(func() { _ = conn.Close() })
		return near, nil
	}
	m, s := manage(t, Options{Memory: pool})
	if err := m.Attach(&mcpserver.Server{Name: "found", Namespace: "found", Type: mcpserver.TransportStdio, Timeout: 5 * time.Second}, open); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed", func() bool { return slices.Equal(s.tools("found"), []string{"t"}) })
	u, _ := m.Upstream("found")
	params := json.RawMessage(`{"name":"t","arguments":{"text":"` + strings.Repeat("x", size) + `"}}`)

	ctx, scope := memory.WithScope(t.Context())
	defer scope.End()
	scope.Count(pool, "principal ", "ann")
	result, err := u.Call(ctx, "tools/call", params, nil)
	if err != nil || len(result) < size {
		t.Fatalf("%d bytes, %v", len(result), err)
	}
	if n := <-asked; n < (1+attachedCopies)*size {
		t.Errorf("%d bytes are held while the server is asked with %d bytes", n, size)
	}
	if n := pool.Usage().Memory; n < (2+attachedCopies)*size {
		t.Errorf("%d bytes are held before the call has ended", n)
	}
	scope.End()
	if n := pool.Usage().Memory; n != 0 {
		t.Errorf("%d bytes are held after the call", n)
	}

	ctx, scope = memory.WithScope(t.Context())
	defer scope.End()
	scope.Count(pool, "principal ", "ann")
	if err := memory.Take(ctx, 14*size); err != nil {
		t.Fatal(err)
	}
	full, end := memory.WithScope(t.Context())
	defer end.End()
	end.Count(pool, "principal ", "ann")
	if _, err := u.Call(full, "tools/call", params, nil); len(asked) != 0 {
		t.Errorf("without room the server is asked: %v", err)
	} else if kind, _ := mcp.KindOf(err); kind != mcp.KindOverloaded {
		t.Errorf("without room: %v", err)
	}
}
