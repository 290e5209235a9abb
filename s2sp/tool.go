package s2sp

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Tool describes a tool to a model.
type Tool struct {
	Name        string
	Title       string
	Description string
	// Annotations is encoded as the tool's annotations. It may be a value of any library, such as
	// the *mcp.ToolAnnotations of the official Go SDK, or raw JSON. Nil means none.
	Annotations any
	// InputSchema describes the tool's own arguments; nil infers it from the type. The parameters
	// of S2SP are added either way.
	InputSchema *jsonschema.Schema
}

// ToolHandler serves one tool. It is safe for concurrent use. Package s2sp/gosdk adds it to a
// server of the official Go SDK. Any other server lists its Definition and answers tools/call with
// Call.
type ToolHandler struct {
	definition json.RawMessage
	call       func(ctx context.Context, arguments json.RawMessage) (*Result, error)
}

// Definition returns the tool's entry in the result of tools/list. The caller must not change it.
func (h *ToolHandler) Definition() json.RawMessage { return h.definition }

// Call runs the tool. arguments are the raw arguments of tools/call; nil means none. A failure of
// the tool is a Result with IsError. The error is the one of ctx, after which there is no answer.
func (h *ToolHandler) Call(ctx context.Context, arguments json.RawMessage) (*Result, error) {
	result, err := h.call(ctx, arguments)
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return &Result{Text: err.Error(), IsError: true}, nil
}

// Result is the result of a tool call. It encodes to the JSON that tools/call returns.
type Result struct {
	// Text is the first content block, for the model. An empty Text is left out if there are More.
	Text string
	// More are the content blocks after Text, as JSON, such as a picture.
	More []json.RawMessage
	// Structured is the structuredContent, a JSON object, or nil.
	Structured json.RawMessage
	IsError    bool
}

// MarshalJSON implements json.Marshaler.
func (r *Result) MarshalJSON() ([]byte, error) {
	w := rawjson.NewWriter(make([]byte, 0, len(r.Text)+len(r.Text)/8+len(r.Structured)+96))
	w.Object().Key("content").Array()
	if r.hasText() {
		w.Object().Key("type").String("text").Key("text").String(r.Text).EndObject()
	}
	for _, block := range r.More {
		w.Raw(block)
	}
	w.EndArray()
	if r.Structured != nil {
		w.Key("structuredContent").Raw(r.Structured)
	}
	if r.IsError {
		w.Key("isError").Bool(true)
	}
	return w.EndObject().Bytes(), nil
}

func (r *Result) hasText() bool { return r.Text != "" || len(r.More) == 0 }

// handler writes the definition of a tool. A definition that does not encode is a mistake in the
// caller's source, so it panics.
func handler(tool Tool, hint string, input, output *jsonschema.Schema, call func(context.Context, json.RawMessage) (*Result, error)) *ToolHandler {
	definition, err := json.Marshal(struct {
		Name        string             `json:"name"`
		Title       string             `json:"title,omitempty"`
		Description string             `json:"description"`
		Input       *jsonschema.Schema `json:"inputSchema"`
		Output      *jsonschema.Schema `json:"outputSchema"`
		Annotations any                `json:"annotations,omitempty"`
	}{
		Name: tool.Name, Title: tool.Title, Input: input, Output: output, Annotations: tool.Annotations,
		Description: strings.TrimSpace(strings.TrimSpace(tool.Description) + "\n\n" + hint),
	})
	if err != nil {
		panic(fmt.Sprintf("s2sp: definition of tool %q: %v", tool.Name, err))
	}
	return &ToolHandler{definition: definition, call: call}
}
