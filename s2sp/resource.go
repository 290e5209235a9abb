package s2sp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/s2sp/plane"
	"github.com/weir-mcp/weir/s2sp/table"
)

const resourceHint = "Returns a table. Set abstract_domains to the columns you need to read to decide, as few as you can, because each costs tokens in every row: " +
	"you get those with a _row_id, and a resource_url through which another tool gets the rest (give that tool the rows you chose as abstract_data, and the resource_url). " +
	"Without abstract_domains all columns of all rows come back."

// ResourceTool makes a tool that returns a table (spec/tables §5). It takes the arguments of In and
// the optional strings abstract_domains and mode. Without abstract_domains it is an ordinary tool:
// it returns all rows without _row_id and stores nothing. With abstract_domains the result has only
// those columns. The body waits behind a resource_url (mode async) or is part of the result (mode
// sync).
//
// f may be called concurrently. Its error becomes the text of a result with isError, so it should
// say how to correct the call. ResourceTool panics on a mistake in the tool itself: a type without a
// schema, or an argument with the name of an S2SP parameter.
func ResourceTool[In any](s *Server, tool Tool, f func(ctx context.Context, in In) (Rows, error)) *ToolHandler {
	schema := inputSchema[In](tool)
	addParam(tool, schema, plane.ParamDomains, "Names of the columns to read, with commas between them or as a JSON array, such as \"event,severity\". Pick as few as possible: the others stay out of your context and go to other tools through resource_url.", "", nil)
	addParam(tool, schema, plane.ParamMode, "Where the other columns go: async (the default) keeps them at this server and returns a resource_url; sync returns them inline as body.", string(plane.Async), []any{string(plane.Async), string(plane.Sync)})
	resolved := resolve(tool, schema)
	return handler(tool, resourceHint, schema, resourceOutput(), func(ctx context.Context, arguments json.RawMessage) (*Result, error) {
		in, err := decode[In](resolved, arguments)
		if err != nil {
			return nil, err
		}
		domains, err := plane.DomainsOf(rawjson.Get(arguments, plane.ParamDomains))
		if err != nil {
			return nil, err
		}
		mode, err := plane.ModeOf(rawjson.Get(arguments, plane.ParamMode))
		if err != nil {
			return nil, err
		}
		rows, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		return s.answer(ctx, tool.Name, rows, domains, mode)
	})
}

// answer writes the result of a resource tool.
func (s *Server) answer(ctx context.Context, name string, rows Rows, domains []string, mode plane.Mode) (*Result, error) {
	if rows.stream != nil && len(domains) > 0 && mode == plane.Async {
		return s.answerStream(ctx, name, rows, domains)
	}
	t, err := rows.load()
	if err != nil {
		return nil, err
	}
	if len(domains) == 0 {
		structured, text := plain(t)
		if rows.single {
			text = t.Row(0)
		}
		return &Result{Text: string(text), Structured: structured}, nil
	}
	resourceURL := ""
	if mode == plane.Async {
		token, err := s.store.Deposit(ctx, principal, name, t, s.opts.TTL)
		if err != nil {
			return nil, fmt.Errorf("keeping %d rows for another server: %w", t.Len(), err)
		}
		resourceURL = plane.URL(s.base, token.Value)
	}
	text := plane.Response(t, domains, mode, resourceURL)
	return &Result{Text: string(text), Structured: text}, nil
}

// plain writes the rows as the tool returned them, twice: as an object with the member result, and
// as only the array, which is a subslice of the same bytes. A _row_id column of the tool's own
// keeps its name.
func plain(t *table.Table) (structured, text []byte) {
	const head = `{"result":`
	data, _ := t.Size()
	out := append(make([]byte, 0, len(head)+int(data)+t.Len()+3), head...)
	out = append(out, '[')
	for i, row := range t.Rows() {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, row...)
	}
	out = append(out, ']', '}')
	return out, out[len(head) : len(out)-1]
}

// load reads a stream into a table.
func (r Rows) load() (*table.Table, error) {
	switch {
	case r.stream != nil:
		b := table.NewBuilder(table.Options{}, nil)
		if err := r.stream(func(row json.RawMessage) error { return b.Append(row) }); err != nil {
			return nil, err
		}
		return b.Table()
	case r.t == nil:
		return table.NewBuilder(table.Options{}, nil).Table()
	}
	return r.t, nil
}

