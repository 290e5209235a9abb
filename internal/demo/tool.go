package demo

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp"
)

// resultRows is the structured content of a tool that returns a list: the list under the single
// key "result", as servers in other languages write it.
type resultRows[T any] struct {
	Result []T `json:"result"`
}

// tool has the texts of a tool for a model, and its hints.
type tool struct {
	name, title string
	hints       hints
	description string
}

// typedTool is a tool that is a function from its arguments to its structured content. It
// implements toolHandler.
type typedTool[In, Out any] struct {
	definition json.RawMessage
	arguments  *jsonschema.Resolved
	f          func(In) (Out, error)
	// text writes the result for the model; nil writes the structured content as JSON.
	text func(Out) any
}

// add gives a server a tool that is a function from its arguments to its structured content. A
// mistake here is a mistake in this package's source and shows at the first start, so it panics.
func add[In, Out any](s *server, t tool, f func(In) (Out, error), refinements ...refine) {
	s.addTool(newTool(t, f, nil, refinements...))
}

// addList gives a server a tool that returns a list. The text is the bare JSON array, and the
// structured content has it under "result", as servers in other languages write it.
func addList[In, T any](s *server, t tool, f func(In) ([]T, error), refinements ...refine) {
	s.addTool(newTool(t, func(in In) (resultRows[T], error) {
		rows, err := f(in)
		return resultRows[T]{rows}, err
	}, func(out resultRows[T]) any { return out.Result }, refinements...))
}

func newTool[In, Out any](t tool, f func(In) (Out, error), text func(Out) any, refinements ...refine) *typedTool[In, Out] {
	input := argumentsOf[In](refinements...)
	output, err := jsonschema.For[Out](nil)
	if err != nil {
		panic(fmt.Sprintf("demo: result of %s: %v", t.name, err))
	}
	resolved, err := input.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(fmt.Sprintf("demo: arguments of %s: %v", t.name, err))
	}
	definition, err := json.Marshal(struct {
		Name        string             `json:"name"`
		Title       string             `json:"title"`
		Description string             `json:"description"`
		Input       *jsonschema.Schema `json:"inputSchema"`
		Output      *jsonschema.Schema `json:"outputSchema"`
		Annotations hints              `json:"annotations"`
	}{t.name, t.title, t.description, input, output, t.hints})
	if err != nil {
		panic(fmt.Sprintf("demo: definition of %s: %v", t.name, err))
	}
	return &typedTool[In, Out]{definition: definition, arguments: resolved, f: f, text: text}
}

// Definition implements toolHandler.
func (t *typedTool[In, Out]) Definition() json.RawMessage { return t.definition }

// Call implements toolHandler.
func (t *typedTool[In, Out]) Call(_ context.Context, arguments json.RawMessage) (*s2sp.Result, error) {
	result, err := t.call(arguments)
	if err != nil {
		return &s2sp.Result{Text: err.Error(), IsError: true}, nil
	}
	return result, nil
}

func (t *typedTool[In, Out]) call(arguments json.RawMessage) (*s2sp.Result, error) {
	var in In
	if !rawjson.IsObject(arguments) && len(arguments) > 0 && string(arguments) != "null" {
		return nil, fmt.Errorf("validating \"arguments\": they must be an object")
	}
	checked := map[string]any{}
	if rawjson.IsObject(arguments) {
		if err := json.Unmarshal(arguments, &checked); err != nil {
			return nil, fmt.Errorf("validating \"arguments\": %w", err)
		}
	}
	if err := t.arguments.Validate(checked); err != nil {
		return nil, fmt.Errorf("validating \"arguments\": %w", err)
	}
	if len(checked) > 0 {
		if err := json.Unmarshal(arguments, &in); err != nil {
			return nil, fmt.Errorf("validating \"arguments\": %w", err)
		}
	}
	out, err := t.f(in)
	if err != nil {
		return nil, err
	}
	structured, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("writing the result: %w", err)
	}
	text := structured
	if t.text != nil {
		if text, err = json.Marshal(t.text(out)); err != nil {
			return nil, fmt.Errorf("writing the result: %w", err)
		}
	}
	return &s2sp.Result{Text: string(text), Structured: structured}, nil
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

// hints are a tool's annotations. None of the tools reaches past its own data, so openWorldHint is
// always false.
type hints struct {
	ReadOnly    bool  `json:"readOnlyHint,omitempty"`
	Destructive *bool `json:"destructiveHint,omitempty"`
	Idempotent  bool  `json:"idempotentHint,omitempty"`
	OpenWorld   bool  `json:"openWorldHint"`
}

// reads is for tools that change nothing.
func reads() hints { return hints{ReadOnly: true, Idempotent: true} }

// adds is for tools that create something and overwrite nothing.
func adds() hints { return hints{Destructive: new(false)} }

// destroys is for tools that overwrite or remove; repeating one changes nothing more.
func destroys() hints { return hints{Destructive: new(true), Idempotent: true} }
