package streamable

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// largeServer answers tools/call with a text of size bytes, as a body or as an event.
func largeServer(t *testing.T, size int, events bool) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		m, err := jsonrpc.Parse(data)
		if err != nil || m.ID == "" {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		answer := string(jsonrpc.AppendResult(nil, m.ID, []byte(`{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"large","version":"1"}}`)))
		if m.Method == "tools/call" {
			answer = `{"jsonrpc":"2.0","id":` + string(m.ID) + `,"result":{"text":"` + strings.Repeat("x", size) + `"}}`
		}
		if events && m.Method == "tools/call" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, "data: "+answer+"\n\n")
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// Large responses at once are received into files and read in turns: what is open
// never takes more than its part of the limit, and in the end nothing is left.
func TestLargeResponses(t *testing.T) {
	const size = 5 << 20
	for name, events := range map[string]bool{"as a body": false, "as an event": true} {
		t.Run(name, func(t *testing.T) {
			pool := memory.NewPool(memory.Options{Limit: 16 << 20, SpillAt: 1 << 20, Dir: t.TempDir(), Linger: -1})
			defer pool.Close()
			c, err := Dial(t.Context(), ClientOptions{
				URL: largeServer(t, size, events), Name: `upstream "large"`, ProtocolVersion: "2025-11-25", Room: pool.Account("large"),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			var all sync.WaitGroup
			for range 4 {
				all.Go(func() {
					ctx, scope := memory.WithScope(t.Context())
					defer scope.End()
					result, err := c.Call(ctx, "tools/call", nil, nil)
					if err != nil || string(result) != `{"text":"`+strings.Repeat("x", size)+`"}` {
						t.Errorf("%d bytes, %v", len(result), err)
					}
					if u := pool.Usage(); !scope.Ends(result) || u.Memory < size || u.Memory >= 2*size { // up to 1 MB of each other one is on its way to a file
						t.Errorf("held is %+v", u)
					}
				})
			}
			all.Wait()
			if u := pool.Usage(); u.Memory != 0 || u.Disk != 0 || u.Waiting != 0 {
				t.Errorf("in the end there is %+v", u)
			}
		})
	}
}

// A response over its bound, and one that there is no room for, name what to raise.
func TestLargeResponseThatDoesNotFit(t *testing.T) {
	pool := memory.NewPool(memory.Options{Limit: 4 << 20, SpillAt: 1 << 20, Wait: 5 * time.Millisecond})
	defer pool.Close()
	for _, tt := range []struct {
		most int64
		kind mcp.Kind
		want string
	}{
		{1 << 20, mcp.KindUpstreamProtocol, "raise mcpServers.large.max_response"},
		{64 << 20, mcp.KindMemory, "limits.memory"},
	} {
		for _, events := range []bool{false, true} {
			c, err := Dial(t.Context(), ClientOptions{
				URL: largeServer(t, 8<<20, events), Name: `upstream "large"`, ProtocolVersion: "2025-11-25", Room: pool.Account("large"),
				MaxResponse: tt.most, MaxResponseKey: "mcpServers.large.max_response",
			})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Call(t.Context(), "tools/call", nil, nil)
			if k, _ := mcp.KindOf(err); k != tt.kind || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, mcp.ErrAnswered) {
				t.Errorf("events %t: %v", events, err)
			}
			c.Close()
		}
	}
	if u := pool.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
}
