package computer

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/hub"
)

// scripted is an MCP server in memory.
type scripted struct {
	greeting string // result of initialize or server/discover
	modern   bool
	call     func(s *scripted, id jsonrpc.ID, params json.RawMessage) // answers tools/call; nil: with no content

	out    chan []byte
	levels chan string // of logging/setLevel
}

func newScripted() *scripted {
	return &scripted{out: make(chan []byte, 64), levels: make(chan string, 8)}
}

func (s *scripted) tell(msg string) { s.out <- []byte(msg) }

func (s *scripted) Write(msg []byte) error {
	m, err := jsonrpc.Parse(msg)
	if err != nil || m.Kind() != jsonrpc.Request {
		return err
	}
	params := json.RawMessage(append([]byte(nil), m.Params...))
	result := "{}"
	switch m.Method {
	case "initialize", "server/discover":
		if s.modern != (m.Method == "server/discover") {
			s.out <- jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "no"})
			return nil
		}
		result = s.greeting
	case "logging/setLevel":
		s.levels <- string(params)
	case "tools/list":
		result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}],"resultType":"complete"}`
	case "tools/call":
		if s.call != nil {
			s.call(s, m.ID, params)
			return nil
		}
		result = `{"content":[]}`
	case "subscriptions/listen":
		return nil // stays open
	}
	s.out <- jsonrpc.AppendResult(nil, m.ID, []byte(result))
	return nil
}

func (s *scripted) Read() ([]byte, error) {
	msg, ok := <-s.out
	if !ok {
		return nil, context.Canceled
	}
	return msg, nil
}

func (s *scripted) Close() error { return nil }

// openScripted opens a channel to a server, before its initialize, and returns the Agent's end.
// notes gets the notifications that reach the Agent.
func openScripted(t *testing.T, s *scripted, back mcp.Handler) (conn *mcp.Conn, notes chan string) {
	t.Helper()
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(func() { _ = h.Shutdown(context.Background()) })
	c, err := New(Options{Name: "desk"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { close(s.out); _ = c.Close(context.Background()) })
	cfg := &mcpserver.Server{Name: "mem", Namespace: "mem", Type: mcpserver.TransportStdio}
	offered := []*Server{{Name: "mem", Default: &ToolMeta{AutoApply: ApplyAll}}}
	if err := c.catalog.set(offered, map[string]*mcpserver.Server{"mem": cfg}, nil); err != nil {
		t.Fatal(err)
	}
	if err := c.manager.Attach(cfg, func(context.Context) (mcp.Stream, error) { return s, nil }); err != nil {
		t.Fatal(err)
	}
	if err := c.Connect(t.Context(), Hub{URL: server.URL, Office: "o"}); err != nil {
		t.Fatal(err)
	}
	a, err := agent.Connect(t.Context(), agent.Options{URL: server.URL, Office: "o"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	for end := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if tools, err := a.GetTools(t.Context(), "desk"); err == nil && len(tools) == 1 {
			break
		} else if time.Now().After(end) {
			t.Fatalf("no tools: %v", err)
		}
	}
	stream, err := a.OpenMCP(t.Context(), "desk", "mem")
	if err != nil {
		t.Fatal(err)
	}
	notes = make(chan string, 64)
	conn = mcp.NewConn(stream, mcp.ConnOptions{Client: true, Name: "desk", Handler: mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.IsNotification() {
			notes <- r.Method + " " + string(r.Params)
			return nil, nil
		}
		if back != nil {
			return back.Serve(ctx, r)
		}
		return nil, mcp.MethodNotFound(r.Method)
	})})
	t.Cleanup(func() { _ = conn.Close() })
	return conn, notes
}

const (
	withLogs    = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"mem","version":"1"}}`
	withoutLogs = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mem","version":"1"}}`
)

