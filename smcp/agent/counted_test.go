package agent

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
)

// What a hub holds of a large message is in the account from the connection of its sender until it is read, or has
// left, and where there is no room, the other side reads an error at once.
func TestMessagesOfOfficesAreCounted(t *testing.T) {
	const size = 1 << 20
	pool := memory.NewPool(memory.Options{Limit: 32 << 20, Wait: 50 * time.Millisecond})
	h := hub.New(hub.Options{Memory: pool.Account("hub")})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	desk, err := member.New(member.Options{URL: server.URL, Role: smcp.RoleComputer, Name: "desk", Office: "o", MCP: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = desk.Close() })
	opened, asked := make(chan smcp.MCPRequest, 1), make(chan smcp.MCPRequest, 1)
	desk.OnConcurrent(smcp.EventMCP, func(e *socketio.Event) {
		var req smcp.MCPRequest
		if err := e.Decode(0, &req); err != nil {
			t.Error(err)
		}
		if req.Op == smcp.OpSend {
			asked <- req
			return
		}
		opened <- req
		_ = e.Ack(json.RawMessage("null"))
	})
	desk.OnConcurrent(smcp.EventToolCall, func(e *socketio.Event) {
		_ = e.Ack(json.RawMessage(`{"content":[{"type":"text","text":"` + strings.Repeat("x", size) + `"}]}`))
	})
	if err := desk.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := Connect(t.Context(), Options{Local: h.Attach(), Office: "o"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	stream, err := c.OpenMCP(t.Context(), "desk", "files")
	if err != nil {
		t.Fatal(err)
	}
	channel := <-opened
	eventually := func(what string, ok func(held int64) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !ok(pool.Usage().Memory); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d bytes are held", what, pool.Usage().Memory)
			}
		}
	}
	nothing := func(held int64) bool { return held == 0 }
	answer := func(id, n int) {
		text := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":{"text":"%s"}}`, id, strings.Repeat("x", n))
		if err := desk.Emit(smcp.EventServerMCP, smcp.MCPMessage{Channel: channel.Channel, AgentSID: channel.AgentSID, Message: json.RawMessage(text)}); err != nil {
			t.Fatal(err)
		}
	}
	read := func() string {
		t.Helper()
		msg, err := stream.Read()
		if err != nil {
			t.Fatal(err)
		}
		return string(msg)
	}

	// Two answers wait to be read.
	answer(1, size)
	answer(2, size)
	eventually("two answers wait", func(held int64) bool { return held >= 2*size && held < 3*size })
	if msg := read(); len(msg) < size || pool.Usage().Memory < 2*size {
		t.Errorf("%d bytes are read, and %d held", len(msg), pool.Usage().Memory)
	}
	if msg := read(); !strings.Contains(msg, `"id":2`) || pool.Usage().Memory >= 2*size {
		t.Errorf("%.60s, and %d bytes are held", msg, pool.Usage().Memory)
	}
	answer(3, 10)
	read()
	eventually("all are read", nothing)

	// A request leaves nothing when it has left, and neither does the answer of a call by another way.
	request := []byte(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"text":"` + strings.Repeat("x", size) + `"}}`)
	if err := stream.Write(request); err != nil {
		t.Fatal(err)
	}
	if req := <-asked; string(req.Message) != string(request) {
		t.Errorf("the Computer is asked with %d bytes: %.100s", len(req.Message), req.Message)
	}
	if _, err := c.CallTool(t.Context(), ToolCall{Computer: "desk", Tool: "tool", Arguments: json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)}); err != nil {
		t.Error(err)
	}
	eventually("requests have left", nothing)

	// Without room.
	all := pool.Hold("", "others")
	for n := int64(16 << 20); n > 0; n -= size / 4 {
		if all.TryGrow(n) {
			break
		}
	}
	ctx, scope := memory.WithScope(t.Context())
	scope.Count(pool, "principal ", "ann")
	if err := memory.Take(ctx, 15<<20); err != nil {
		t.Fatal(err)
	}
	if err := stream.Write(request); err != nil {
		t.Fatal(err)
	}
	if msg := read(); string(rawjson.GetPath([]byte(msg), "error", "data", "kind")) != `"overloaded"` || !strings.Contains(msg, `"id":4`) {
		t.Errorf("a request without room: %.300s", msg)
	}
	if _, err := c.CallTool(t.Context(), ToolCall{Computer: "desk", Tool: "tool", Arguments: json.RawMessage(`{"text":"` + strings.Repeat("x", size) + `"}`)}); err == nil || !strings.Contains(err.Error(), "limits.memory") {
		t.Errorf("a call without room: %v", err)
	}
	scope.End()
	// The connection has room for an answer of 3 MB, and the copies do not.
	ctx, scope = memory.WithScope(t.Context())
	defer scope.End()
	scope.Count(pool, "principal ", "ann")
	all.Release()
	if !all.TryGrow(16 << 20) {
		t.Fatal("there is no room")
	}
	if err := memory.Take(ctx, 10<<20); err != nil {
		t.Fatal(err)
	}
	answer(5, 3*size)
	if msg := read(); string(rawjson.GetPath([]byte(msg), "error", "data", "kind")) != `"out_of_memory"` || !strings.Contains(msg, `"id":5`) {
		t.Errorf("an answer without room: %.300s", msg)
	}
	all.Release()
	scope.End()
	answer(6, 10)
	if msg := read(); !strings.Contains(msg, `"id":6`) {
		t.Errorf("%.300s", msg)
	}
	read2 := make(chan error, 1)
	go func() { _, err := stream.Read(); read2 <- err }()
	eventually("in the end", nothing)
	_ = stream.Close()
	if err := <-read2; err == nil {
		t.Error("a closed stream is read")
	}
}
