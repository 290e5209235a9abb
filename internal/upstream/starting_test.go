package upstream

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/mcp"
)

// TestStarting: no more programs than Options.Starting are between their start and their handshake. The
// others start when one of those has ended.
func TestStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []string
		var ends []mcp.Stream
		m := New(Options{Starting: 2, open: func(c *config.Server) (mcp.Stream, error) {
			near, far := mcp.Pipe()
			mu.Lock()
			defer mu.Unlock()
			begun, ends = append(begun, c.Name), append(ends, far)
			return near, nil
		}})
		defer func() {
			for _, end := range ends {
				_ = end.Close()
			}
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		var servers []*config.Server
		for i := range 5 {
			name := fmt.Sprintf("s%d", i)
			servers = append(servers, &config.Server{Name: name, Namespace: name, Command: "slow"})
		}
		m.Apply(servers)
		for want := 2; want < 5; want++ {
			synctest.Wait()
			mu.Lock()
			if len(begun) != want {
				t.Errorf("%d programs have started, want %d: %q", len(begun), want, begun)
			}
			end := ends[want-2]
			mu.Unlock()
			_ = end.Close()
		}
	})
}
