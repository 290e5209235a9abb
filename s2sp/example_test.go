package s2sp_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/weir-mcp/weir/s2sp"
	"github.com/weir-mcp/weir/s2sp/table"
)

var tableOptions = table.Options{}

// A tool that returns a table and one that takes one, without an MCP library. A server lists
// their definitions and answers tools/call with Call.
func Example() {
	s, err := s2sp.New(s2sp.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	type order struct {
		Item  string `json:"item"`
		Cents int    `json:"cents"`
	}
	list := s2sp.ResourceTool(s, s2sp.Tool{Name: "list_orders", Description: "List the orders."},
		func(context.Context, struct{}) (s2sp.Rows, error) {
			return s2sp.RowsOf([]order{{"tea", 350}, {"cup", 900}})
		})
	count := s2sp.ConsumerTool(s, s2sp.Tool{Name: "count", Description: "Count the orders."},
		func(_ context.Context, rows s2sp.Rows) (string, error) {
			return fmt.Sprintf("%d orders with %q", rows.Len(), rows.Columns()), nil
		})

	// The agent reads one column, and passes the URL of the others on.
	result, err := list.Call(context.Background(), json.RawMessage(`{"abstract_domains":"item"}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	var seen struct {
		Abstract    json.RawMessage `json:"abstract"`
		ResourceURL string          `json:"resource_url"`
	}
	if err := json.Unmarshal(result.Structured, &seen); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(string(seen.Abstract))
	arguments, err := json.Marshal(map[string]string{"abstract_data": string(seen.Abstract), "resource_url": seen.ResourceURL})
	if err != nil {
		fmt.Println(err)
		return
	}
	if result, err = count.Call(context.Background(), arguments); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(result.Text)
	// Output:
	// [{"_row_id":0,"item":"tea"},{"_row_id":1,"item":"cup"}]
	// 2 orders with ["_row_id" "item" "cents"]
}
