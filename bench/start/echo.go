package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// echo serves MCP with one tool that costs nothing but its call.
type echo struct {
	mcp  *streamable.Server
	http *httptest.Server
}

func newEcho() *echo {
	e := &echo{mcp: streamable.NewServer(streamable.ServerOptions{Handler: &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"echo","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
		Next: mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			switch r.Method {
			case "tools/list":
				return json.RawMessage(`{"tools":[{"name":"echo","description":"says hello","inputSchema":{"type":"object"}}]}`), nil
			case "tools/call":
				return json.RawMessage(`{"content":[{"type":"text","text":"hello"}]}`), nil
			}
			return nil, mcp.MethodNotFound(r.Method)
		}),
	}})}
	e.http = httptest.NewServer(http.Handler(e.mcp))
	return e
}

// config is a configuration with this server.
func (e *echo) config() []byte {
	text, err := json.Marshal(map[string]any{"mcpServers": map[string]any{"echo": map[string]string{"url": e.http.URL + "/mcp"}}})
	if err != nil {
		panic(err) // cannot happen: it has only texts
	}
	return text
}

func (e *echo) close() {
	_ = e.mcp.Shutdown(context.Background())
	e.http.Close()
}
