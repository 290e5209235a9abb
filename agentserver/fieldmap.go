package agentserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// The public implementation describes a tool's input as a map of fields:
//
//	{"path": {"type": "string", "minLength": 1}, "lines": {"type": "number", "optional": true}}
//
// As JSON Schema this is
//
//	{"type": "object", "properties": {"path": …, "lines": …}, "required": ["path"]}

// isFieldMap reports whether a value is a map of fields and not a JSON Schema. A schema has
// keywords at its top: $…, a type that is a text or a list, properties, and so on. In a map of
// fields every value describes a field: it is an object, or the name of a type. An empty object is
// a schema.
func isFieldMap(raw json.RawMessage) bool {
	if !rawjson.IsObject(raw) {
		return false
	}
	members, described := 0, 0
	schema := false
	_ = rawjson.EachMember(raw, func(m rawjson.Member) bool {
		members++
		key := string(m.Key)
		switch {
		case strings.HasPrefix(key, "$"):
			schema = true
		case key == "type" && (m.Value[0] == '"' || m.Value[0] == '['):
			// The description of a field named "type" is an object, or the name of a type. It
			// is never "object", which the top of a schema has there.
			schema = schema || m.Value[0] == '[' || rawjson.Text(m.Value) == "object" || !isTypeName(rawjson.Text(m.Value))
		case key == "properties" && rawjson.IsObject(m.Value) && rawjson.Text(rawjson.Get(m.Value, "type")) == "",
			slices.Contains([]string{"anyOf", "oneOf", "allOf", "required", "enum"}, key) && rawjson.IsArray(m.Value),
			key == "additionalProperties" && (string(m.Value) == "true" || string(m.Value) == "false"):
			schema = true
		}
		if isField(m.Value) {
			described++
		}
		return true
	})
	return !schema && members > 0 && described == members
}

// typeNames are the types of fields.
var typeNames = []string{"string", "number", "integer", "boolean", "array", "object", "any"}

func isTypeName(s string) bool { return slices.Contains(typeNames, strings.ToLower(s)) }

// isField reports whether a value describes a field.
func isField(v []byte) bool {
	if len(v) > 0 && v[0] == '"' {
		return isTypeName(rawjson.Text(v))
	}
	if !rawjson.IsObject(v) {
		return false
	}
	t := rawjson.Get(v, "type")
	return t == nil || t[0] == '"'
}

// field is the description of one field.
type field struct {
	Type        string           `json:"type"`
	Description string           `json:"description"`
	Optional    bool             `json:"optional"`
	Nullable    bool             `json:"nullable"`
	IsArray     bool             `json:"isArray"`
	Enum        json.RawMessage  `json:"enum"`
	Default     json.RawMessage  `json:"default"`
	MinLength   *json.Number     `json:"minLength"`
	MaxLength   *json.Number     `json:"maxLength"`
	Min         *json.Number     `json:"min"`
	Max         *json.Number     `json:"max"`
	MinItems    *json.Number     `json:"minItems"`
	MaxItems    *json.Number     `json:"maxItems"`
	Pattern     string           `json:"pattern"`
	Format      string           `json:"format"`
	Items       json.RawMessage  `json:"items"`
	Properties  json.RawMessage  `json:"properties"`
	Additional  *json.RawMessage `json:"additionalProperties"`
}

// translateFields makes the JSON Schema of a map of fields. Fields that the map does not describe
// pass, as in the public implementation.
func translateFields(raw json.RawMessage) (json.RawMessage, error) { return objectSchema(raw, 0) }

func objectSchema(raw json.RawMessage, depth int) (json.RawMessage, error) {
	if depth > 16 {
		return nil, fmt.Errorf("fields are nested more than 16 deep")
	}
	props := rawjson.NewWriter(nil).Object()
	var required []string
	var failed error
	err := rawjson.EachMember(raw, func(m rawjson.Member) bool {
		f, err := readField(m.Value)
		if err == nil {
			var schema json.RawMessage
			if schema, err = f.schema(depth); err == nil {
				props.Key(string(m.Key)).Raw(schema)
				if !f.Optional && f.Default == nil {
					required = append(required, string(m.Key))
				}
			}
		}
		if err != nil {
			failed = fmt.Errorf("the field %q: %w", clip(string(m.Key)), err)
		}
		return err == nil
	})
	if err != nil || failed != nil {
		if failed != nil {
			err = failed
		}
		return nil, err
	}
	w := rawjson.NewWriter(nil).Object().Key("type").String("object").Key("properties").Raw(props.EndObject().Bytes())
	if len(required) > 0 {
		w.Key("required").Strings(required)
	}
	return w.EndObject().Bytes(), nil
}

func readField(raw []byte) (field, error) {
	var f field
	if raw[0] == '"' {
		f.Type = rawjson.Text(raw)
	} else {
		r := json.NewDecoder(bytes.NewReader(raw))
		r.DisallowUnknownFields()
		if err := r.Decode(&f); err != nil {
			return f, fmt.Errorf("cannot be read: %s", strings.TrimPrefix(err.Error(), "json: "))
		}
	}
	f.Type = strings.ToLower(f.Type)
	if f.Type == "" {
		f.Type = "string"
	}
	if !isTypeName(f.Type) {
		return f, fmt.Errorf("the type %q is not known; types are %s", clip(f.Type), strings.Join(typeNames, ", "))
	}
	return f, nil
}

func (f *field) schema(depth int) (json.RawMessage, error) {
	s := map[string]any{}
	if f.Type != "any" {
		s["type"] = f.Type
	}
	set := func(keyword string, n *json.Number) {
		if n != nil {
			s[keyword] = *n
		}
	}
	switch f.Type {
	case "string":
		set("minLength", f.MinLength)
		set("maxLength", f.MaxLength)
		if f.Pattern != "" {
			s["pattern"] = f.Pattern
		}
		if f.Format != "" {
			s["format"] = f.Format
		}
	case "number", "integer":
		set("minimum", f.Min)
		set("maximum", f.Max)
	case "array":
		items := f.Items
		if items == nil {
			items = json.RawMessage(`{"type":"string"}`)
		}
		item, err := readField(items)
		if err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
		if s["items"], err = item.schema(depth + 1); err != nil {
			return nil, fmt.Errorf("items: %w", err)
		}
	case "object":
		if f.Properties != nil {
			nested, err := objectSchema(f.Properties, depth+1)
			if err != nil {
				return nil, err
			}
			if err := json.Unmarshal(nested, &s); err != nil {
				return nil, err
			}
		}
		if f.Additional != nil {
			s["additionalProperties"] = *f.Additional
		}
	}
	if f.Enum != nil {
		s["enum"] = f.Enum
	}
	if f.IsArray && f.Type != "array" {
		s = map[string]any{"type": "array", "items": s}
	}
	if s["type"] == "array" {
		set("minItems", f.MinItems)
		set("maxItems", f.MaxItems)
	}
	if f.Nullable {
		s = map[string]any{"anyOf": []any{s, map[string]any{"type": "null"}}}
	}
	if f.Default != nil {
		s["default"] = f.Default
	}
	if f.Description != "" {
		s["description"] = f.Description
	}
	return json.Marshal(s)
}
