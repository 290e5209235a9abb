package upstream

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// inMemory opens a connection to a server with one tool.
func inMemory(t *testing.T) Open {
	fixed := func(result string) mcp.Handler {
		return mcp.HandlerFunc(func(context.Context, *mcp.Request) (json.RawMessage, error) { return json.RawMessage(result), nil })
	}
	return func(context.Context) (mcp.Stream, error) {
		near, far := mcp.Pipe()
		conn := mcp.NewConn(far, mcp.ConnOptions{Drain: time.Millisecond, Handler: &mcp.Lifecycle{
			ServerInfo: json.RawMessage(`{"name":"mem","version":"1"}`), Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
			Next: &mcp.Mux{Methods: map[string]mcp.Handler{"tools/list": fixed(`{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`), "tools/call": fixed(`{"content":[]}`)}},
		}})
		t.Cleanup(func() { _ = conn.Close() })
		return near, nil
	}
}

// A server that was found is listed and called like others, outlives Apply, and
// is gone with Detach.
func TestAttach(t *testing.T) {
	m, s := manage(t, Options{}, program("own"))
	found := &mcpserver.Server{Name: "found", Namespace: "found", Type: mcpserver.TransportStdio, Timeout: 5 * time.Second}
	if err := m.Attach(found, inMemory(t)); err != nil {
		t.Fatal(err)
	}
	if err := m.Attach(found, inMemory(t)); err == nil {
		t.Error("a name was taken twice")
	}
	if err := m.Attach(&mcpserver.Server{Name: "own"}, inMemory(t)); err == nil {
		t.Error("the name of a configured server was taken")
	}
	eventually(t, "it is listed", func() bool { return slices.Equal(s.tools("found"), []string{"t"}) })
	u, ok := m.Upstream("found")
	if !ok {
		t.Fatal("it is not there")
	}
	if _, err := u.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t"}`), nil); err != nil {
		t.Error(err)
	}
	m.Apply([]*mcpserver.Server{program("own"), program("other")})
	if got, _ := m.Upstream("found"); got != u {
		t.Error("Apply has changed it")
	}
	if names := m.Names(); !slices.Equal(names, []string{"found", "other", "own"}) || len(m.Status()) != 3 {
		t.Errorf("names %v", names)
	}
	if !m.Detach("found") || m.Detach("found") || m.Detach("own") {
		t.Error("Detach took what is not attached, or not what is")
	}
	eventually(t, "its entries are gone", func() bool { return s.tools("found") == nil })
}

// The Sink learns which upstreams no configuration names, also of a server that the
// configuration names later.
func TestFound(t *testing.T) {
	m, s := manage(t, Options{})
	found := func(name string) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.listings[name].Found
	}
	listed := func(name string) func() bool { return func() bool { return s.tools(name) != nil } }
	if err := m.Attach(&mcpserver.Server{Name: "attached", Namespace: "attached", Type: mcpserver.TransportStdio}, inMemory(t)); err != nil {
		t.Fatal(err)
	}
	m.Apply([]*mcpserver.Server{program("own")}, program("other"), program("attached"))
	for name, want := range map[string]bool{"attached": true, "own": false, "other": true} {
		eventually(t, name+" is listed", listed(name))
		if found(name) != want {
			t.Errorf("%s: found is %t", name, !want)
		}
	}
	if !m.Attached("attached") || !slices.Equal(s.tools("attached"), []string{"t"}) {
		t.Error("a server that was found has taken the place of an attached one")
	}
	m.Apply([]*mcpserver.Server{program("own"), program("other")})
	eventually(t, "the configuration has it now", func() bool { return listed("other")() && !found("other") })
}

// A configured server takes the place of an attached one.
func TestAttachGivesWay(t *testing.T) {
	m, s := manage(t, Options{})
	if err := m.Attach(&mcpserver.Server{Name: "a", Namespace: "a", Type: mcpserver.TransportStdio}, inMemory(t)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it is listed", func() bool { return slices.Equal(s.tools("a"), []string{"t"}) })
	m.Apply([]*mcpserver.Server{program("a")})
	eventually(t, "the configured one is listed", func() bool { return slices.Contains(s.tools("a"), "echo") })
	if m.Detach("a") {
		t.Error("a configured server was detached")
	}
	refused := errors.New("no way")
	if err := m.Attach(&mcpserver.Server{Name: "b", Namespace: "b", Type: mcpserver.TransportStdio}, func(context.Context) (mcp.Stream, error) { return nil, refused }); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what cannot be opened has failed", func() bool {
		i := slices.IndexFunc(m.Status(), func(s Status) bool { return s.Name == "b" })
		return m.Status()[i].State == StateFailed && m.Status()[i].LastError == "no way"
	})
}
