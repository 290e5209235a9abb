package upstream

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// TestBrokenListing: a listing in which weir ends, or the server does, is no listing. The lists that
// were not read are not empty.
func TestBrokenListing(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"tools/list", "resources/list", "prompts/list"} {
		for _, end := range []string{"weir", "the server"} {
			t.Run(end+" in "+method, func(t *testing.T) {
				t.Parallel()
				f := &fake{capabilities: `{"tools":{},"resources":{},"prompts":{}}`, tools: []string{"a"}}
				f.serve = func(_ *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
					if r.Method != method {
						return nil, nil
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}
				var got *sink
				inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
					got = s
					if end == "weir" {
						return
					}
					_ = f.last().Close()
					synctest.Wait()
				})
				if got.updates != 0 {
					t.Errorf("%d listings: %+v", got.updates, got.listings["fake"])
				}
			})
		}
	}
}
