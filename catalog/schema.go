package catalog

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
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
func compileSchema(raw []byte) (c compiled, err error) {
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
	compiler.UseRegexpEngine(func(pattern string) (jsonschema.Regexp, error) {
		re, checked, err := compilePattern(pattern)
		if err == nil && !checked {
			c.unchecked = append(c.unchecked, pattern)
		}
		return re, err
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
	c.schema = schema
	return c, nil
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

// anyText is a pattern that is accepted without a look.
type anyText string

func (anyText) MatchString(string) bool { return true }
func (p anyText) String() string        { return string(p) }

// compilePattern compiles a regular expression of a schema. Those are
// ECMAScript's, of which Go's engine, which no pattern can stall, lacks a part:
// look-around, back-references, large repeats. Such a pattern is not enforced
// by weir (checked is false); the upstream still does.
func compilePattern(pattern string) (re jsonschema.Regexp, checked bool, err error) {
	translated := escapedUnicode.ReplaceAllString(pattern, `$1\x{$2}`)
	compiled, err := regexp.Compile(translated)
	if err == nil {
		return compiled, true, nil
	}
	var se *syntax.Error
	if errors.As(err, &se) {
		switch se.Code {
		case syntax.ErrInvalidPerlOp, syntax.ErrInvalidEscape, syntax.ErrInvalidCharRange,
			syntax.ErrInvalidRepeatSize, syntax.ErrLarge, syntax.ErrInvalidNamedCapture:
			return anyText(pattern), false, nil
		}
	}
	return nil, false, err
}

// escapedUnicode finds \uXXXX, which Go writes \x{XXXX}, behind an even number
// of backslashes.
var escapedUnicode = regexp.MustCompile(`((?:^|[^\\])(?:\\\\)*)\\u([0-9A-Fa-f]{4})`)

// checkSchema says whether a schema is fit to validate with, and what of it is
// not enforced or read differently. Most schemas are seen to be valid by
// plainSchema; only the rest are compiled, which costs a hundred times more.
func checkSchema(raw []byte) (compiled, error) {
	if plainSchema(raw) {
		return compiled{}, nil
	}
	return compileSchema(raw)
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
