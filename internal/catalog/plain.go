package catalog

import (
	"bytes"
	"strings"

	"github.com/weir-mcp/weir/internal/text/lazy"
)

// plainSchema reports that a common kind of schema is valid: usual keywords, no ids and anchors,
// references into its own $defs only, 2020-12 or draft-07. If it returns false, the caller must
// compile the schema to decide. It must never return true for a schema that does not compile.
func plainSchema(raw []byte) bool {
	p := plainCheck{root: raw}
	return kindOf(raw) == "object" && p.schema(raw, 0)
}

// plainDepth is the maximum nesting of a plain schema.
const plainDepth = 64

type plainCheck struct {
	root []byte
	refs []string // references that must exist

	instructions int64 // of all patterns
}

func (p *plainCheck) schema(raw []byte, depth int) bool {
	if depth > plainDepth {
		return false
	}
	switch string(raw) {
	case "true", "false":
		return true
	}
	valid := true
	return members(raw, func(key, value []byte) bool {
		valid = p.keyword(key, value, depth)
		return valid
	}) && valid
}

func (p *plainCheck) keyword(key, value []byte, depth int) bool {
	switch string(key) {
	case "type":
		return plainType(value)
	case "properties", "$defs", "definitions":
		valid := true
		return members(value, func(_, v []byte) bool {
			valid = p.schema(v, depth+1)
			return valid
		}) && valid
	case "items", "additionalProperties", "not", "if", "then", "else":
		return p.schema(value, depth+1)
	case "anyOf", "oneOf", "allOf":
		if depth == 0 && string(key) == "allOf" && bytes.ContainsAny(value, `$\`) {
			return false // a $ref in there may form a circle
		}
		n, valid := 0, true
		return elements(value, func(v []byte) bool {
			n++
			valid = p.schema(v, depth+1)
			return valid
		}) && valid && n > 0
	case "required":
		return plainNames(value)
	case "enum", "examples":
		return value[0] == '[' && plainValue(value, depth)
	case "const", "default":
		return plainValue(value, depth)
	case "title", "description", "$comment":
		return value[0] == '"'
	case "format":
		// draft-07 asserts formats. The compiler decides which ones exist; any string compiles.
		return value[0] == '"'
	case "deprecated", "readOnly", "writeOnly", "uniqueItems":
		return string(value) == "true" || string(value) == "false"
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
		return plainNumber().Match(value)
	case "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties":
		return plainCount().Match(value)
	case "pattern":
		s, ok := stringOf(value)
		if !ok {
			return false
		}
		n, err := patternSize(s)
		p.instructions += n
		return err == nil && p.instructions <= maxSchemaInstructions
	case "$ref":
		return depth > 0 && p.ref(value) // a reference at the root may form a circle
	case "$schema":
		return depth == 0 && plainDialect(value)
	case "id", "$id", "$anchor", "$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef", "$vocabulary",
		"prefixItems", "contains", "minContains", "maxContains", "additionalItems", "unevaluatedItems",
		"patternProperties", "propertyNames", "unevaluatedProperties", "dependencies", "dependentSchemas",
		"dependentRequired", "contentEncoding", "contentMediaType", "contentSchema", "multipleOf":
		return false
	}
	// No draft knows this keyword, so its value may be anything.
	return plainValue(value, depth)
}

var (
	plainNumber = lazy.Pattern(`^-?[0-9]{1,30}(\.[0-9]{1,30})?$`)
	plainCount  = lazy.Pattern(`^[0-9]{1,9}$`)
	plainRef    = lazy.Pattern(`^#/(\$defs|definitions)/[A-Za-z0-9_.-]+$`)
)

func plainType(value []byte) bool {
	if value[0] == '"' {
		return simpleType(value)
	}
	var seen []string
	valid := elements(value, func(v []byte) bool {
		for _, s := range seen {
			if s == string(v) {
				seen = nil
				return false
			}
		}
		if !simpleType(v) {
			seen = nil
			return false
		}
		seen = append(seen, string(v))
		return true
	})
	return valid && len(seen) > 0
}

func simpleType(value []byte) bool {
	switch string(value) {
	case `"array"`, `"boolean"`, `"integer"`, `"null"`, `"number"`, `"object"`, `"string"`:
		return true
	}
	return false
}

// plainNames reports whether value is an array of distinct strings without escapes.
func plainNames(value []byte) bool {
	var seen [][]byte
	valid := true
	return elements(value, func(v []byte) bool {
		valid = v[0] == '"' && bytes.IndexByte(v, '\\') < 0 && len(seen) < 64
		for _, s := range seen {
			valid = valid && !bytes.Equal(s, v)
		}
		seen = append(seen, v)
		return valid
	}) && valid
}

// plainValue reports whether decode accepts a value that is not examined: no number in it may be
// refused.
func plainValue(value []byte, depth int) bool {
	if depth > plainDepth {
		return false
	}
	valid := true
	switch value[0] {
	case '"', 't', 'f', 'n':
	case '{':
		members(value, func(_, v []byte) bool {
			valid = plainValue(v, depth+1)
			return valid
		})
	case '[':
		elements(value, func(v []byte) bool {
			valid = plainValue(v, depth+1)
			return valid
		})
	default:
		valid = plainNumber().Match(value)
	}
	return valid
}

// ref reports whether a reference points to a definition of the root.
func (p *plainCheck) ref(value []byte) bool {
	s, ok := stringOf(value)
	if !ok {
		return false
	}
	for _, known := range p.refs {
		if known == s {
			return true
		}
	}
	if s != "#" {
		if !plainRef().MatchString(s) {
			return false
		}
		parts := strings.SplitN(s, "/", 3)
		if member(member(p.root, parts[1]), parts[2]) == nil {
			return false
		}
	}
	p.refs = append(p.refs, s)
	return true
}

func plainDialect(value []byte) bool {
	s, _ := stringOf(value)
	switch strings.TrimSuffix(s, "#") {
	case "https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema":
		return true
	}
	return false
}
