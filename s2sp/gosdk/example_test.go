package gosdk_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/s2sp"
	"github.com/weir-mcp/weir/s2sp/gosdk"
)

// A server with a tool that returns a table and one that takes one.
func Example() {
	server := mcp.NewServer(&mcp.Implementation{Name: "shop", Version: "1"}, nil)
	s, err := s2sp.New(s2sp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	type order struct {
		Item  string `json:"item"`
		Cents int    `json:"cents"`
		Note  string `json:"note"`
	}
	list := s2sp.ResourceTool(s, s2sp.Tool{Name: "list_orders", Description: "List the orders."},
		func(context.Context, struct{}) (s2sp.Rows, error) {
			return s2sp.RowsOf([]order{{"tea", 350, "a long note"}, {"cup", 900, "a longer one"}})
		})
	add := s2sp.ConsumerTool(s, s2sp.Tool{Name: "add_up", Description: "Add up the prices."},
		func(_ context.Context, rows s2sp.Rows) (string, error) {
			sum := 0.0
			for _, row := range rows.All() {
				cents, _ := row.Number("cents")
				sum += cents
			}
			return fmt.Sprintf("%d orders, %.2f", rows.Len(), sum/100), nil
		})
	gosdk.Add(server, list, add)

	// What an agent does: it reads one column, and hands the rest on.
	here, there := mcp.NewInMemoryTransports()
	ss, err := server.Connect(context.Background(), there, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = ss.Wait() }()
	agent, err := mcp.NewClient(&mcp.Implementation{Name: "agent", Version: "1"}, nil).Connect(context.Background(), here, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer agent.Close()
	result, err := agent.CallTool(context.Background(), &mcp.CallToolParams{Name: "list_orders", Arguments: map[string]any{"abstract_domains": "item"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	var seen struct {
		Abstract    json.RawMessage `json:"abstract"`
		ResourceURL string          `json:"resource_url"`
	}
	if err := json.Unmarshal([]byte(result.Content[0].(*mcp.TextContent).Text), &seen); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(seen.Abstract))
	result, err = agent.CallTool(context.Background(), &mcp.CallToolParams{Name: "add_up", Arguments: map[string]any{"abstract_data": string(seen.Abstract), "resource_url": seen.ResourceURL}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Content[0].(*mcp.TextContent).Text)
	// Output:
	// [{"_row_id":0,"item":"tea"},{"_row_id":1,"item":"cup"}]
	// 2 orders, 12.50
}
