package upstream

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/mcp"
)

// slotOf returns the connection of a principal.
func slotOf(t *testing.T, u *Upstream, principal string) *slot {
	t.Helper()
	u.conns.mu.Lock()
	defer u.conns.mu.Unlock()
	s := u.conns.byKey[slotKey{principal: principal}]
	if s == nil {
		t.Fatalf("%s has no connection", principal)
	}
	return s
}

// TestEvictSparesCalls does not end a connection that a call gets while evict looks for one.
func TestEvictSparesCalls(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	cfg := &mcpserver.Server{Credentials: "user", IdleTimeout: time.Hour}
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
		u.conns.mu.Lock()
		evicted := u.conns.evict("")
		u.conns.mu.Unlock()
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

// TestCallWhileASlotLeaves: a call that comes between the end of a connection and its removal from
// the table gets a new one.
func TestCallWhileASlotLeaves(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	cfg := &mcpserver.Server{Credentials: "user", IdleTimeout: time.Hour}
	inBubble(t, f, Options{}, cfg, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		ann := peerAs{u, agent("ann", "{}")}
		mustCall(t, ann, "a", "{}", "a")
		old, starts := slotOf(t, u, "ann"), f.started()
		func() {
			u.conns.homes.mu.Lock() // so that the slot cannot leave the table by itself
			defer u.conns.homes.mu.Unlock()
			if !old.calls.endQuiet() {
				t.Error("the connection is in use")
			}
			old.cancel()
			mustCall(t, ann, "a", "{}", "a")
		}()
		synctest.Wait()
		if now := slotOf(t, u, "ann"); now == old || f.started() != starts+1 {
			t.Errorf("the same slot: %t, %d starts", now == old, f.started()-starts)
		}
		mustCall(t, ann, "a", "{}", "a")
	})
}

// TestEvictForCredentials ends no connection for a principal without a credential, and prefers those
// of the principal that needs one.
func TestEvictForCredentials(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	a := newAccounts()
	a.sign("p0", true)
	cfg := &mcpserver.Server{Credentials: "user", PerSession: true, IdleTimeout: time.Hour}
	inBubble(t, f, Options{Credentials: a}, cfg, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		var agents []peerAs
		for i := range maxSessionSlots {
			name := fmt.Sprint("p", i)
			a.sign(name, true)
			agents = append(agents, peerAs{u, agent(name, "{}")})
			mustCall(t, agents[i], "a", "{}", "a")
			time.Sleep(time.Second)
		}
		starts := f.started()
		for range 3 {
			_, err := callTool(t.Context(), peerAs{u, agent("stranger", "{}")}, "a", "{}")
			wantKind(t, err, mcp.KindUnauthorized, "weir login fake")
			if !errors.As(err, new(*oauth.SignInError)) {
				t.Errorf("%v does not ask for a sign-in", err)
			}
		}
		// The last principal has used its connection last. It is the one that another session costs.
		mustCall(t, peerAs{u, agent(agents[maxSessionSlots-1].s.Principal(), "{}")}, "a", "{}", "a")
		for _, p := range agents[:maxSessionSlots-1] {
			mustCall(t, p, "a", "{}", "a")
		}
		if n := f.started() - starts; n != 1 {
			t.Errorf("%d connections were made", n)
		}
	})
}
