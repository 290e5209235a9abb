package upstream

import (
	"context"
	"encoding/json"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// agent is a legacy session whose client has declared capabilities and answers
// every request with what it is.
func agent(name, capabilities string) *mcp.Session {
	s := mcp.NewSession("", name)
	s.SetVersion(mcp.V20251125)
	s.SetClient(json.RawMessage(`{"name":"agent"}`), json.RawMessage(capabilities))
	s.SetPeer(answering(name))
	return s
}

// answering is the Peer of such a client.
type answering string

func (a answering) Call(_ context.Context, method string, _ json.RawMessage, _ mcp.Handler) (json.RawMessage, error) {
	return json.RawMessage(`{"roots":[{"uri":"file:///` + string(a) + `"}],"asked":"` + method + `"}`), nil
}

func (a answering) Notify(context.Context, string, json.RawMessage) error { return nil }

// as calls on behalf of a session, which answers what the server asks.
func as(ctx context.Context, s *mcp.Session) context.Context { return mcp.WithCaller(ctx, s) }

func callAs(t *testing.T, u *Upstream, s *mcp.Session, tool, args string) string {
	t.Helper()
	back := mcp.Back(&mcp.Request{Session: s, Peer: s.Peer()})
	result, err := u.Call(as(t.Context(), s), "tools/call", json.RawMessage(`{"name":"`+tool+`","arguments":`+args+`}`), back)
	if err != nil {
		t.Fatalf("%s for %s: %v", tool, s.Principal(), err)
	}
	var out struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(result, &out); err != nil || len(out.Content) == 0 {
		t.Fatalf("%s, %v", result, err)
	}
	return out.Content[0].Text
}

func TestPerSession(t *testing.T) {
	t.Parallel()
	cfg := program("memory")
	cfg.PerSession = true
	m, _ := manage(t, Options{}, cfg)
	ready(t, m)
	u := upstreamOf(t, m, "memory")
	eventually(t, "the process that listed is stopped", func() bool { return u.Status().State == StateIdle })
	a, b := agent("a", "{}"), agent("b", "{}")
	for i, s := range []*mcp.Session{a, a, b, a} {
		if got, want := callAs(t, u, s, "counter", "{}"), []string{"1", "2", "1", "3"}[i]; got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
	if st := u.Status(); st.Sessions != 2 || st.State != StateIdle {
		t.Errorf("%+v", st)
	}
	a.Close()
	eventually(t, "the connection of a is gone", func() bool { return u.Status().Sessions == 1 })
	if got := callAs(t, u, b, "counter", "{}"); got != "2" {
		t.Errorf("b counts %s", got)
	}
	_, err := callTool(as(t.Context(), a), u, "counter", "{}")
	wantKind(t, err, mcp.KindUpstreamUnavailable)
	b.Close()
	eventually(t, "all are gone", func() bool { return u.Status().Sessions == 0 })
}

// One process, shared by all sessions.
func TestShared(t *testing.T) {
	t.Parallel()
	m, _ := manage(t, Options{}, program("shared"))
	ready(t, m)
	u := upstreamOf(t, m, "shared")
	a, b := agent("a", "{}"), agent("b", `{"roots":{}}`)
	for i, s := range []*mcp.Session{a, b, a} {
		if got, want := callAs(t, u, s, "counter", "{}"), []string{"1", "2", "3"}[i]; got != want {
			t.Errorf("call %d: %s, want %s", i, got, want)
		}
	}
}

// spec/calls §4: a server that asks for roots is per_session by itself, for
// clients that have some.
func TestRoots(t *testing.T) {
	t.Parallel()
	m, _ := manage(t, Options{}, program("files"))
	ready(t, m)
	u := upstreamOf(t, m, "files")
	a, b, c := agent("a", `{"roots":{}}`), agent("b", `{"roots":{"listChanged":true}}`), agent("c", `{}`)
	defer func() { a.Close(); b.Close(); c.Close() }()
	callAs(t, u, a, "roots", "{}")
	for i := range 3 {
		for _, s := range []*mcp.Session{a, b} {
			want := `{"roots":[{"uri":"file:///` + s.Principal() + `"}],"asked":"roots/list"}`
			if got := callAs(t, u, s, "roots", "{}"); got != want {
				t.Errorf("call %d: %s, want %s", i, got, want)
			}
		}
	}
	if got := callAs(t, u, c, "counter", "{}"); got != "1" {
		t.Errorf("counter of the shared process: %s", got)
	}
	if st := u.Status(); st.Sessions != 2 || st.Pid == 0 {
		t.Errorf("%+v", st)
	}
}

// What the server asks outside any call: the shared connection has no roots, a
// session's own has those of its client.
func TestAskedOutsideCalls(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		shared := f.last()
		got, err := shared.Call(t.Context(), "roots/list", nil, nil)
		if err != nil || string(got) != `{"roots":[]}` || !u.asksRoots.Load() {
			t.Errorf("%s, %v", got, err)
		}
		if _, err := shared.Call(t.Context(), "sampling/createMessage", nil, nil); err == nil {
			t.Error("somebody sampled for nobody")
		}
		a := agent("a", `{"roots":{},"sampling":{}}`)
		mustCall(t, peerAs{u, a}, "a", "{}", "a")
		own := f.last()
		if own == shared {
			t.Fatal("no connection of its own")
		}
		if _, caps := own.Session().Client(); string(caps) != `{"roots":{},"sampling":{}}` {
			t.Errorf("declared %s", caps)
		}
		for _, method := range []string{"roots/list", "sampling/createMessage"} {
			got, err := own.Call(t.Context(), method, nil, nil)
			if want := `{"roots":[{"uri":"file:///a"}],"asked":"` + method + `"}`; err != nil || string(got) != want {
				t.Errorf("%s, %v", got, err)
			}
		}
		if err := u.Notify(as(t.Context(), a), "notifications/roots/list_changed", nil); err != nil {
			t.Error(err)
		}
		if err := u.Notify(t.Context(), "notifications/roots/list_changed", nil); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		if n := f.count("notifications/roots/list_changed"); n != 1 {
			t.Errorf("%d servers were told", n)
		}
		a.Close()
		synctest.Wait()
		if st := u.Status(); st.Sessions != 0 {
			t.Errorf("%+v", st)
		}
	})
}

// peerAs calls on behalf of a session.
type peerAs struct {
	u *Upstream
	s *mcp.Session
}

func (p peerAs) Call(ctx context.Context, method string, params json.RawMessage, back mcp.Handler) (json.RawMessage, error) {
	return p.u.Call(as(ctx, p.s), method, params, back)
}

func (p peerAs) Notify(ctx context.Context, method string, params json.RawMessage) error {
	return p.u.Notify(as(ctx, p.s), method, params)
}

func TestSessionConnectionsAreBounded(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{PerSession: true, IdleTimeout: time.Hour}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		var all []*mcp.Session
		for range maxSessionSlots + 10 {
			s := agent("a", "{}")
			all = append(all, s)
			mustCall(t, peerAs{u, s}, "a", "{}", "a")
			time.Sleep(time.Second)
		}
		if n := u.Status().Sessions; n != maxSessionSlots {
			t.Errorf("%d connections", n)
		}
		mustCall(t, peerAs{u, all[0]}, "a", "{}", "a") // it was the first to go
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n := u.Status().Sessions; n != 0 {
			t.Errorf("%d connections are there although nobody uses them", n)
		}
	})
}
