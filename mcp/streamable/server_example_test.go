package streamable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// recorder is a response without a connection.
type recorder struct{ *httptest.ResponseRecorder }

func newRecorder() recorder { return recorder{httptest.NewRecorder()} }

func (recorder) request(body string) *http.Request {
	r := httptest.NewRequest("POST", "/", strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	return r
}

// A server of one method, for both eras, behind a guard.
func ExampleServer() {
	s := streamable.NewServer(streamable.ServerOptions{Handler: &mcp.Lifecycle{
		ServerInfo:   json.RawMessage(`{"name":"hello","version":"1"}`),
		Capabilities: func(*mcp.Request) json.RawMessage { return json.RawMessage(`{"tools":{}}`) },
		Next: mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			if r.Method != "tools/list" {
				return nil, mcp.MethodNotFound(r.Method)
			}
			return json.RawMessage(`{"tools":[]}`), nil
		}),
	}})
	hs := httptest.NewServer(guard.New(guard.Options{}).Wrap(s))
	defer hs.Close()
	defer func() { _ = s.Shutdown(context.Background()) }()

	req, err := http.NewRequest("POST", hs.URL, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{
		"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2026-07-28")
	req.Header.Set("Mcp-Method", "tools/list")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body), err)
	// Output: 200 OK {"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","tools":[],"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"hello","version":"1"}}}} <nil>
}
