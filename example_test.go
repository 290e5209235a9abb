package weir_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"net/http"
	"time"

	"github.com/weir-mcp/weir"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// This program listens, serves a gateway and shuts down in order. Its servers would be listed in
// mcpServers.
func Example() {
	ctx := context.Background()
	c, err := weir.Parse(".mcp.json", []byte(`{"mcpServers": {}}`))
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // net.Listen("tcp", c.Listen()) at the configuration's address
	if err != nil {
		log.Fatal(err)
	}
	g, err := weir.New(ctx, c, weir.Options{URL: "http://" + l.Addr().String()})
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: g, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(l)

	client, err := streamable.Dial(ctx, streamable.ClientOptions{URL: "http://" + l.Addr().String() + "/mcp", Name: "weir", ProtocolVersion: mcp.V20260728})
	if err != nil {
		log.Fatal(err)
	}
	raw, err := client.Call(ctx, "tools/list", json.RawMessage(`{}`), nil)
	if err != nil {
		log.Fatal(err)
	}
	var list struct{ Tools []struct{ Name string } }
	if err := json.Unmarshal(raw, &list); err != nil {
		log.Fatal(err)
	}
	for _, tool := range list.Tools {
		fmt.Println(tool.Name)
	}
	client.Close()

	if err := g.Shutdown(ctx); err != nil { // calls have ended, then
		log.Fatal(err)
	}
	if err := server.Shutdown(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// tool_browse
	// tool_execute
	// tool_view
}
