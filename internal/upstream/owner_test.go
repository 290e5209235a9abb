package upstream

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// sharing is a server that principals share, and what each of them hears.
type sharing struct {
	*fake
	u       *Upstream
	release chan struct{} // ends the calls of "wait"

	mu    sync.Mutex // guards below
	heard map[string][]string
}

func (s *sharing) hear(who, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.heard[who] = append(s.heard[who], what)
}

// took returns what a principal has heard since, in its sessions and its calls.
func (s *sharing) took(who string) []string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	heard := s.heard[who]
	delete(s.heard, who)
	slices.Sort(heard)
	return heard
}

// hearing is the Peer of an agent during a call.
type hearing struct {
	s   *sharing
	who string
}

func (h hearing) Call(context.Context, string, json.RawMessage, mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(`{"action":"accept"}`), nil
}

func (h hearing) Notify(_ context.Context, method string, params json.RawMessage) error {
	h.s.hear(h.who, "call "+method+" "+string(params))
	return nil
}

// share starts the server, with a session of each principal.
func share(t *testing.T, test func(t *testing.T, s *sharing, sessions map[string]*mcp.Session), principals ...string) {
	s := &sharing{heard: map[string][]string{}}
	s.fake = &fake{capabilities: `{"tools":{},"logging":{},"tasks":{}}`, serve: func(f *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		name, _, _ := strings.Cut(string(r.Params), `","arguments"`)
		switch name = strings.TrimPrefix(name, `{"name":"`); {
		case r.Method != "tools/call":
			return nil, nil
		case strings.HasPrefix(name, "task-"):
			return fmt.Appendf(nil, `{"task":{"taskId":%q}}`, name), nil
		case strings.HasPrefix(name, "modern-"):
			return fmt.Appendf(nil, `{"resultType":"task","taskId":%q}`, name), nil
		case strings.HasPrefix(name, "ask-"):
			_, err := r.Peer.Call(ctx, "elicitation/create", fmt.Appendf(nil, `{"mode":"url","elicitationId":%q}`, name), nil)
			return json.RawMessage(`{"content":[]}`), err
		case strings.HasPrefix(name, "first-"):
			return nil, &jsonrpc.Error{Code: -32042, Message: "first", Data: fmt.Appendf(nil, `{"elicitations":[{"elicitationId":%q}]}`, name)}
		case strings.HasPrefix(name, "round-"):
			return fmt.Appendf(nil, `{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":{"mode":"url","elicitationId":%q}}}}`, name), nil
		case name == "wait":
			<-s.release
			return json.RawMessage(`{"content":[]}`), nil
		}
		return nil, nil
	}}
	inBubble(t, s.fake, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		s.u, s.release = upstreamOf(t, m, "fake"), make(chan struct{})
		sessions := map[string]*mcp.Session{}
		for _, who := range principals {
			session := agent(who, `{"elicitation":{}}`)
			sessions[who] = session
			defer s.u.Subscribe(as(t.Context(), session), func(method string, params json.RawMessage) { s.hear(who, method+" "+string(params)) })()
		}
		test(t, s, sessions)
	})
}

