package computer_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/smcp/computer"
)

// A Computer is made of a configuration and works without a hub; Connect joins
// one.
func Example() {
	c, err := computer.New(computer.Options{Name: "desk"})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = c.Close(context.Background()) }()
	file, err := computer.Parse("mcp.json", []byte(`{"mcpServers":{"excel":{"command":"excel-mcp","disabled":true}}}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := c.Load(context.Background(), file); err != nil {
		fmt.Println(err)
		return
	}
	for _, h := range c.Health() {
		fmt.Println(h.Name, h.State)
	}
	fmt.Println(string(c.Call(context.Background(), smcp.ToolCall{ToolName: "sum", Params: json.RawMessage(`{}`)})))
	// Output:
	// excel disabled
	// {"content":[{"type":"text","text":"there is no tool \"sum\" on this Computer; client:get_tools lists those it has"}],"isError":true}
}
