package passthrough_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/passthrough"
	"github.com/weir-mcp/weir/mcp"
)

// An MCP server on some URL becomes reachable under a name. In weir, upstreams
// come from a manager: see [passthrough.FromManager].
func Example() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25"}}`)
	}))
	defer server.Close()
	at, err := url.Parse(server.URL + "/mcp")
	if err != nil {
		fmt.Println(err)
		return
	}
	files := &fixed{target: passthrough.Target{URL: at, Version: mcp.V20251125}}

	rt := passthrough.New(passthrough.Options{
		Find:  func(name string) (passthrough.Upstream, bool) { return files, name == "files" },
		Names: func() []string { return []string{"files"} },
		Guard: guard.New(guard.Options{}),
	})
	weir := httptest.NewServer(rt)
	defer weir.Close()
	for _, name := range []string{"files", "flies"} {
		resp, err := http.Post(weir.URL+"/mcps/"+name+"/mcp", "application/json",
			strings.NewReader(`{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-11-25"}}`))
		if err != nil {
			fmt.Println(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		fmt.Println(resp.StatusCode, string(body), err)
	}
	fmt.Println(rt.Shutdown(context.Background()))
	// Output:
	// 200 {"jsonrpc":"2.0","id":"hello","result":{"protocolVersion":"2025-11-25"}} <nil>
	// 404 {"jsonrpc":"2.0","id":"hello","error":{"code":-32601,"message":"Agent 'flies' not found","data":{"agents":["files"],"kind":"not_found"}}} <nil>
	// <nil>
}
