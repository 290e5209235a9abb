package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/work"
)

// schemaURL is the base of schemas, so that relative references stay inside.
const schemaURL = "weir:schema"

// refuseLoader loads nothing: a schema never makes weir open a file or a
// connection. Meta-schemas of the drafts are built in and not asked for here.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("remote reference %q is not followed", url)
}

var _ jsonschema.URLLoader = refuseLoader{}

// compiled is a schema ready to validate with.
type compiled struct {
	schema    *jsonschema.Schema
	unchecked []string // patterns that are accepted without a look
	dialect   *string  // what $schema names and weir does not know, or nil
}

// compileSchema checks a schema against its meta-schema, 2020-12 unless $schema
// names another draft that weir knows, and compiles it.
// Its patterns are put into it as enforce makes them of p's.
func compileSchema(raw []byte, p *patterns, enforce func(*work.Pattern) jsonschema.Regexp) (c compiled, err error) {
	// The schema is an upstream's. Whatever it does to the compiler is its own
	// failure and no reason for the process to end.
	defer func() {
		if p := recover(); p != nil {
			c, err = compiled{}, fmt.Errorf("schema cannot be compiled: %v", p)
		}
	}()
	doc, err := decode(raw, lastKeyWins)
	if err != nil {
		return compiled{}, err
	}
	switch doc.(type) {
	case map[string]any, bool:
	default:
		return compiled{}, fmt.Errorf("a schema is an object, not %s", kindOf(raw))
	}
	c.dialect = dropDialects(doc)
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.UseLoader(refuseLoader{})
	compiler.UseRegexpEngine(func(text string) (jsonschema.Regexp, error) {
		pattern, err := p.get(text)
		switch {
		case err != nil:
			return nil, err
		case pattern == nil:
			return anyText(text), nil
		}
		return enforce(pattern), nil
	})
	if err := compiler.AddResource(schemaURL, doc); err != nil {
		return compiled{}, err
	}
	schema, err := compiler.Compile(schemaURL)
	if err != nil {
		return compiled{}, err
	}
	if circular(schema) {
		return compiled{}, errCircular
	}
	replaceRegexFormat(schema, map[*jsonschema.Schema]bool{})
	c.schema, c.unchecked = schema, p.unchecked
	return c, nil
}

// replaceRegexFormat puts regexFormat in the place of the validator's own.
func replaceRegexFormat(s *jsonschema.Schema, seen map[*jsonschema.Schema]bool) {
	if seen[s] {
		return
	}
	seen[s] = true
	if s.Format != nil && s.Format.Name == regexFormat.Name {
		s.Format = regexFormat
	}
	eachEdge(s, func(_ edge, sub *jsonschema.Schema) *jsonschema.Schema {
		replaceRegexFormat(sub, seen)
		return sub
	})
}

// dropDialects takes every $schema out of a schema that names a dialect weir does
// not know, so that the schema is read as 2020-12, and returns the first name.
// Without it a sound schema could not be called for the name of its dialect alone.
func dropDialects(doc any) (first *string) {
	note := func(name *string) {
		if first == nil {
			first = name
		}
	}
	switch doc := doc.(type) {
	case map[string]any:
		if name, ok := doc["$schema"].(string); ok && !knownDialect(name) {
			note(&name)
			delete(doc, "$schema")
		}
		for _, key := range slices.Sorted(maps.Keys(doc)) {
			switch key {
			case "const", "enum", "default", "examples": // values, not schemas
			default:
				note(dropDialects(doc[key]))
			}
		}
	case []any:
		for _, v := range doc {
			note(dropDialects(v))
		}
	}
	return first
}

// knownDialect reports whether a URI is that of a draft.
func knownDialect(uri string) bool {
	uri = strings.TrimSuffix(uri, "#")
	uri, ok := strings.CutPrefix(uri, "https://")
	if !ok {
		uri, ok = strings.CutPrefix(uri, "http://")
	}
	switch uri {
	case "json-schema.org/schema", "json-schema.org/draft/2020-12/schema", "json-schema.org/draft/2019-09/schema",
		"json-schema.org/draft-07/schema", "json-schema.org/draft-06/schema", "json-schema.org/draft-04/schema":
		return ok
	}
	return false
}

// errCircular: what a schema says of a value is what it says of that value.
var errCircular = errors.New("$ref leads in a circle")

// circular reports whether every value leads schema back to itself, so that it
// can accept none. A circle that only some values reach, as in the schema of a
// tree, is for Validate to find.
func circular(schema *jsonschema.Schema) bool {
	const (
		within = iota + 1 // on the way from the root to here
		done
	)
	state := map[*jsonschema.Schema]int{}
	var walk func(*jsonschema.Schema) bool
	walk = func(s *jsonschema.Schema) bool {
		if s == nil || state[s] != 0 {
			return s != nil && state[s] == within
		}
		state[s] = within
		if walk(s.Ref) || slices.ContainsFunc(s.AllOf, walk) {
			return true
		}
		state[s] = done
		return false
	}
	return walk(schema)
}

// checkSchema says whether a schema is fit to validate with, and what of it is
// not enforced or read differently. Most schemas are seen to be valid by
// plainSchema; only the rest are compiled, which costs a hundred times more.
func checkSchema(raw []byte) (compiled, error) {
	if plainSchema(raw) {
		return compiled{}, nil
	}
	return compileFree(raw, new(patterns))
}

// compileFree compiles a schema for validation that is not counted.
func compileFree(raw []byte, p *patterns) (compiled, error) {
	return compileSchema(raw, p, func(p *work.Pattern) jsonschema.Regexp { return freePattern{p} })
}

// schemaProblem says in one line what is wrong with a schema.
func schemaProblem(err error) string {
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var ve *jsonschema.ValidationError
		if errors.As(invalid.Err, &ve) {
			for _, p := range flatten(ve) {
				// What a keyword must be says more than that no branch of the
				// meta-schema took it.
				if p.Keyword != "anyOf" && p.Keyword != "oneOf" {
					return clip(strings.TrimPrefix(p.Path+" "+p.Message, " "), 200)
				}
			}
		}
	}
	return clip(collapse(err.Error()), 200)
}
