package upstream

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// A tool that a session's own connection adds is listed until the connection ends, if the session has
// no principal: others must not see what a principal has switched on.
func TestAddedBySessions(t *testing.T) {
	t.Parallel()
	for _, principal := range []string{"", identity.Local, "ann"} {
		f := &fake{capabilities: toolsOnly}
		var mu sync.Mutex
		grown := map[*mcp.Session]bool{}
		f.serve = func(_ *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.Method == "tools/call" && rawjson.Text(rawjson.Get(r.Params, "name")) == "grow":
				grown[r.Session] = true
				return json.RawMessage(`{"content":[{"type":"text","text":"grown"}]}`), r.Peer.Notify(ctx, "notifications/tools/list_changed", nil)
			case r.Method == "tools/list" && grown[r.Session]:
				return json.RawMessage(`{"tools":[{"name":"grow","inputSchema":{"type":"object"}},{"name":"fresh","inputSchema":{"type":"object"}}]}`), nil
			}
			return nil, nil
		}
		f.tools = []string{"grow"}
		inBubble(t, f, Options{}, &mcpserver.Server{PerSession: true}, func(t *testing.T, m *Manager, s *sink) {
			listed := func() string {
				synctest.Wait()
				s.mu.Lock()
				defer s.mu.Unlock()
				var names []string
				for _, raw := range s.listings["fake"].Tools {
					names = append(names, rawjson.Text(rawjson.Get(raw, "name")))
				}
				return strings.Join(names, " ")
			}
			u := upstreamOf(t, m, "fake")
			sessions := []*mcp.Session{agent(principal, "{}"), agent(principal, "{}")}
			for _, session := range sessions {
				if _, err := callTool(as(t.Context(), session), u, "grow", "{}"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(3 * time.Second)
			want := "grow fresh"
			if principal == "ann" {
				want = "grow"
			}
			if got := listed(); got != want {
				t.Errorf("%q: %q, want %q", principal, got, want)
			}
			sessions[0].Close()
			time.Sleep(3 * time.Second)
			if got := listed(); got != want {
				t.Errorf("%q, with one session left: %q, want %q", principal, got, want)
			}
			sessions[1].Close()
			time.Sleep(3 * time.Second)
			if got := listed(); got != "grow" {
				t.Errorf("%q, without the sessions: %q", principal, got)
			}
		})
	}
}
