package upstream_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/upstream"
)

// A server that is a program: it is started, listed and called. Here it is a
// shell that knows three answers.
func Example() {
	const server = `while read -r line; do case "$line" in
*'"initialize"'*) echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"shell","version":"1"}}}';;
*'"tools/list"'*) echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"greet","description":"Greets.","inputSchema":{"type":"object"}}]}}';;
*'"tools/call"'*) echo '{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"hello"}]}}';;
esac; done`
	live := catalog.NewLive(catalog.New(catalog.Limits{}), catalog.LiveOptions[*catalog.Catalog]{})
	m := upstream.New(upstream.Options{Sink: live, BaseEnv: []string{"PATH=" + os.Getenv("PATH")}})
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	defer m.Close(ctx)

	m.Apply([]*mcpserver.Server{{Name: "shell", Namespace: "shell", Command: "sh", Args: []string{"-c", server}}})
	if err := m.Ready(ctx); err != nil {
		fmt.Println(err)
	}
	for _, e := range live.Snapshot().Entries() {
		fmt.Println(e.Upstream, e.RawName)
	}
	peer, err := m.Peer(ctx, "shell")
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := peer.Call(ctx, "tools/call", []byte(`{"name":"greet"}`), nil)
	fmt.Println(string(result), err)
	// Output:
	// shell greet
	// {"content":[{"type":"text","text":"hello"}]} <nil>
}
