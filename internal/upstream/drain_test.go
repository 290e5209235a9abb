package upstream

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
)

// sleepy is a server whose calls take as long as they say, and tell which run of it
// answered.
func sleepy() *fake {
	return &fake{capabilities: `{"tools":{"listChanged":true}}`, tools: []string{"sleep"},
		serve: func(f *fake, ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
			if r.Method != "tools/call" {
				return nil, nil
			}
			run := f.started()
			d, err := time.ParseDuration(rawjson.Text(rawjson.Get(rawjson.Get(r.Params, "arguments"), "for")))
			if err != nil {
				return nil, err
			}
			select {
			case <-time.After(d):
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			return json.RawMessage(`{"content":[],"run":` + string(rune('0'+run)) + `}`), nil
		}}
}

// drained is what became of one call.
type drained struct {
	result string
	err    error
	took   time.Duration
}

// callFor calls the server for a time, in the background.
func callFor(t *testing.T, m *Manager, d time.Duration) <-chan drained {
	t.Helper()
	u, ok := m.Upstream("a")
	if !ok {
		t.Fatal("there is no upstream a")
	}
	done := make(chan drained, 1)
	began := time.Now()
	go func() {
		r, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"sleep","arguments":{"for":"`+d.String()+`"}}`), nil)
		done <- drained{string(r), err, time.Since(began)}
	}()
	synctest.Wait()
	return done
}

func draining(drain time.Duration, args ...string) *mcpserver.Server {
	return &mcpserver.Server{Name: "a", Namespace: "a", Command: "a", Args: args, Timeout: time.Hour, Drain: drain}
}

// readySleepy returns a manager that runs a sleepy server with a drain time of 10 seconds, and closes it
// after the test.
func readySleepy(t *testing.T) (*Manager, *fake, *sink) {
	t.Helper()
	f, s := sleepy(), &sink{}
	m := New(Options{open: f.open, Sink: s})
	t.Cleanup(func() { m.Close(context.WithoutCancel(t.Context())) })
	m.Apply([]*mcpserver.Server{draining(10 * time.Second)})
	if err := m.Ready(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m, f, s
}

// TestReloadDrainsCalls: calls in flight at a server that was changed go on, new ones
// go to the new one at once, and who takes too long is cut off when the time is up.
func TestReloadDrainsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _, _ := readySleepy(t)
		short, long := callFor(t, m, 8*time.Second), callFor(t, m, time.Minute)
		m.Apply([]*mcpserver.Server{draining(10*time.Second, "changed")})
		next := callFor(t, m, time.Second)
		if got := <-next; got.err != nil || !strings.Contains(got.result, `"run":2`) || got.took > 2*time.Second {
			t.Errorf("a new call: %+v", got)
		}
		if got := <-short; got.err != nil || !strings.Contains(got.result, `"run":1`) || got.took != 8*time.Second {
			t.Errorf("a call in flight: %+v", got)
		}
		if got := <-long; got.err == nil || got.took != 10*time.Second {
			t.Errorf("one that takes too long: %+v", got)
		}
	})
}

// TestRemovalDrainsCalls: the entries of a server that is removed are gone at once,
// also if it says that they have changed, and its calls go on.
func TestRemovalDrainsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, f, s := readySleepy(t)
		call := callFor(t, m, 5*time.Second)
		m.Apply(nil)
		synctest.Wait()
		if tools := s.tools("a"); len(tools) != 0 {
			t.Errorf("still listed: %q", tools)
		}
		f.set(nil, "sleep", "more")
		if err := f.last().Notify(t.Context(), "notifications/tools/list_changed", nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if tools := s.tools("a"); len(tools) != 0 {
			t.Errorf("listed again while it is drained: %q", tools)
		}
		if _, err := m.Peer(t.Context(), "a"); err == nil {
			t.Error("it can still be called")
		}
		if got := <-call; got.err != nil || got.took != 5*time.Second {
			t.Errorf("the call in flight: %+v", got)
		}
		synctest.Wait()
		if n := f.started(); n != 1 {
			t.Errorf("started %d times", n)
		}
	})
}

// TestDrainAndClose: a shutdown does not wait for a drain, and drain: 0 cuts calls off.
func TestDrainAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := sleepy()
		m := New(Options{open: f.open})
		m.Apply([]*mcpserver.Server{draining(time.Hour)})
		if err := m.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		call := callFor(t, m, 30*time.Minute)
		m.Apply([]*mcpserver.Server{draining(0, "changed")})
		synctest.Wait()
		began := time.Now()
		cut := callFor(t, m, time.Minute)
		m.Apply(nil)
		if got := <-cut; got.err == nil || got.took > time.Second {
			t.Errorf("drain: 0: %+v", got)
		}
		if err := m.Close(t.Context()); err != nil || time.Since(began) > time.Second {
			t.Errorf("closing took %v, %v", time.Since(began), err)
		}
		if got := <-call; got.err == nil {
			t.Errorf("the call in flight: %+v", got)
		}
	})
}

// TestDrainOfOnePort: a program that serves a URL ends before the next one starts, as
// both want its port, and gets half of the time that calls wait for a server.
func TestDrainOfOnePort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		note := func(what string) { order = append(order, what) }
		u := &Upstream{server: server{cfg: &mcpserver.Server{Command: "a", URL: "http://127.0.0.1:1/"}, log: slog.New(slog.DiscardHandler)}, work: newBusy(), ended: make(chan struct{})}
		u.opts = Options{ReadyBudget: 10 * time.Second}
		u.lists.init(&u.server, place{})
		u.conns.init(&u.server, &u.lists, nil)
		u.work.enter()
		d := &departure{u: u, limit: time.Minute, free: make(chan struct{}), done: make(chan struct{}), hurry: t.Context()}
		began := time.Now()
		go d.leave(nil)
		<-d.free
		if u.conns.ctx.Err() == nil || time.Since(began) != 5*time.Second {
			t.Errorf("the next one may start after %v, while the old one runs: %t", time.Since(began), u.conns.ctx.Err() == nil)
		}
		<-d.done

		// One after the other: nothing overtakes.
		first := &departure{u: u, free: make(chan struct{}), done: make(chan struct{})}
		second := &departure{u: u, before: first, free: make(chan struct{}), done: make(chan struct{}), hurry: t.Context()}
		go func() { second.leave(func() { note("gone") }); note("second") }()
		synctest.Wait()
		note("first")
		close(first.free)
		close(first.done)
		<-second.done
		synctest.Wait()
		if !slices.Equal(order, []string{"gone", "first", "second"}) {
			t.Errorf("order %q", order)
		}
	})
}
