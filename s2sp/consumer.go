package s2sp

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
)

const consumerHint = "Takes rows of a table that another tool returned: give the rows you chose from its abstract, with their _row_id, as abstract_data, and its resource_url; or, if it returned body, the body of these rows as body_data. " +
	"The other columns are fetched and merged here."

// ConsumerTool makes a tool that takes a table (spec/tables §6). The tool has four string
// parameters: abstract_data, resource_url, body_data and column_mapping. f is called with the
// merged rows and returns the text of the result. f may be called concurrently. Its error becomes
// the text of a result with isError.
func ConsumerTool(s *Server, tool Tool, f func(ctx context.Context, rows Rows) (string, error)) *ToolHandler {
	return ConsumerResultTool(s, tool, func(ctx context.Context, rows Rows) (*Result, error) {
		text, err := f(ctx, rows)
		if err != nil {
			return nil, err
		}
		return &Result{Text: text, Structured: append(rawjson.AppendString([]byte(`{"result":`), text), '}')}, nil
	})
}

// ConsumerResultTool makes a consumer tool that returns more than text, such as a picture. If f
// sets no Structured, it is set to an object with the number of rows.
func ConsumerResultTool(s *Server, tool Tool, f func(ctx context.Context, rows Rows) (*Result, error)) *ToolHandler {
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
	return handler(tool, consumerHint, schema, &jsonschema.Schema{Type: "object"}, func(ctx context.Context, arguments json.RawMessage) (*Result, error) {
		in, err := decode[plane.Input](resolved, arguments)
		if err != nil {
			return nil, err
		}
		t, warnings, err := plane.Resolve(ctx, in, s.fetcher)
		if err != nil {
			return nil, err
		}
		result, err := f(ctx, RowsFromTable(t))
		if err != nil {
			return nil, err
		}
		for _, w := range warnings {
			result.More = append(result.More, append(rawjson.AppendString([]byte(`{"type":"text","text":`), "warning: "+w), '}'))
		}
		if result.Structured == nil {
			result.Structured = fmt.Appendf(nil, `{"rows":%d}`, t.Len())
		}
		return result, nil
	})
}
