package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// fake is a server in this process. Each start of it is one run.
type fake struct {
	capabilities string
	serve        func(f *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error)
	modern       bool

	mu     sync.Mutex
	refuse error // of the next starts
	starts []time.Time
	asked  []string // methods, with what matters of their params
	runs   []*mcp.Conn
	tools  []string
}

func (f *fake) open(*mcpserver.Server) (mcp.Stream, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starts = append(f.starts, time.Now())
	if f.refuse != nil {
		return nil, f.refuse
	}
	ours, theirs := mcp.Pipe()
	var next mcp.Handler = &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"fake","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(f.capabilities) },
		Next:         mcp.HandlerFunc(f.answer),
	}
	conn := mcp.NewConn(theirs, mcp.ConnOptions{Handler: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if f.modern && r.Method == "initialize" {
			return nil, mcp.MethodNotFound(r.Method)
		}
		f.note(r)
		return next.Serve(ctx, r)
	})})
	f.runs = append(f.runs, conn)
	return &closing{ours, conn}, nil
}

// closing ends the server with the client's side of the stream.
type closing struct {
	mcp.Stream
	conn *mcp.Conn
}

func (c *closing) Close() error { return errors.Join(c.Stream.Close(), c.conn.Close()) }

func (f *fake) note(r *mcp.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := r.Method
	for _, key := range []string{"uri", "level", "cursor"} {
		if v := rawjson.Get(r.Params, key); v != nil {
			what += " " + string(v)
		}
	}
	f.asked = append(f.asked, what)
}

// count is how often something was asked.
func (f *fake) count(what string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if a == what {
			n++
		}
	}
	return n
}

func (f *fake) started() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.starts)
}

// last is the newest run.
func (f *fake) last() *mcp.Conn {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.runs[len(f.runs)-1]
}

func (f *fake) set(refuse error, tools ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse, f.tools = refuse, tools
}

func (f *fake) answer(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if f.serve != nil {
		if result, err := f.serve(f, ctx, r); result != nil || err != nil {
			return result, err
		}
	}
	switch r.Method {
	case "tools/list":
		f.mu.Lock()
		defer f.mu.Unlock()
		out := []byte(`{"tools":[`)
		for i, name := range f.tools {
			if i > 0 {
				out = append(out, ',')
			}
			out = fmt.Appendf(out, `{"name":%q,"inputSchema":{"type":"object"}}`, name)
		}
		return append(out, `]}`...), nil
	case "tools/call":
		return json.RawMessage(`{"content":[{"type":"text","text":` + string(rawjson.Quote(rawjson.Text(rawjson.Get(r.Params, "name")))) + `}]}`), nil
	case "resources/subscribe", "resources/unsubscribe":
		return json.RawMessage(`{}`), nil
	case "resources/list":
		return json.RawMessage(`{"resources":[]}`), nil
	}
	if r.IsNotification() {
		return nil, nil
	}
	return nil, mcp.MethodNotFound(r.Method)
}

const toolsOnly = `{"tools":{"listChanged":true}}`

// inBubble runs a test on a clock of its own with one upstream, which ends
// within the bubble.
func inBubble(t *testing.T, f *fake, o Options, cfg *mcpserver.Server, test func(t *testing.T, m *Manager, s *sink)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &sink{}
		o := o
		o.open, o.Sink, o.Logger = f.open, s, slog.New(slog.NewTextHandler(testWriter{t}, nil))
		cfg.Name, cfg.Namespace, cfg.Command = "fake", "fake", "fake"
		m := New(o)
		defer func() {
			if err := m.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}()
		m.Apply([]*mcpserver.Server{cfg})
		synctest.Wait()
		test(t, m, s)
	})
}

func TestBackoff(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}, refuse: errors.New("no such program")}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
		time.Sleep(5 * time.Minute)
		if err := m.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		f.mu.Lock()
		var gaps []time.Duration
		for i := 1; i < len(f.starts); i++ {
			gaps = append(gaps, f.starts[i].Sub(f.starts[i-1]))
		}
		f.mu.Unlock()
		want := 100 * time.Millisecond
		for i, gap := range gaps {
			if gap < want*3/4 || gap > want*5/4 {
				t.Errorf("gap %d is %s, want about %s", i, gap, want)
			}
			want = min(2*want, maxBackoff)
		}
		if len(gaps) < 12 || len(gaps) > 25 {
			t.Errorf("%d attempts in 5 minutes", len(gaps)+1)
		}
		if slices.Equal(gaps[len(gaps)-3:], []time.Duration{maxBackoff, maxBackoff, maxBackoff}) {
			t.Error("no jitter")
		}
		// A call does not wait long for the back-off: it makes an attempt of its own,
		// unless there was one a moment ago.
		u := upstreamOf(t, m, "fake")
		for due := false; !due; {
			time.Sleep(100 * time.Millisecond)
			u.conns.shared.calls.mu.Lock()
			due = u.conns.shared.calls.state == StateFailed && time.Since(u.conns.shared.calls.tries.tried) > kickAfter
			u.conns.shared.calls.mu.Unlock()
		}
		f.set(nil, "a")
		began := time.Now()
		mustCall(t, u, "a", "{}", "a")
		if took := time.Since(began); took > kickAfter {
			t.Errorf("the call took %s", took)
		}
	})
}

