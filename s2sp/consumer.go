package s2sp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
)

const consumerHint = "Takes rows of a table that another tool returned: give the rows you chose from its abstract, with their _row_id, as abstract_data, and its resource_url; or, if it returned body, the body of these rows as body_data. " +
	"The other columns are fetched and merged here."

// AddConsumerTool adds a tool that takes a table (spec/tables §6). The tool has four string
// parameters: abstract_data, resource_url, body_data and column_mapping. f is called with the
// merged rows and returns the text of the result. f may be called concurrently. Its error becomes
// the text of a result with isError.
func AddConsumerTool(s *Server, tool Tool, f func(ctx context.Context, rows Rows) (string, error)) {
	AddConsumerResultTool(s, tool, func(ctx context.Context, rows Rows) (*mcp.CallToolResult, error) {
		text, err := f(ctx, rows)
		if err != nil {
			return nil, err
		}
		return &mcp.CallToolResult{
			Content:           []mcp.Content{&mcp.TextContent{Text: text}},
			StructuredContent: json.RawMessage(append(rawjson.AppendString([]byte(`{"result":`), text), '}')),
		}, nil
	})
}

// AddConsumerResultTool adds a consumer tool that returns more than text, such as a picture. If f
// sets no StructuredContent, it is set to an object with the number of rows.
func AddConsumerResultTool(s *Server, tool Tool, f func(ctx context.Context, rows Rows) (*mcp.CallToolResult, error)) {
	if tool.InputSchema != nil {
		panic(fmt.Sprintf("s2sp: consumer tool %q has arguments of its own: all that it takes are rows", tool.Name))
	}
	schema := &jsonschema.Schema{
		Type:                 "object",
		Properties:           map[string]*jsonschema.Schema{},
		Required:             []string{plane.ParamAbstract},
		PropertyOrder:        []string{plane.ParamAbstract},
		AdditionalProperties: &jsonschema.Schema{Not: &jsonschema.Schema{}},
	}
	schema.Properties[plane.ParamAbstract] = &jsonschema.Schema{Type: "string", Description: "JSON array of the rows to use, as the resource tool's abstract has them, each with its _row_id."}
	addParam(tool, schema, plane.ParamURL, "The resource_url that the resource tool returned (mode async). It works once.", "", nil)
	addParam(tool, schema, plane.ParamBody, "JSON array of the body of these rows, each with its _row_id (mode sync).", "", nil)
	addParam(tool, schema, plane.ParamMapping, "JSON object that renames columns, {\"old\": \"new\"}, before the tool sees them.", "", nil)
	resolved := resolve(tool, schema)
	output := &jsonschema.Schema{Type: "object"}
	s.mcp.AddTool(describe(tool, consumerHint, schema, output), func(ctx context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
		in, err := decode[plane.Input](resolved, req.Params.Arguments)
		if err != nil {
			return failed(err), nil
		}
		t, err := plane.Resolve(ctx, in, s.fetcher)
		var answer *mcp.CallToolResult
		if err == nil {
			answer, err = f(ctx, RowsFromTable(t))
		}
		switch {
		case err != nil && ctx.Err() != nil:
			return nil, ctx.Err()
		case err != nil:
			return failed(err), nil
		}
		if answer.StructuredContent == nil {
			answer.StructuredContent = json.RawMessage(fmt.Sprintf(`{"rows":%d}`, t.Len()))
		}
		return answer, nil
	})
}
