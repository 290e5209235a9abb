package sse_test

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/sse"
)

// The bytes of a posted request count until its answer is sent, and so does the answer; those of messages that are
// not served count until the connection has ended.
func TestPostedMessagesAreCounted(t *testing.T) {
	const size = 600_000
	pool := memory.NewPool(memory.Options{Limit: 64 << 20})
	began, end := make(chan int64, 3), make(chan bool)
	hs, _ := startServer(t, sse.ServerOptions{Memory: pool, Handler: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		memory.FromContext(ctx).Count(pool, "principal ", "ann")
		began <- pool.Usage().Memory
		<-end
		return r.Params, nil
	})})
	until := func(what string, ok func(held int64) bool) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !ok(pool.Usage().Memory); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d bytes are held", what, pool.Usage().Memory)
			}
		}
	}
	c := open(t, hs, "/sse")
	text := strings.Repeat("x", size)
	post := func(id int) {
		t.Helper()
		body := `{"jsonrpc":"2.0","id":` + strconv.Itoa(id) + `,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"},"text":"` + text + `"}}`
		if resp := do(t, hs, "POST", c.path, "ann", body); resp.StatusCode != 202 {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	post(1)
	if held := <-began; held < size {
		t.Errorf("%d bytes are held while a request of %d is served", held, size)
	}
	if held := pool.Usage().Memory; held < size {
		t.Errorf("%d bytes are held after the 202", held)
	}
	end <- true
	if msg := c.next(); !strings.Contains(msg, text) || !strings.Contains(msg, `"id":1`) {
		t.Errorf("%d bytes of an answer: %.100s", len(msg), msg)
	}
	until("after the answer", func(held int64) bool { return held == 0 })

	post(2) // the connection serves no other before it is answered
	<-began
	post(3)
	until("two requests", func(held int64) bool { return held >= 2*size })
	_ = c.body.Close()
	close(end)
	until("after the connection", func(held int64) bool { return held == 0 })
}