// A call that finds the server down gets one attempt, and the next one of a
// series of calls gets none.
func TestCallsDoNotHammer(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, refuse: errors.New("no such program")}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		slot := upstreamOf(t, m, "fake").conns.shared
		for due := false; !due; time.Sleep(100 * time.Millisecond) {
			slot.calls.mu.Lock()
			due = time.Since(slot.calls.tries.tried) > kickAfter && time.Until(slot.calls.tries.due) > 2*kickAfter
			slot.calls.mu.Unlock()
		}
		u, before := upstreamOf(t, m, "fake"), f.started()
		for range 100 {
			_, err := callTool(t.Context(), u, "a", "{}")
			wantKind(t, err, mcp.KindUpstreamUnavailable, "no such program")
		}
		if n := f.started() - before; n != 1 {
			t.Errorf("100 calls made %d attempts", n)
		}
	})
}

func TestBackoffResetsWhenStable(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		for range 6 { // it crashes again and again
			f.last().Close()
			time.Sleep(20 * time.Second)
		}
		u := upstreamOf(t, m, "fake")
		u.conns.shared.calls.mu.Lock()
		failures := u.conns.shared.calls.tries.failures
		u.conns.shared.calls.mu.Unlock()
		if failures != 6 {
			t.Errorf("%d failures in a row, want 6", failures)
		}
		time.Sleep(time.Minute)
		f.last().Close()
		began := time.Now()
		synctest.Wait()
		mustCall(t, u, "a", "{}", "a")
		if took := time.Since(began); took > 125*time.Millisecond {
			t.Errorf("back after %s", took)
		}
		if st := u.Status(); st.Restarts != 7 {
			t.Errorf("%d restarts", st.Restarts)
		}
	})
}

// A call during a restart waits, but not for ever.
func TestReadyBudget(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		f.set(errors.New("gone"))
		f.last().Close()
		synctest.Wait()
		began := time.Now()
		_, err := callTool(t.Context(), u, "a", "{}")
		wantKind(t, err, mcp.KindUpstreamUnavailable, "gone")
		if took := time.Since(began); took < defaultReadyBudget/2 || took > defaultReadyBudget {
			t.Errorf("it waited %s", took)
		}
		// It comes back while a call waits; the caller's own patience counts, too.
		f.set(nil)
		time.Sleep(kickAfter)
		mustCall(t, u, "a", "{}", "a")
		f.set(errors.New("gone"))
		f.last().Close()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := callTool(ctx, u, "a", "{}"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestGrace(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
		f.set(errors.New("gone"), "a")
		f.last().Close()
		time.Sleep(defaultGrace - time.Second)
		if len(s.tools("fake")) != 1 {
			t.Error("the tools are gone before the grace period has passed")
		}
		if st := upstreamOf(t, m, "fake").Status(); st.State == StateReady || st.Available() && st.State != StateStarting {
			t.Errorf("%+v", st)
		}
		time.Sleep(2 * time.Second)
		if len(s.tools("fake")) != 0 {
			t.Error("the tools are still listed")
		}
		f.set(nil, "a")
		time.Sleep(time.Minute)
		if len(s.tools("fake")) != 1 {
			t.Error("the tools are not back")
		}
	})
}

func TestIdleStopsAndACallWakes(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{IdleTimeout: 10 * time.Minute}, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		for range 5 {
			time.Sleep(6 * time.Minute)
			mustCall(t, u, "a", "{}", "a")
		}
		if f.started() != 1 || u.Status().State != StateReady {
			t.Fatalf("%d starts, %+v", f.started(), u.Status())
		}
		time.Sleep(11 * time.Minute)
		synctest.Wait()
		if st := u.Status(); st.State != StateIdle || !st.Available() || len(s.tools("fake")) != 1 {
			t.Fatalf("%+v", st)
		}
		if hello, err := u.Ready(t.Context()); err != nil || hello.Version == "" || f.started() != 1 {
			t.Errorf("%+v, %v, %d starts", hello, err, f.started())
		}
		time.Sleep(24 * time.Hour)
		mustCall(t, u, "a", "{}", "a")
		if st := u.Status(); st.State != StateReady || f.started() != 2 || st.Restarts != 0 {
			t.Errorf("%+v", st)
		}
		if updates, removed := s.counts(); updates != 1 || len(removed) != 0 {
			t.Errorf("%d updates, removed %v", updates, removed)
		}
	})
}

func TestLazyIsListedOnce(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{Start: mcpserver.StartLazy, IdleTimeout: time.Minute}, func(t *testing.T, m *Manager, s *sink) {
		u := upstreamOf(t, m, "fake")
		if st := u.Status(); st.State != StateIdle || !st.Listed || len(s.tools("fake")) != 1 {
			t.Fatalf("%+v", st)
		}
		mustCall(t, u, "a", "{}", "a")
		f.last().Close() // it dies and is not started again for nothing
		time.Sleep(time.Hour)
		if f.started() != 2 {
			t.Errorf("%d starts", f.started())
		}
		mustCall(t, u, "a", "{}", "a")
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if st := u.Status(); st.State != StateIdle {
			t.Errorf("%+v", st)
		}
	})
}

