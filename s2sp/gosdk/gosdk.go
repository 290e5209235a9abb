package gosdk

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp"
)

// Add adds tools to a server. The data plane of the tools must stay open while the server runs. Add
// panics if the SDK cannot read a definition, for example because of its annotations.
func Add(server *mcp.Server, tools ...*s2sp.ToolHandler) {
	for _, tool := range tools {
		definition := tool.Definition()
		var described mcp.Tool
		if err := json.Unmarshal(definition, &described); err != nil {
			panic(fmt.Sprintf("gosdk: definition of a tool: %v", err))
		}
		// The raw schemas keep the order of the arguments; decoded ones are sorted by name.
		described.InputSchema = json.RawMessage(rawjson.Get(definition, "inputSchema"))
		described.OutputSchema = json.RawMessage(rawjson.Get(definition, "outputSchema"))
		server.AddTool(&described, func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
			result, err := tool.Call(ctx, req.Params.Arguments)
			if err != nil {
				return nil, err
			}
			return convert(result)
		})
	}
}

// convert returns a result in the types of the SDK. Only the blocks after the text are decoded.
func convert(r *s2sp.Result) (*mcp.CallToolResult, error) {
	out := &mcp.CallToolResult{IsError: r.IsError}
	if len(r.More) > 0 {
		more, err := json.Marshal(struct {
			Content []json.RawMessage `json:"content"`
		}{r.More})
		if err != nil {
			return nil, fmt.Errorf("content of the result: %w", err)
		}
		if err := json.Unmarshal(more, out); err != nil {
			return nil, fmt.Errorf("content of the result: %w", err)
		}
	}
	if r.Text != "" || len(r.More) == 0 {
		out.Content = append([]mcp.Content{&mcp.TextContent{Text: r.Text}}, out.Content...)
	}
	if r.Structured != nil {
		out.StructuredContent = r.Structured
	}
	return out, nil
}
