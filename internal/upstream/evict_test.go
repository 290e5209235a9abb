package upstream

import (
	"errors"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config"
)

// slotOf returns the connection of a principal.
func slotOf(t *testing.T, u *Upstream, principal string) *slot {
	t.Helper()
	u.slotsMu.Lock()
	defer u.slotsMu.Unlock()
	s := u.slots[slotKey{principal: principal}]
	if s == nil {
		t.Fatalf("%s has no connection", principal)
	}
	return s
}

// TestEvictSparesCalls does not end a connection that a call gets while evict looks for one.
func TestEvictSparesCalls(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	cfg := &config.Server{Credentials: "user", IdleTimeout: time.Hour}
	inBubble(t, f, Options{}, cfg, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		ann, bob := peerAs{u, agent("ann", "{}")}, peerAs{u, agent("bob", "{}")}
		mustCall(t, ann, "a", "{}", "a")
		mustCall(t, bob, "a", "{}", "a")
		slots := []*slot{slotOf(t, u, "ann"), slotOf(t, u, "bob")}
		var seen, taken *slot // the first that evict looks at, which a call gets while it looks at the other
		var used *link
		for _, s := range slots {
			s.calls.mu.Lock()
			s.calls.used = time.Now()
			s.calls.held = func() bool {
				if seen == nil {
					seen = s
				} else if seen != s && taken == nil {
					taken = seen
					var err error
					if used, err = taken.calls.acquire(t.Context()); err != nil {
						t.Error(err)
					}
				}
				return false
			}
			s.calls.mu.Unlock()
		}
		u.slotsMu.Lock()
		evicted := u.evict()
		u.slotsMu.Unlock()
		if taken == nil || !evicted {
			t.Fatal("nothing was evicted")
		}
		for _, s := range slots {
			if ended := s.ctx.Err() != nil; ended != (s != taken) {
				t.Errorf("%s: in use %t, ended %t", s.key.principal, s == taken, ended)
			}
			if _, err := s.calls.acquire(t.Context()); s != taken && !errors.Is(err, errSlotEnded) {
				t.Errorf("a late call: %v", err)
			} else if s == taken {
				s.calls.release(used)
			}
		}
		taken.calls.release(used)
		starts := f.started()
		mustCall(t, ann, "a", "{}", "a")
		mustCall(t, bob, "a", "{}", "a")
		if n := f.started() - starts; n != 1 {
			t.Errorf("%d connections were made again", n)
		}
	})
}