func greet(t *testing.T, conn *mcp.Conn) {
	t.Helper()
	if _, err := mcp.Handshake(t.Context(), conn, json.RawMessage(`{"name":"a","version":"1"}`), json.RawMessage(`{"elicitation":{}}`), ""); err != nil {
		t.Fatal(err)
	}
}

func nextNote(t *testing.T, notes <-chan string, want string) {
	t.Helper()
	select {
	case got := <-notes:
		if !strings.Contains(got, want) {
			t.Errorf("the Agent got %s, want %s", got, want)
		}
	case <-time.After(30 * time.Second):
		t.Fatalf("the Agent did not get %s", want)
	}
}

// TestChannelLevel: the log messages of a server are those of the level that the Agent has set.
func TestChannelLevel(t *testing.T) {
	s := newScripted()
	s.greeting = withLogs
	s.call = func(s *scripted, id jsonrpc.ID, _ json.RawMessage) {
		for _, level := range []string{"info", "error"} {
			s.tell(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"` + level + `","data":"` + level + `"}}`)
		}
		s.out <- jsonrpc.AppendResult(nil, id, []byte(`{"content":[]}`))
	}
	conn, notes := openScripted(t, s, nil)
	greet(t, conn)
	if _, err := conn.Call(t.Context(), "logging/setLevel", json.RawMessage(`{"level":"warning"}`), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":{}}`), nil); err != nil {
		t.Fatal(err)
	}
	nextNote(t, notes, `"error"`) // the one below the level would have come first
}

// TestChannelBeforeInitialize: an Agent gets notifications from its initialize on.
func TestChannelBeforeInitialize(t *testing.T) {
	s := newScripted()
	s.greeting = withLogs
	conn, notes := openScripted(t, s, nil)
	s.tell(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
	// The server's answer follows its notification.
	if _, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":{}}`), nil); err != nil {
		t.Fatal(err)
	}
	greet(t, conn)
	s.tell(`{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`)
	nextNote(t, notes, "prompts/list_changed")
}

// TestChannelWithoutLogs: logging/setLevel is no method of a server without logs.
func TestChannelWithoutLogs(t *testing.T) {
	s := newScripted()
	s.greeting = withoutLogs
	conn, _ := openScripted(t, s, nil)
	greet(t, conn)
	_, err := conn.Call(t.Context(), "logging/setLevel", json.RawMessage(`{"level":"warning"}`), nil)
	if e := mcp.WireError(err, ""); e.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("code %d: %v", e.Code, err)
	}
	if len(s.levels) > 0 {
		t.Error("the server was asked")
	}
}

// TestChannelQuestion: a question that a modern server puts into its result reaches the legacy Agent
// as a request, and the answer goes back with the next attempt.
func TestChannelQuestion(t *testing.T) {
	s := newScripted()
	s.modern, s.greeting = true, `{"supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"resultType":"complete","ttlMs":0,"cacheScope":"private"}`
	s.call = func(s *scripted, id jsonrpc.ID, params json.RawMessage) {
		result := `{"resultType":"input_required","requestState":"1","inputRequests":{"who":{"method":"elicitation/create","params":{"mode":"form","message":"Who?","requestedSchema":{"type":"object","properties":{}}}}}}`
		if strings.Contains(string(params), `"Ada"`) {
			result = `{"resultType":"complete","content":[{"type":"text","text":"hello Ada"}]}`
		}
		s.out <- jsonrpc.AppendResult(nil, id, []byte(result))
	}
	asked := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		if r.Method != "elicitation/create" {
			return nil, mcp.MethodNotFound(r.Method)
		}
		return json.RawMessage(`{"action":"accept","content":{"name":"Ada"}}`), nil
	})
	conn, _ := openScripted(t, s, asked)
	greet(t, conn)
	result, err := conn.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"t","arguments":{}}`), asked)
	if err != nil || !strings.Contains(string(result), "hello Ada") {
		t.Errorf("%s, %v", result, err)
	}
}
