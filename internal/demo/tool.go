package demo

import (
	"context"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// resultRows is the structured content of a tool that returns a list: the list under the single
// key "result", as servers in other languages write it.
type resultRows[T any] struct {
	Result []T `json:"result"`
}

// tool is what a model reads of a tool, and its hints.
type tool struct {
	name, title string
	hints       *mcp.ToolAnnotations
	description string
}

// add gives a server a tool that is a function from its arguments to its structured content.
func add[In, Out any](server *mcp.Server, t tool, f func(In) (Out, error), refinements ...refine) {
	mcp.AddTool(server, &mcp.Tool{
		Name: t.name, Title: t.title, Description: t.description, Annotations: t.hints, InputSchema: argumentsOf[In](refinements...),
	}, func(_ context.Context, _ *mcp.CallToolRequest, in In) (*mcp.CallToolResult, Out, error) {
		out, err := f(in)
		return nil, out, err
	})
}

// refine sharpens one property of an inferred schema.
type refine struct {
	path string // property name, or "lines[].quantity" for a property of an array's items
	edit func(*jsonschema.Schema)
}

func oneOf(path string, values ...string) refine {
	return refine{path, func(s *jsonschema.Schema) {
		for _, v := range values {
			s.Enum = append(s.Enum, v)
		}
	}}
}

func between(path string, low, high float64) refine {
	return refine{path, func(s *jsonschema.Schema) { s.Minimum, s.Maximum = &low, &high }}
}

// length bounds a string's characters or an array's items.
func length(path string, low, high int) refine {
	return refine{path, func(s *jsonschema.Schema) {
		if s.Items != nil {
			// Inference says "null or array" for a slice; the tools take an array or nothing.
			s.Type, s.Types = "array", nil
			s.MinItems, s.MaxItems = &low, &high
			return
		}
		s.MinLength, s.MaxLength = &low, &high
	}}
}

func matching(path, pattern string) refine {
	return refine{path, func(s *jsonschema.Schema) { s.Pattern = pattern }}
}

// argumentsOf infers the input schema of a tool from T and refines it. A mistake here is a
// mistake in this package's source and shows at the first start, so it panics.
func argumentsOf[T any](refinements ...refine) *jsonschema.Schema {
	schema, err := jsonschema.For[T](nil)
	if err != nil {
		panic(fmt.Sprintf("demo: arguments of a tool: %v", err))
	}
	for _, r := range refinements {
		property := schema
		for _, step := range splitPath(r.path) {
			if step == "[]" {
				property = property.Items
			} else {
				property = property.Properties[step]
			}
			if property == nil {
				panic(fmt.Sprintf("demo: no argument %q to refine", r.path))
			}
		}
		r.edit(property)
	}
	return schema
}

// splitPath cuts "lines[].sku" into "lines", "[]", "sku".
func splitPath(path string) []string {
	var steps []string
	start := 0
	for i := 0; i <= len(path); i++ {
		switch {
		case i == len(path) || path[i] == '.':
			if i > start {
				steps = append(steps, path[start:i])
			}
			start = i + 1
		case path[i] == '[':
			steps = append(steps, path[start:i], "[]")
			start = i + len("[]")
			i = start - 1
		}
	}
	return steps
}

// The three kinds of tool, told by their hints. None of them reaches past its own data.

func reads() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{ReadOnlyHint: true, IdempotentHint: true, OpenWorldHint: new(false)}
}

func adds() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(false), OpenWorldHint: new(false)}
}

// destroys is for tools that overwrite or remove; repeating one changes nothing more.
func destroys() *mcp.ToolAnnotations {
	return &mcp.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true, OpenWorldHint: new(false)}
}
