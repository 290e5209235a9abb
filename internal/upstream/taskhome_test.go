package upstream

import (
	"context"
	"encoding/json"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/upstream/subscription"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// tasksOf is a server that keeps the tasks of each connection apart. A call makes the task that its
// arguments name.
func tasksOf() *fake {
	type made struct {
		session *mcp.Session
		id      string
	}
	known := map[made]bool{}
	return &fake{capabilities: `{"tools":{},"tasks":{}}`, tools: []string{"slow"}, serve: func(f *fake, _ context.Context, r *mcp.Request) (json.RawMessage, error) {
		f.mu.Lock()
		defer f.mu.Unlock()
		switch r.Method {
		case "tools/call":
			id := rawjson.Text(rawjson.GetPath(r.Params, "arguments", "id"))
			known[made{r.Session, id}] = true
			return json.RawMessage(`{"task":{"taskId":"` + id + `","status":"working"}}`), nil
		case "tasks/get", "tasks/result", "tasks/cancel":
			id := rawjson.Text(rawjson.Get(r.Params, "taskId"))
			if !known[made{r.Session, id}] {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "Task not found"}
			}
			return json.RawMessage(`{"taskId":"` + id + `","status":"working"}`), nil
		}
		return nil, nil
	}}
}

func makeTask(t *testing.T, u *Upstream, s *mcp.Session, id string) {
	t.Helper()
	if _, err := u.Call(as(t.Context(), s), "tools/call", json.RawMessage(`{"name":"slow","arguments":{"id":"`+id+`"}}`), nil); err != nil {
		t.Fatal(err)
	}
}

func askTask(t *testing.T, u *Upstream, s *mcp.Session, method, id string) error {
	t.Helper()
	_, err := u.Call(as(t.Context(), s), method, json.RawMessage(`{"taskId":"`+id+`"}`), nil)
	return err
}

// A server asks for roots while a task of the shared connection runs. The session moves to a
// connection of its own; its task does not.
func TestTaskStaysWithSharedConnection(t *testing.T) {
	t.Parallel()
	f := tasksOf()
	inBubble(t, f, Options{}, &mcpserver.Server{}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		a, other := agent("a", `{"roots":{}}`), agent("b", `{"roots":{}}`)
		defer func() { a.Close(); other.Close() }()
		makeTask(t, u, a, "first")
		if _, err := f.last().Call(t.Context(), "roots/list", nil, nil); err != nil {
			t.Fatal(err)
		}
		makeTask(t, u, a, "second")
		if f.started() != 2 {
			t.Fatalf("%d connections, not 2", f.started())
		}
		for _, id := range []string{"first", "second"} {
			for _, method := range []string{"tasks/get", "tasks/result", "tasks/cancel"} {
				if err := askTask(t, u, a, method, id); err != nil {
					t.Errorf("%s of %s: %v", method, id, err)
				}
				if err := askTask(t, u, other, method, id); err == nil {
					t.Errorf("%s of %s is answered for another principal", method, id)
				}
			}
		}
		modern := u.Era(true)
		if _, err := modern.Call(as(t.Context(), a), "tasks/get", json.RawMessage(`{"taskId":"first"}`), nil); err != nil {
			t.Error(err)
		}
	})
}