// answerStream writes the rows to the store as they arrive, then reads the answer's columns from
// there.
func (s *Server) answerStream(ctx context.Context, name string, rows Rows, domains []string) (*Result, error) {
	w := s.store.NewTable(principal, name, table.Options{})
	if err := rows.stream(func(row json.RawMessage) error { return errors.Join(ctx.Err(), w.Append(row)) }); err != nil {
		w.Abort()
		return nil, err
	}
	token, err := w.Deposit(s.opts.TTL)
	if err != nil {
		return nil, fmt.Errorf("keeping %d rows for another server: %w", w.Len(), err)
	}
	claim, err := s.store.Claim(ctx, token.Value)
	if err != nil {
		return nil, fmt.Errorf("reading back %d rows: %w", w.Len(), err)
	}
	defer claim.Close() // not spent: the token belongs to the consumer
	t, err := claim.Table(table.DetectOptions{})
	if err != nil {
		return nil, fmt.Errorf("reading back %d rows: %w", w.Len(), err)
	}
	text := plane.Response(t, domains, plane.Async, plane.URL(s.base, token.Value))
	return &Result{Text: string(text), Structured: text}, nil
}

// inputSchema returns the schema of a tool's own arguments. The caller may change it.
func inputSchema[In any](tool Tool) *jsonschema.Schema {
	schema := tool.InputSchema
	if schema == nil {
		var err error
		if schema, err = jsonschema.For[In](nil); err != nil {
			panic(fmt.Sprintf("s2sp: arguments of tool %q: %v", tool.Name, err))
		}
	}
	if schema.Type != "object" {
		panic(fmt.Sprintf("s2sp: arguments of tool %q are no object", tool.Name))
	}
	schema = schema.CloneSchemas()
	schema.Properties = maps.Clone(schema.Properties)
	schema.PropertyOrder = slices.Clone(schema.PropertyOrder)
	if schema.Properties == nil {
		schema.Properties = map[string]*jsonschema.Schema{}
	}
	return schema
}

func addParam(tool Tool, schema *jsonschema.Schema, name, description, otherwise string, enum []any) {
	if schema.Properties[name] != nil {
		panic(fmt.Sprintf("s2sp: tool %q has an argument %q, which is one that S2SP adds: give it another name", tool.Name, name))
	}
	schema.Properties[name] = &jsonschema.Schema{Type: "string", Description: description, Default: rawjson.Quote(otherwise), Enum: enum}
	if len(schema.PropertyOrder) > 0 {
		schema.PropertyOrder = append(schema.PropertyOrder, name)
	}
}

func resolve(tool Tool, schema *jsonschema.Schema) *jsonschema.Resolved {
	resolved, err := schema.Resolve(&jsonschema.ResolveOptions{ValidateDefaults: true})
	if err != nil {
		panic(fmt.Sprintf("s2sp: arguments of tool %q: %v", tool.Name, err))
	}
	return resolved
}

// decode checks arguments against the schema and decodes the tool's own.
func decode[In any](schema *jsonschema.Resolved, arguments json.RawMessage) (In, error) {
	var in In
	var checked map[string]any
	if len(arguments) > 0 {
		if err := json.Unmarshal(arguments, &checked); err != nil {
			return in, fmt.Errorf("arguments: %w", err)
		}
	}
	if checked == nil { // null: some clients send it for no arguments
		checked, arguments = map[string]any{}, nil
	}
	// S2SP parameters are parsed separately, because they are accepted in more forms than the
	// schema should offer: some clients send "" for an omitted parameter, or a list in place of a
	// string.
	without := func(args map[string]any) {
		delete(args, plane.ParamDomains)
		delete(args, plane.ParamMode)
	}
	without(checked)
	if err := schema.ApplyDefaults(&checked); err != nil {
		return in, fmt.Errorf("arguments: %w", err)
	}
	if err := schema.Validate(checked); err != nil {
		return in, fmt.Errorf("arguments: %w", err)
	}
	without(checked)
	// Decode the defaults first, then the original bytes, so that numbers are not rounded.
	defaults, err := json.Marshal(checked)
	if err != nil {
		return in, fmt.Errorf("arguments: %w", err)
	}
	for _, data := range [][]byte{defaults, arguments} {
		if len(data) > 0 {
			if err := json.Unmarshal(data, &in); err != nil {
				return in, fmt.Errorf("arguments: %w", err)
			}
		}
	}
	return in, nil
}

// resourceOutput returns a schema that describes both forms of answer.
func resourceOutput() *jsonschema.Schema {
	rows := func(description string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Description: description, Items: &jsonschema.Schema{Type: "object"}}
	}
	names := func(description string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "array", Description: description, Items: &jsonschema.Schema{Type: "string"}}
	}
	return &jsonschema.Schema{Type: "object", Properties: map[string]*jsonschema.Schema{
		"result":           rows("Without abstract_domains: all rows."),
		"total_rows":       {Type: "integer", Description: "With abstract_domains: how many rows there are."},
		"columns":          names("All columns."),
		"abstract_domains": names("The columns that were asked for."),
		"body_domains":     names("The other columns."),
		"resource_url":     {Type: "string", Description: "Where another server gets the rows, once, for ten minutes. Mode async."},
		"abstract":         rows("The columns asked for, with _row_id."),
		"body":             rows("The other columns, with _row_id. Mode sync."),
		"warnings":         names("What is wrong with the request."),
	}}
}
