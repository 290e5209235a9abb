package streamable

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"

	"github.com/weir-mcp/weir/mcp"
)

// A client finds out by itself which era the server speaks. What the server
// tells during a call goes to the call's back, before the result is there.
func ExampleDial() {
	server := httptest.NewServer(&fake{})
	defer server.Close()
	ctx := context.Background()

	c, err := Dial(ctx, ClientOptions{URL: server.URL, ClientInfo: json.RawMessage(`{"name":"me","version":"1"}`)})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
		fmt.Println("meanwhile:", r.Method)
		return nil, mcp.MethodNotFound(r.Method)
	})
	result, err := c.Call(ctx, "tools/list", nil, back)
	fmt.Println(c.Hello().Version, string(result), err)
	// Output: 2025-11-25 {} <nil>
}
