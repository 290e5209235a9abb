package catalog

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/limit/work"
)

// schemaURL is the base of schemas, so that relative references stay inside.
const schemaURL = "weir:schema"

// refuseLoader never loads anything: a schema must not make weir open a file or connection. The
// drafts' meta-schemas are built in.
type refuseLoader struct{}

func (refuseLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("remote reference %q is not followed", url)
}

var _ jsonschema.URLLoader = refuseLoader{}

// compiled is a schema ready for validation.
type compiled struct {
	schema    *jsonschema.Schema
	unchecked []string // patterns that are not enforced
	dialect   *string  // the unknown $schema, or nil
}

// compileSchema validates a schema against its meta-schema and compiles it. The draft is 2020-12
// unless $schema names another one that weir knows. enforce converts the patterns in p for the
// compiled schema.
func compileSchema(raw []byte, p *patterns, enforce func(*work.Pattern) jsonschema.Regexp) (c compiled, err error) {
	// A schema is untrusted. If it makes the compiler panic, only that schema fails.
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

// replaceRegexFormat replaces the validator's format "regex" by regexFormat.
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

// dropDialects removes every unknown $schema, so that the schema is read as 2020-12, and returns
// the first. Otherwise a valid schema would fail only because of an unknown dialect.
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

// knownDialect reports whether a URI names a known draft.
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

// errCircular: a schema refers to itself for the same value.
var errCircular = errors.New("$ref leads in a circle")

// circular reports whether a schema refers to itself for every value, so that no value can be
// valid. Validate finds circles that only some values reach, as in the schema of a tree.
func circular(schema *jsonschema.Schema) bool {
	const (
		within = iota + 1 // on the path from the root
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

// checkSchema returns an error if a schema cannot be used, and the parts that are ignored or read
// differently. plainSchema accepts most schemas; only the others are compiled, which costs a
// hundred times more.
func checkSchema(raw []byte) (compiled, error) {
	if plainSchema(raw) {
		return compiled{}, nil
	}
	return compileFree(raw, new(patterns))
}

// compileFree compiles a schema for uncounted validation.
func compileFree(raw []byte, p *patterns) (compiled, error) {
	return compileSchema(raw, p, func(p *work.Pattern) jsonschema.Regexp { return freePattern{p} })
}

// schemaProblem describes a schema's fault in one line.
func schemaProblem(err error) string {
	var invalid *jsonschema.SchemaValidationError
	if errors.As(err, &invalid) {
		var ve *jsonschema.ValidationError
		if errors.As(invalid.Err, &ve) {
			for _, p := range flatten(ve) {
				// The requirement of a keyword is more helpful than the failure of anyOf.
				if p.Keyword != "anyOf" && p.Keyword != "oneOf" {
					return clip(strings.TrimPrefix(p.Path+" "+p.Message, " "), 200)
				}
			}
		}
	}
	return clip(collapse(err.Error()), 200)
}
