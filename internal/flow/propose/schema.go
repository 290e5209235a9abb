package propose

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/config"
)

// schema is the part of a JSON Schema that says which values there may be.
type schema struct {
	Type       json.RawMessage   `json:"type"`
	Format     string            `json:"format"`
	Const      json.RawMessage   `json:"const"`
	Enum       []json.RawMessage `json:"enum"`
	Ref        string            `json:"$ref"`
	AnyOf      []schema          `json:"anyOf"`
	OneOf      []schema          `json:"oneOf"`
	AllOf      []schema          `json:"allOf"`
	Items      *schema           `json:"items"`
	Properties map[string]schema `json:"properties"`
	Additional json.RawMessage   `json:"additionalProperties"`
	Defs       map[string]schema `json:"$defs"`
}

// maxDepth bounds how deep a schema is read. Below it, a value may be anything.
const maxDepth = 16

func parse(raw json.RawMessage) *schema {
	var s schema
	if len(raw) == 0 || json.Unmarshal(raw, &s) != nil {
		return nil
	}
	return &s
}

// types returns the types of a schema, none if it does not say.
func (s *schema) types() []string {
	var one string
	var list []string
	if json.Unmarshal(s.Type, &one) == nil {
		return []string{one}
	}
	_ = json.Unmarshal(s.Type, &list) // absent, or wrong: no types
	return list
}

// target follows a reference to the definitions of a schema.
func (s *schema) target(root *schema) *schema {
	name, ok := strings.CutPrefix(s.Ref, "#/$defs/")
	if !ok {
		return s
	}
	if to, ok := root.Defs[name]; ok {
		return &to
	}
	return s
}

// closed reports whether no value of a schema can be a text that a person has written.
func closed(raw json.RawMessage) bool {
	s := parse(raw)
	return s != nil && s.closed(s, maxDepth)
}

func (s *schema) closed(root *schema, depth int) bool {
	if depth == 0 {
		return false
	}
	s = s.target(root)
	if len(s.Enum) > 0 || len(s.Const) > 0 {
		return true
	}
	if all := slices.Concat(s.AnyOf, s.OneOf); len(all) > 0 {
		return !slices.ContainsFunc(all, func(one schema) bool { return !one.closed(root, depth-1) })
	}
	types := s.types()
	for _, t := range types {
		switch t {
		case "number", "integer", "boolean", "null":
		case "string":
			if !slices.Contains([]string{"date", "date-time", "time", "duration", "uuid"}, s.Format) {
				return false
			}
		case "array":
			if s.Items == nil || !s.Items.closed(root, depth-1) {
				return false
			}
		case "object":
			if string(s.Additional) != "false" && len(s.Properties) == 0 || len(s.Additional) > 0 && string(s.Additional) != "false" {
				return false // keys are texts as well
			}
			for _, p := range s.Properties {
				if !p.closed(root, depth-1) {
					return false
				}
			}
		default:
			return false
		}
	}
	return len(types) > 0
}

// closedTypes returns the types of values, as flow.declassify names them, that a schema of results has.
func closedTypes(raw json.RawMessage) (types []string) {
	s := parse(raw)
	if s == nil {
		return nil
	}
	number, id := s.kinds(s, "", maxDepth)
	if number {
		types = append(types, config.TypeNumber)
	}
	if id {
		types = append(types, config.TypeID)
	}
	return types
}

// kinds reports whether a schema has numbers, and texts under a key of an id.
func (s *schema) kinds(root *schema, key string, depth int) (number, id bool) {
	if depth == 0 {
		return false, false
	}
	s = s.target(root)
	for _, t := range s.types() {
		switch t {
		case "number", "integer":
			number = true
		case "string":
			key := strings.Trim(strings.ToLower(key), "_")
			id = id || key == "id" || strings.HasSuffix(key, "_id")
		}
	}
	more := func(one *schema, key string) {
		n, i := one.kinds(root, key, depth-1)
		number, id = number || n, id || i
	}
	for _, one := range slices.Concat(s.AnyOf, s.OneOf, s.AllOf) {
		more(&one, key)
	}
	if s.Items != nil {
		more(s.Items, key)
	}
	for name, p := range s.Properties {
		more(&p, name)
	}
	return number, id
}
