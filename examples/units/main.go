// Command units is an MCP server as its author would write it: one tool, on standard input and
// output, with the official Go SDK. The record of a first run (docs/transcript-go.txt) has it as the
// server that a person already uses.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A length is what the tool takes.
type length struct {
	Kilometres float64 `json:"kilometres" jsonschema:"a distance in kilometres"`
}

func main() {
	server := mcp.NewServer(&mcp.Implementation{Name: "units", Version: "1.0.0"}, nil)
	mcp.AddTool(server, &mcp.Tool{
		Name: "to_miles", Description: "Convert a distance in kilometres to miles.",
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, toMiles)
	if err := server.Run(context.Background(), &mcp.StdioTransport{}); err != nil {
		log.Fatal(err)
	}
}

func toMiles(_ context.Context, _ *mcp.CallToolRequest, in length) (*mcp.CallToolResult, any, error) {
	text := fmt.Sprintf("%g km are %.2f miles", in.Kilometres, in.Kilometres/1.609344)
	return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: text}}}, nil, nil
}
