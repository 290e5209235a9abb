package agentserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// Func makes a tool from a function. In must be a struct or a map with string keys, and gives the
// input schema. A field's tag `jsonschema:"…"` is its description, and a field with omitempty or
// omitzero is optional. The input is checked against the schema before the call of f. The result is
// sent as JSON text and as structured content; a result that is not an object is wrapped as
// {"result": …} there. An error of f is the tool's failure, and the agent sees its text.
//
// Set other fields of the Tool before you pass it to New. In f, [CallOf] returns the execution with
// its log.
func Func[In, Out any](name, description string, f func(ctx context.Context, in In) (Out, error)) Tool {
	t := Tool{Name: name, Description: description, source: "the program"}
	in, err := jsonschema.For[In](nil)
	if err == nil && in.Type != "object" {
		err = fmt.Errorf("the input of a tool is an object; %T is none", *new(In))
	}
	if err == nil {
		t.InputSchema, err = json.Marshal(in)
	}
	fn := &function[In, Out]{f: f}
	if err == nil {
		t.OutputSchema, fn.wrap, err = outputSchema[Out]()
	}
	if err != nil {
		t.err = fmt.Errorf("tool %q: no schema for its types: %w", name, err)
	}
	t.run = fn
	return t
}

// outputSchema returns the schema of Out, wrapped if Out is not an object.
func outputSchema[Out any]() (schema json.RawMessage, wrap bool, err error) {
	out, err := jsonschema.For[Out](nil)
	if err != nil {
		return nil, false, err
	}
	if schema, err = json.Marshal(out); err != nil || out.Type == "object" {
		return schema, false, err
	}
	if out.Type == "" && len(out.Types) == 0 {
		return nil, false, nil // anything
	}
	return json.RawMessage(`{"type":"object","properties":{"result":` + string(schema) + `},"required":["result"]}`), true, nil
}

// function is a tool that is a Go function.
type function[In, Out any] struct {
	f    func(context.Context, In) (Out, error)
	wrap bool
}

// run implements runner.
func (fn *function[In, Out]) run(ctx context.Context, c *Call) (output, error) {
	var in In
	if err := json.Unmarshal(c.input, &in); err != nil {
		return output{}, &failure{message: fmt.Sprintf("the input does not fit: %v", err), exit: -1}
	}
	out, err := fn.f(context.WithValue(ctx, callKey{}, c), in)
	if err != nil {
		if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
			return output{}, err
		}
		return output{}, &failure{message: err.Error(), exit: -1}
	}
	text, err := marshal(out)
	if err != nil {
		return output{}, &failure{message: fmt.Sprintf("the result cannot be written as JSON: %v", err), exit: -1}
	}
	o := output{text: text, json: text}
	if fn.wrap || !rawjson.IsObject(text) {
		o.json = rawjson.Object("result", text)
	}
	return o, nil
}

// marshal is json.Marshal without HTML escapes.
func marshal(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// reader is a resource that is a Go function.
type reader func(ctx context.Context, uri string, params map[string]string) ([]byte, error)

// run implements runner.
func (f reader) run(ctx context.Context, c *Call) (output, error) {
	var in resourceInput
	if err := json.Unmarshal(c.input, &in); err != nil {
		return output{}, err
	}
	text, err := f(context.WithValue(ctx, callKey{}, c), in.URI, in.Params)
	switch {
	case errors.Is(err, ErrNoResource):
		err = &failure{message: err.Error(), exit: -1, reason: reasonNone}
	case err != nil && ctx.Err() == nil:
		err = &failure{message: err.Error(), exit: -1}
	}
	return output{text: text}, err
}
