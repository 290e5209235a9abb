package upstream

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// TestStarting: no more programs than Options.Starting are between their start and their handshake. The
// others start when one of those has ended.
func TestStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var begun []string
		var ends []mcp.Stream
		m := New(Options{Starting: 2, open: func(c *mcpserver.Server) (mcp.Stream, error) {
			near, far := mcp.Pipe()
			mu.Lock()
			defer mu.Unlock()
			begun, ends = append(begun, c.Name), append(ends, far)
			return near, nil
		}})
		defer closeAll(t, m, &mu, &ends)
		var servers []*mcpserver.Server
		for i := range 5 {
			name := fmt.Sprintf("s%d", i)
			servers = append(servers, &mcpserver.Server{Name: name, Namespace: name, Command: "slow"})
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

// TestHangingStarts: servers that never answer the handshake leave their places after startPatience, and
// the wait for a place is no part of a start's time.
func TestHangingStarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		begun := map[string]time.Duration{}
		var ends []mcp.Stream
		began := time.Now()
		m := New(Options{Starting: 12, StartTimeout: startPatience + time.Second, open: func(c *mcpserver.Server) (mcp.Stream, error) {
			near, far := mcp.Pipe()
			mu.Lock()
			defer mu.Unlock()
			if _, again := begun[c.Name]; !again {
				begun[c.Name] = time.Since(began)
			}
			ends = append(ends, far)
			return near, nil
		}})
		defer closeAll(t, m, &mu, &ends)
		var servers []*mcpserver.Server
		for i := range 36 {
			name := fmt.Sprintf("s%02d", i)
			servers = append(servers, &mcpserver.Server{Name: name, Namespace: name, Command: "hangs"})
		}
		m.Apply(servers)
		for _, want := range []int{12, 24, 36} {
			synctest.Wait()
			mu.Lock()
			if len(begun) < want {
				t.Errorf("after %s %d programs have started, want %d", time.Since(began), len(begun), want)
			}
			mu.Unlock()
			time.Sleep(startPatience)
		}
		synctest.Wait()
		failed := 0
		for _, s := range m.Status() {
			if s.LastError == "" {
				continue
			}
			if failed++; !strings.Contains(s.LastError, "did not answer initialize within 6s") {
				t.Errorf("%s: %s", s.Name, s.LastError)
			}
		}
		if failed < 12 {
			t.Errorf("after %s %d programs have failed, want at least 12", time.Since(began), failed)
		}
	})
}

// closeAll closes a Manager, and then the far ends of its pipes. mu guards ends, and is free while the
// Manager closes: a start may be about to add to them.
func closeAll(t *testing.T, m *Manager, mu *sync.Mutex, ends *[]mcp.Stream) {
	if err := m.Close(context.Background()); err != nil {
		t.Error(err)
	}
	mu.Lock()
	defer mu.Unlock()
	for _, end := range *ends {
		_ = end.Close()
	}
}

// TestFailedConnectionForgotten forgets a failed connection of a principal once no session needs it,
// also if one did when it was time.
func TestFailedConnectionForgotten(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	cfg := &mcpserver.Server{Credentials: "user", IdleTimeout: time.Hour}
	inBubble(t, f, Options{}, cfg, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		f.mu.Lock()
		f.refuse = &oauth.SignInError{Server: "fake"}
		f.mu.Unlock()
		if _, err := callTool(t.Context(), peerAs{u, agent("ann", "{}")}, "a", "{}"); err == nil {
			t.Error("a call without a credential was made")
		}
		var held atomic.Bool
		held.Store(true)
		own := slotOf(t, u, "ann")
		own.calls.mu.Lock()
		own.calls.held = held.Load
		own.calls.mu.Unlock()
		time.Sleep(2 * failedIdle)
		if st := u.Status(); st.Principals != 1 {
			t.Errorf("while it is held: %+v", st)
		}
		held.Store(false)
		time.Sleep(2 * failedIdle)
		synctest.Wait()
		if st := u.Status(); st.Principals != 0 {
			t.Errorf("after that: %+v", st)
		}
	})
}