func TestListChangedIsDebounced(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
		if n := f.count("tools/list"); n != 1 {
			t.Fatalf("%d lists", n)
		}
		f.set(nil, "a", "b")
		for range 50 {
			if err := f.last().Notify(t.Context(), "notifications/tools/list_changed", nil); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond)
		}
		time.Sleep(time.Second)
		if n := f.count("tools/list"); n != 2 || !slices.Equal(s.tools("fake"), []string{"a", "b"}) {
			t.Errorf("%d lists, %v", n, s.tools("fake"))
		}
	})
}

// A list that cannot be read is tried again, and one without an end is cut.
func TestOddLists(t *testing.T) {
	t.Parallel()
	t.Run("error", func(t *testing.T) {
		t.Parallel()
		broken := true
		var mu sync.Mutex
		f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
		f.serve = func(_ *fake, _ context.Context, r *mcp.Request) (json.RawMessage, error) {
			mu.Lock()
			defer mu.Unlock()
			if r.Method == "tools/list" && broken {
				return nil, &jsonrpc.Error{Code: -32603, Message: "database is locked"}
			}
			return nil, nil
		}
		inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
			if st := upstreamOf(t, m, "fake").Status(); st.Listed || !strings.Contains(st.LastError, "database is locked") {
				t.Errorf("%+v", st)
			}
			mu.Lock()
			broken = false
			mu.Unlock()
			time.Sleep(2 * time.Second)
			if len(s.tools("fake")) != 1 {
				t.Error("not listed")
			}
		})
	})
	for name, cursor := range map[string]func(n int) string{
		"the same cursor": func(int) string { return "again" },
		"endless":         func(n int) string { return fmt.Sprint(n) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{capabilities: `{"tools":{},"resources":{}}`}
			f.serve = func(f *fake, _ context.Context, r *mcp.Request) (json.RawMessage, error) {
				if r.Method != "tools/list" {
					return nil, nil
				}
				f.mu.Lock()
				defer f.mu.Unlock()
				n := len(f.asked)
				return fmt.Appendf(nil, `{"tools":[{"name":"t%d"}],"nextCursor":%q}`, n, cursor(n)), nil
			}
			inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
				synctest.Wait()
				n := len(s.tools("fake"))
				if name == "endless" && n != maxPages || name != "endless" && n != 2 {
					t.Errorf("%d tools", n)
				}
				if cut := s.cut("fake"); len(cut) != 1 || !strings.Contains(cut[0], fmt.Sprintf("tools/list is cut after %d entries: ", n)) {
					t.Errorf("told is %q", cut)
				}
			})
		})
	}
	for name, test := range map[string]struct {
		tools int
		text  string
		keeps int
		why   string
	}{
		"many":  {maxEntries + 10, "", maxEntries, "more than 20000 entries"},
		"large": {600, strings.Repeat("x", 10<<10), 25, "definitions have more than 262144 bytes"},
		// Its text is cut to 64 KB in the catalog, so it does not count as what it is.
		"a long text": {3, strings.Repeat("x", 200<<10), 3, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fake{capabilities: toolsOnly}
			f.serve = func(_ *fake, _ context.Context, r *mcp.Request) (json.RawMessage, error) {
				if r.Method != "tools/list" {
					return nil, nil
				}
				out := []byte(`{"tools":[`)
				for i := range test.tools {
					out = append(fmt.Appendf(out, `{"name":"t%d","description":"`, i), test.text+`"},`...)
				}
				return append(out[:len(out)-1], `]}`...), nil
			}
			opts := Options{}
			if name != "many" {
				opts.listBytes = listBytes{kept: 256 << 10, read: 1 << 20}
			}
			inBubble(t, f, opts, &mcpserver.Server{}, func(t *testing.T, m *Manager, s *sink) {
				synctest.Wait()
				if n := len(s.tools("fake")); n != test.keeps {
					t.Errorf("%d tools, want %d", n, test.keeps)
				}
				cut := strings.Join(s.cut("fake"), "; ")
				if (cut == "") != (test.why == "") || !strings.Contains(cut, test.why) {
					t.Errorf("told is %q", cut)
				}
			})
		})
	}
}

func TestTimeout(t *testing.T) {
	t.Parallel()
	f := &fake{capabilities: toolsOnly, tools: []string{"a"}}
	f.serve = func(_ *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method != "tools/call" {
			return nil, nil
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	inBubble(t, f, Options{}, &mcpserver.Server{Timeout: time.Minute}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		began := time.Now()
		_, err := callTool(t.Context(), u, "a", "{}")
		wantKind(t, err, mcp.KindUpstreamTimeout, `upstream "fake"`, "1m0s", "mcpServers.fake.timeout")
		if took := time.Since(began); took != time.Minute {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := callTool(ctx, u, "a", "{}"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller's own limit: %v", err)
		}
	})
}
