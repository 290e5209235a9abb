package streamable_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Calls whose own requests have the memory that they wait for do not wait for each other: one is refused at once, and
// the other has room.
func TestServerStandstill(t *testing.T) {
	const limit = 1 << 20
	pool := memory.NewPool(memory.Options{Limit: limit, Wait: time.Hour})
	var arrived, both chan bool // of the bubble
	h := serverOf(map[string]toolFunc{"take": func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		memory.FromContext(ctx).Count(pool, "principal ", r.Session.Principal())
		arrived <- true
		<-both
		if err := memory.Take(ctx, limit/2); err != nil {
			return nil, mcp.NoRoom("the call", err)
		}
		return json.RawMessage(`{}`), nil
	}})
	inBubble(t, streamable.ServerOptions{Handler: h, Memory: pool}, func(t *testing.T, a *agent) {
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"take","arguments":{"text":"` + strings.Repeat("x", limit*3/10) + `"}}}`
		arrived, both = make(chan bool), make(chan bool)
		began := time.Now()
		answers := make(chan string)
		for _, name := range []string{"ann", "bob"} {
			by := a.as(name)
			by.initialize("2025-11-25")
			go func() {
				_, answer := by.ask(body)
				answers <- answer
			}()
		}
		for range 2 {
			<-arrived
		}
		close(both)
		one, other := <-answers, <-answers
		if strings.Contains(one, `"result"`) == strings.Contains(other, `"result"`) || !strings.Contains(one+other, "there is no room") {
			t.Errorf("the answers are %s and %s", one, other)
		}
		if passed := time.Since(began); passed > time.Minute {
			t.Errorf("it took %v", passed)
		}
	})
}