// A principal reads a task from another of its sessions than the one that made it. The task ends
// with the connection.
func TestTaskOfAnotherSession(t *testing.T) {
	t.Parallel()
	f := tasksOf()
	inBubble(t, f, Options{}, &mcpserver.Server{PerSession: true, IdleTimeout: time.Hour}, func(t *testing.T, m *Manager, _ *sink) {
		u := upstreamOf(t, m, "fake")
		a, b := agent("p", "{}"), agent("p", "{}")
		defer b.Close()
		makeTask(t, u, a, "of a")
		if err := askTask(t, u, b, "tasks/get", "of a"); err != nil {
			t.Errorf("from another session: %v", err)
		}
		started := f.started()
		makeTask(t, u, a, "both")
		makeTask(t, u, b, "both")
		for _, s := range []*mcp.Session{a, b} {
			if err := askTask(t, u, s, "tasks/get", "both"); err != nil {
				t.Error(err)
			}
		}
		if own := u.conns.homes.of("p", "both", slotKey{session: a}); own == nil || own.key.session != a {
			t.Errorf("the task of a's connection is asked for over %+v", own)
		}
		if f.started() != started+1 {
			t.Errorf("%d connections, not %d", f.started(), started+1)
		}
		a.Close()
		if home := u.conns.homes.of("p", "of a", slotKey{}); home != nil {
			t.Error("a request would go over a connection whose session has just ended")
		}
		synctest.Wait()
		if err := askTask(t, u, b, "tasks/get", "of a"); err == nil {
			t.Error("a task outlived its connection")
		}
		if err := askTask(t, u, b, "tasks/get", "both"); err != nil {
			t.Error(err)
		}
		if n := u.conns.homes.len(); n != 1 {
			t.Errorf("%d tasks are remembered, not 1", n)
		}
		time.Sleep(2 * time.Hour)
		synctest.Wait()
		if n, sessions := u.conns.homes.len(), u.Status().Sessions; n != 0 || sessions != 0 {
			t.Errorf("after the idle time %d tasks are remembered, %d connections are there", n, sessions)
		}
		if err := askTask(t, u, b, "tasks/get", "both"); err == nil {
			t.Error("a task outlived the idle time of its connection")
		}
	})
}

func TestTaskHomesAreBounded(t *testing.T) {
	t.Parallel()
	var homes taskHomes
	ctx, cancel := context.WithCancel(t.Context())
	s := &slot{ctx: ctx}
	for i := range maxTaskHomes + 10 {
		homes.add("p", strconv.Itoa(i), s)
		homes.add("p", strconv.Itoa(i), s)
	}
	if n := homes.len(); n != maxTaskHomes || len(homes.byTask) != maxTaskHomes {
		t.Errorf("%d tasks, %d keys", n, len(homes.byTask))
	}
	if homes.of("p", "9", slotKey{}) != nil || homes.of("p", "10", slotKey{}) != s || homes.of("q", "10", slotKey{}) != nil {
		t.Error("the wrong tasks are remembered")
	}
	cancel()
	homes.forget(s)
	homes.add("p", "late", s) // a call that ends with its connection
	if n := homes.len(); n != 0 || len(homes.byTask) != 0 {
		t.Errorf("%d tasks, %d keys of a connection that has ended", n, len(homes.byTask))
	}
}

// TestGrantsShareNoConnection: a client of a principal gets neither the connection over which another
// client of the principal made a task, nor what that connection says.
func TestGrantsShareNoConnection(t *testing.T) {
	theirs := &slot{ctx: t.Context(), key: slotKey{principal: "p", grant: "wide"}, line: &subscription.Line{}}
	srv := &server{cfg: &mcpserver.Server{Name: "s", URL: "https://s.example/mcp", Credentials: "forward"}}
	conns := &connections{srv: srv, aside: &subscription.Line{}, byKey: map[slotKey]*slot{theirs.key: theirs}}
	var homes taskHomes
	homes.add("p", "7", theirs)
	if got := homes.of("p", "7", slotKey{principal: "p", grant: "narrow"}); got != nil {
		t.Error("a task request goes over the connection of another client")
	}
	if got := homes.of("p", "7", theirs.key); got != theirs {
		t.Error("the client that made the task does not reach it")
	}
	session := mcp.NewSession("", "p")
	for _, step := range []struct {
		grant string
		want  *subscription.Line
	}{{"", conns.aside}, {"narrow", conns.aside}, {"wide", theirs.line}} {
		if step.grant != "" {
			conns.grants.note(session, step.grant)
		}
		if got := conns.Line(session); got != step.want {
			t.Errorf("after a call with the grant %q: another line", step.grant)
		}
	}
}