func (s *sharing) call(t *testing.T, session *mcp.Session, tool string) {
	t.Helper()
	back := mcp.Back(&mcp.Request{Session: session, Peer: hearing{s, session.Principal()}})
	_, err := s.u.Call(as(t.Context(), session), "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":{}}`), back)
	if err != nil && !strings.HasPrefix(tool, "first-") {
		t.Fatal(err)
	}
}

func (s *sharing) tell(t *testing.T, method, params string) {
	t.Helper()
	if err := s.last().Notify(t.Context(), method, json.RawMessage(params)); err != nil {
		t.Fatal(err)
	}
	synctest.Wait()
}

// TestNoticesHaveOwners: what a shared server says of one principal's task or
// elicitation reaches that principal alone, with and without calls in flight.
func TestNoticesHaveOwners(t *testing.T) {
	t.Parallel()
	share(t, func(t *testing.T, s *sharing, sessions map[string]*mcp.Session) {
		ann, bob := sessions["ann"], sessions["bob"]
		for _, made := range []string{"task-1", "modern-1", "ask-1", "first-1", "round-1"} {
			s.call(t, ann, made)
		}
		s.call(t, bob, "task-2")
		s.call(t, bob, "task-1") // an id that is known already stays its first owner's
		s.took("ann")
		s.took("bob")
		check := func(when string) {
			t.Helper()
			for _, c := range []struct{ method, params, who string }{
				{"notifications/tasks/status", `{"taskId":"task-1","statusMessage":"secret"}`, "ann"},
				{"notifications/tasks/status", `{"taskId":"modern-1"}`, "ann"},
				{"notifications/tasks/status", `{"taskId":"task-2"}`, "bob"},
				{"notifications/tasks/status", `{"taskId":"nobody's"}`, ""},
				{"notifications/tasks/status", `{}`, ""},
				{"notifications/elicitation/complete", `{"elicitationId":"ask-1"}`, "ann"},
				{"notifications/elicitation/complete", `{"elicitationId":"first-1"}`, "ann"},
				{"notifications/elicitation/complete", `{"elicitationId":"round-1"}`, "ann"},
				{"notifications/elicitation/complete", `{"elicitationId":"x"}`, ""},
			} {
				s.tell(t, c.method, c.params)
				for _, who := range []string{"ann", "bob"} {
					heard := s.took(who)
					if who == c.who && (len(heard) != 1 || !strings.HasSuffix(heard[0], c.method+" "+c.params)) || who != c.who && len(heard) != 0 {
						t.Errorf("%s: of %s %s %s hears %q", when, c.method, c.params, who, heard)
					}
				}
			}
			s.tell(t, "notifications/tools/list_changed", `{}`)
			for _, who := range []string{"ann", "bob"} {
				if heard := s.took(who); len(heard) != 1 {
					t.Errorf("%s: of a list %s hears %q", when, who, heard)
				}
			}
		}
		check("nobody calls")
		for _, what := range []string{"notifications/unknown", "notifications/ann/list_changed", "notifications/message"} {
			s.tell(t, what, `{"level":"info","data":"x"}`)
			if a, b := s.took("ann"), s.took("bob"); len(a)+len(b) != 0 {
				t.Errorf("%s: %q %q", what, a, b)
			}
		}
		// The one that alone has a call in flight is not told of the other's.
		var done sync.WaitGroup
		done.Go(func() { s.call(t, bob, "wait") })
		synctest.Wait()
		check("bob calls")
		s.tell(t, "notifications/unknown", `{"n":1}`)
		if a, b := s.took("ann"), s.took("bob"); len(a) != 0 || len(b) != 1 {
			t.Errorf("what names nobody is the one caller's: %q %q", a, b)
		}
		done.Go(func() { s.call(t, ann, "wait") })
		synctest.Wait()
		check("both call")
		s.tell(t, "notifications/unknown", `{"n":2}`)
		if a, b := s.took("ann"), s.took("bob"); len(a)+len(b) != 0 {
			t.Errorf("what names nobody: %q %q", a, b)
		}
		close(s.release)
		done.Wait()
	}, "ann", "bob")
}

// TestOnePrincipalHearsAll: where one principal alone uses a connection, all that is
// said over it is for that principal's sessions.
func TestOnePrincipalHearsAll(t *testing.T) {
	t.Parallel()
	share(t, func(t *testing.T, s *sharing, sessions map[string]*mcp.Session) {
		for _, c := range [][2]string{{"notifications/tasks/status", `{"taskId":"t"}`}, {"notifications/elicitation/complete", `{"elicitationId":"e"}`}, {"notifications/unknown", `{}`}} {
			s.tell(t, c[0], c[1])
			if heard := s.took("ann"); len(heard) != 1 || heard[0] != c[0]+" "+c[1] {
				t.Errorf("%s: %q", c[0], heard)
			}
		}
		// A principal without a session counts: what is said may be for that one.
		s.call(t, agent("bob", "{}"), "x")
		s.tell(t, "notifications/unknown", `{}`)
		if heard := s.took("ann"); len(heard) != 0 {
			t.Errorf("%q", heard)
		}
	}, "ann")
}
