package fakemcp_test

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/weir-mcp/weir/internal/testkit/fakemcp"
)

// A server is made from a Config and served on any transport; here on two streams.
func Example() {
	server, err := fakemcp.New(fakemcp.Config{Bare: true, Tools: 1, Versions: []string{"2025-11-25"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer server.Close()
	in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"tool_0000","arguments":{"text":"hello"}}}
`)
	if err := server.ServeStdio(context.Background(), in, os.Stdout); err != nil {
		fmt.Println(err)
	}
	fmt.Println(server.Events())
	// Output:
	// {"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true},"logging":{}},"serverInfo":{"name":"fakemcp","version":"1"}}}
	// {"jsonrpc":"2.0","id":2,"result":{"content":[{"type":"text","text":"hello"}]}}
	// [initialize 2025-11-25 input closed]
}
