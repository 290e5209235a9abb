package openapi

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/weir-mcp/weir/internal/text"
)

// Bounds of the schema of one tool. Beyond them a part takes any value, and the API judges it.
const (
	maxDepth      = 24
	maxProperties = 400
	maxTexts      = 24 << 10 // bytes of descriptions
	maxNodes      = 1500
	maxText       = 400      // characters of one description
	maxSchema     = 48 << 10 // bytes; a larger one is made again with a half of the bounds
)

// The keywords whose values are schemas, and those that are kept as they are.
var (
	keywordsOfMaps  = []string{"properties", "patternProperties", "dependentSchemas"}
	keywordsOfLists = []string{"allOf", "anyOf", "oneOf", "prefixItems"}
	keywordsOfOne   = []string{"items", "not", "additionalProperties", "contains", "propertyNames", "if", "then", "else"}
	keywordsNumbers = []string{"minimum", "maximum", "multipleOf", "exclusiveMinimum", "exclusiveMaximum"}
	keywordsCounts  = []string{"minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains", "maxContains"}
	keywordsTexts   = []string{"title", "format", "contentEncoding", "contentMediaType"}
	keywordsPlain   = []string{"const", "default"}
	types           = []string{"string", "number", "integer", "boolean", "array", "object", "null"}
)

// schemas makes the JSON Schema of one tool from schemas of a document. References stay references, to $defs of the
// tool, so recursion costs nothing.
type schemas struct {
	d          *document
	defs       node
	names      map[string]string // of $defs, by the reference in the document
	part       int               // the bounds are divided by it
	properties int
	nodes      int
	texts      int
}

func newSchemas(d *document, part int) *schemas {
	return &schemas{d: d, part: part, defs: node{}, names: map[string]string{}}
}

// describe returns a description within the bounds, "" if there is none.
func (s *schemas) describe(n node) string {
	about := text.Fit(strings.TrimSpace(str(n, "description")), maxText)
	if s.texts += len(about); s.texts > maxTexts/s.part {
		return ""
	}
	return about
}

// convert returns a schema of the document as one of JSON Schema 2020-12.
func (s *schemas) convert(v any, depth int) any {
	n, ok := v.(node)
	if b, is := v.(bool); is {
		return b
	}
	if s.nodes++; !ok || depth > maxDepth || s.nodes > maxNodes/s.part {
		return node{}
	}
	out := node{}
	if ref, is := n["$ref"].(string); is {
		if out = s.refer(ref, depth); strings.HasPrefix(s.d.version, "3.0") {
			return out // what stands next to a reference does not count
		}
	}
	if about := s.describe(n); about != "" {
		out["description"] = about
	}
	s.values(n, out)
	s.parts(n, out, depth)
	return nullable(n, out)
}

// refer returns a reference to the schema at a reference of the document.
func (s *schemas) refer(ref string, depth int) node {
	name, known := s.names[ref]
	if !known {
		target := s.d.find(ref)
		if target == nil || s.nodes > maxNodes/s.part || depth > maxDepth {
			return node{}
		}
		name = legal(ref[strings.LastIndexByte(ref, '/')+1:], 48)
		if _, taken := s.defs[name]; taken {
			name += "_" + strconv.Itoa(len(s.defs))
		}
		s.names[ref], s.defs[name] = name, node{}
		s.defs[name] = s.convert(target, depth+1)
	}
	return node{"$ref": "#/$defs/" + name}
}

// values copies the keywords that hold no schemas, if their values are legal.
func (s *schemas) values(n, out node) {
	switch t := n["type"].(type) {
	case string:
		if slices.Contains(types, t) {
			out["type"] = t
		}
	case []any:
		var kept []any
		for _, e := range t {
			if name, _ := e.(string); slices.Contains(types, name) && !slices.Contains(kept, e) {
				kept = append(kept, e)
			}
		}
		if len(kept) > 0 {
			out["type"] = kept
		}
	}
	for _, k := range keywordsNumbers {
		switch v := n[k].(type) {
		case json.Number, int, float64:
			out[k] = v
		case bool: // of 3.0: exclusiveMinimum: true makes minimum exclusive
			limit := strings.ToLower(strings.TrimPrefix(k, "exclusive"))
			if bound, ok := out[limit]; v && ok {
				out[k] = bound
				delete(out, limit)
			}
		}
	}
	for _, k := range keywordsCounts {
		switch v := n[k].(type) {
		case json.Number:
			if i, err := v.Int64(); err == nil && i >= 0 {
				out[k] = i
			}
		case int:
			if v >= 0 {
				out[k] = v
			}
		}
	}
	for _, k := range keywordsTexts {
		if v := str(n, k); v != "" {
			out[k] = text.Fit(v, maxText)
		}
	}
	for _, k := range keywordsPlain {
		if v, ok := n[k]; ok {
			out[k] = v
		}
	}
	if e := list(n, "enum"); len(e) > 0 {
		out["enum"] = slices.Clone(e)
	}
	if p := str(n, "pattern"); p != "" {
		if _, err := regexp.Compile(p); err == nil {
			out["pattern"] = p
		}
	}
	if yes(n, "uniqueItems") {
		out["uniqueItems"] = true
	}
	if str(n, "format") == "binary" || str(n, "format") == "byte" {
		delete(out, "format")
		out["contentEncoding"] = "base64"
	}
}

// parts converts the keywords that hold schemas. A property that only answers have is left out.
func (s *schemas) parts(n, out node, depth int) {
	answers := map[string]bool{}
	for _, k := range keywordsOfMaps {
		members, ok := n[k].(node)
		if !ok {
			continue
		}
		kept := node{}
		for _, name := range sorted(members) {
			if k == "properties" {
				if yes(s.d.object(members[name]), "readOnly") {
					answers[name] = true
					continue
				}
				if s.properties++; s.properties > maxProperties/s.part {
					break
				}
			}
			if _, err := regexp.Compile(name); k == "patternProperties" && err != nil {
				continue
			}
			kept[name] = s.convert(members[name], depth+1)
		}
		out[k] = kept
	}
	for _, k := range keywordsOfLists {
		var all []any
		for _, e := range list(n, k) {
			all = append(all, s.convert(e, depth+1))
		}
		if len(all) > 0 {
			out[k] = all
		}
	}
	for _, k := range keywordsOfOne {
		switch n[k].(type) {
		case node, bool:
			out[k] = s.convert(n[k], depth+1)
		}
	}
	var required []any
	for _, r := range list(n, "required") {
		if name, ok := r.(string); ok && !answers[name] && !slices.Contains(required, r) {
			required = append(required, name)
		}
	}
	if len(required) > 0 {
		out["required"] = required
	}
}

// nullable returns a schema that takes null as well, if the one of 3.0 says so.
func nullable(n, out node) any {
	if !yes(n, "nullable") {
		return out
	}
	if t, ok := out["type"].(string); ok {
		out["type"] = []any{t, "null"}
		if e, ok := out["enum"].([]any); ok && !slices.Contains(e, nil) {
			out["enum"] = append(e, nil)
		}
		return out
	}
	if len(out) == 0 {
		return out
	}
	return node{"anyOf": []any{out, node{"type": "null"}}}
}
