package passthrough_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
	"github.com/weir-mcp/weir/mcp"
)

// copier is an Auditor that takes the bytes of a copy of large params, as the audit log and hooks do.
type copier struct {
	ends
	pool  *memory.Pool
	full  bool // others take what is left
	taken int64
}

func (a *copier) Begin(ctx context.Context, upstream string, r *mcp.Request) (passthrough.Recorded, error) {
	if a.full {
		for err := error(nil); err == nil; {
			other, scope := memory.WithScope(ctx)
			defer scope.End()
			scope.Count(a.pool, "principal ", fmt.Sprint("other ", a.pool.Usage().Memory))
			err = memory.Take(other, 1<<20)
		}
	}
	before := a.pool.Usage().Memory
	if err := memory.Take(ctx, int64(len(r.Params))); err != nil {
		return nil, mcp.NoRoom("the copy", err)
	}
	a.taken = a.pool.Usage().Memory - before
	return a.ends.Begin(ctx, upstream, r)
}

// TestCopiesOfLargeRequestsAreCounted: what a request makes weir copy is in the account of its principal until it ends,
// by every way to a server, and refused where there is no room.
func TestCopiesOfLargeRequestsAreCounted(t *testing.T) {
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			pool := memory.NewPool(memory.Options{Limit: 32 << 20, Wait: 100 * time.Millisecond, Dir: t.TempDir()})
			t.Cleanup(pool.Close)
			a := &copier{pool: pool}
			e := way.start(t, fakemcp.Config{}, func(_ *config.Server, o *passthrough.Options) { o.Audit, o.Memory, o.MaxBody = a, pool, 32<<20 }).ready()
			session := []string{"Mcp-Session-Id", e.initialize(mcp.V20251125), "Mcp-Protocol-Version", mcp.V20251125}
			post := func(size int) result {
				t.Helper()
				a.taken = 0
				text := strings.Repeat("x", size)
				return e.post(mcpPath, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"`+text+`"}}}`, session...)
			}
			if res := post(1 << 20); res.status != http.StatusOK || a.taken < 1<<20 {
				t.Errorf("%d %.200s, %d bytes of the copy are counted", res.status, res.body, a.taken)
			}
			a.full = true
			if res := post(7 << 20); !strings.Contains(res.body, `"message":"the copy: `) {
				t.Errorf("a copy without room: %d %.200s", res.status, res.body)
			}
			for end := time.Now().Add(10 * time.Second); pool.Usage().Memory != 0; time.Sleep(time.Millisecond) {
				if time.Now().After(end) { // the requests end a moment after their answers
					t.Fatalf("%d bytes are still counted", pool.Usage().Memory)
				}
			}
		})
	}
}
