package computer

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/testkit/wsbench"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp/agent"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// BenchmarkToolCall measures the round trip of a tool call from an agent through hub and Computer to
// an MCP server in memory; local is an agent of the hub's own process, as in a gateway. x_baseline
// is how many times as long it takes as the same four messages over bare WebSockets, and x_cpu how
// many times as much CPU time.
func BenchmarkToolCall(b *testing.B) {
	b.Run("websocket", func(b *testing.B) { benchmarkToolCall(b, false) })
	b.Run("local", func(b *testing.B) { benchmarkToolCall(b, true) })
}

func benchmarkToolCall(b *testing.B, local bool) {
	h := hub.New(hub.Options{})
	server := httptest.NewServer(h)
	defer server.Close()
	defer func() { _ = h.Shutdown(context.Background()) }()
	ws := engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}}
	c, err := New(Options{Name: "c"})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close(context.Background())
	cfg := &mcpserver.Server{Name: "mem", Namespace: "mem", Type: mcpserver.TransportStdio}
	offered := []*Server{{Name: "mem", Default: &ToolMeta{AutoApply: ApplyAll}}}
	if err := c.catalog.set(offered, map[string]*mcpserver.Server{"mem": cfg}, nil); err != nil {
		b.Fatal(err)
	}
	err = c.manager.Attach(cfg, func(context.Context) (mcp.Stream, error) { return newInstant(), nil })
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Connect(b.Context(), Hub{URL: server.URL, Office: "o", Engine: ws}); err != nil {
		b.Fatal(err)
	}
	opts := agent.Options{URL: server.URL, Office: "o", Engine: ws}
	if local {
		opts.Local = h.Attach()
	}
	a, err := agent.Connect(b.Context(), opts)
	if err != nil {
		b.Fatal(err)
	}
	defer a.Close()
	for start := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		if tools, err := a.GetTools(b.Context(), "c"); err == nil && len(tools) == 1 {
			break
		} else if time.Since(start) > 10*time.Second {
			b.Fatalf("no tools: %v", err)
		}
	}
	args := json.RawMessage(`{"text":"` + strings.Repeat("x", 100) + `"}`)
	bare, stop := bareRoundTrip(b, 270, 60) // a call has 254 bytes to the hub and 286 from there, its answer 56
	defer stop()
	wsbench.InTurn(b, func() {
		if _, err := a.CallTool(b.Context(), agent.ToolCall{Computer: "c", Tool: "t", Arguments: args}); err != nil {
			b.Fatal(err)
		}
	}, bare)
}

// instant is an MCP server that has its answer ready when it is asked.
type instant struct {
	answers chan []byte
	once    sync.Once
}

func newInstant() *instant { return &instant{answers: make(chan []byte, 1024)} }

// WriteAll takes messages at once, as the pipe of a program does that reads what it is sent.
func (s *instant) WriteAll(msgs [][]byte, _ bool) (bool, error) {
	for _, msg := range msgs {
		if err := s.Write(msg); err != nil {
			return true, err
		}
	}
	return true, nil
}

// Write implements mcp.Stream.
func (s *instant) Write(msg []byte) error {
	m, err := jsonrpc.Parse(msg)
	if err != nil || m.Kind() != jsonrpc.Request {
		return err
	}
	var result string
	switch m.Method {
	case "initialize":
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"mem","version":"1"}}`
	case "tools/list":
		result = `{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		result = `{"content":[{"type":"text","text":"done"}]}`
	}
	s.answers <- jsonrpc.AppendResult(make([]byte, 0, 256), m.ID, []byte(result))
	return nil
}

// Read implements mcp.Stream.
func (s *instant) Read() ([]byte, error) {
	msg, ok := <-s.answers
	if !ok {
		return nil, io.EOF
	}
	return msg, nil
}

// Close implements mcp.Stream.
func (s *instant) Close() error {
	s.once.Do(func() { close(s.answers) })
	return nil
}

// bareRoundTrip returns what sends agent, hub, computer, hub, agent with nothing
// but WebSockets in between.
func bareRoundTrip(b *testing.B, request, response int) (trip, stop func()) {
	upgrader := websocket.Upgrader{}
	peers := make(chan *websocket.Conn, 2)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		conn, err := upgrader.Upgrade(w, r, nil)
		if err == nil {
			peers <- conn
		}
	}))
	dial := func() (client, peer *websocket.Conn) {
		client, _, err := websocket.DefaultDialer.DialContext(b.Context(), "ws"+strings.TrimPrefix(server.URL, "http"), nil)
		if err != nil {
			b.Fatal(err)
		}
		return client, <-peers
	}
	agentEnd, hubAgent := dial()
	computerEnd, hubComputer := dial()
	done := make(chan struct{}, 3)
	relay := func(from, to *websocket.Conn) {
		defer func() { done <- struct{}{} }()
		for {
			kind, data, err := from.ReadMessage()
			if err != nil {
				return
			}
			if err := to.WriteMessage(kind, data); err != nil {
				return
			}
		}
	}
	go relay(hubAgent, hubComputer)
	go relay(hubComputer, hubAgent)
	go func() {
		defer func() { done <- struct{}{} }()
		answer := make([]byte, response)
		for {
			if _, _, err := computerEnd.ReadMessage(); err != nil {
				return
			}
			if err := computerEnd.WriteMessage(websocket.TextMessage, answer); err != nil {
				return
			}
		}
	}()
	message := make([]byte, request)
	trip = func() {
		if err := agentEnd.WriteMessage(websocket.TextMessage, message); err != nil {
			b.Fatal(err)
		}
		if _, _, err := agentEnd.ReadMessage(); err != nil {
			b.Fatal(err)
		}
	}
	return trip, func() {
		for _, c := range []*websocket.Conn{agentEnd, computerEnd, hubAgent, hubComputer} {
			_ = c.Close()
		}
		for range 3 {
			<-done
		}
		server.Close()
	}
}
