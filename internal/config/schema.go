package config

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strconv"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

// schemaURI names the dialect of [Schema].
const schemaURI = "https://json-schema.org/draft/2020-12/schema"

// member is one key of a JSON object with a fixed order.
type member struct {
	key   string
	value any
}

type ordered []member

// MarshalJSON writes the members in their order.
func (o ordered) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	out.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			out.WriteByte(',')
		}
		key, err := json.Marshal(m.key)
		if err != nil {
			return nil, err
		}
		value, err := plainJSON(m.value)
		if err != nil {
			return nil, err
		}
		out.Write(key)
		out.WriteByte(':')
		out.Write(value)
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

// plainJSON encodes without HTML escapes, which make documentation hard to read.
func plainJSON(v any) ([]byte, error) {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// Schema returns the indented JSON Schema (2020-12) of weir.yaml, made from the same table of keys
// as the reader. It describes the strict form, without keys of foreign files.
func Schema() []byte {
	root := append(ordered{
		{"$schema", schemaURI},
		{"title", "weir configuration"},
	}, objectSchema(reflect.TypeFor[Config](), false)...)
	compact, err := plainJSON(root)
	if err != nil {
		panic("config: the table of keys cannot be encoded: " + err.Error()) // only strings and numbers are in it
	}
	var out bytes.Buffer
	if err := json.Indent(&out, compact, "", "  "); err != nil {
		panic("config: the schema is not JSON: " + err.Error())
	}
	out.WriteByte('\n')
	return out.Bytes()
}

// objectSchema describes a struct. With variables set, its values are texts that may hold ${…}
// instead of their own type.
func objectSchema(t reflect.Type, variables bool) ordered {
	var properties ordered
	for _, f := range strict.Fields(t) {
		properties = append(properties, member{f.Key, fieldSchema(f, variables)})
	}
	s := ordered{
		{"type", "object"},
		{"properties", properties},
		{"additionalProperties", false},
	}
	switch t {
	case reflect.TypeFor[Server]():
		s = append(s, member{"anyOf", []ordered{
			{{"required", []string{"command"}}},
			{{"required", []string{"url"}}},
		}})
	case reflect.TypeFor[Input]():
		s = append(s, member{"required", []string{"id"}})
	case reflect.TypeFor[PolicyRule]():
		s = append(s, member{"required", []string{"action"}})
	case reflect.TypeFor[SavedProgram]():
		s = append(s, member{"required", []string{"file", "description"}})
	case reflect.TypeFor[Token]():
		s = append(s, member{"required", []string{"name", "sha256"}})
	}
	return s
}

// namePattern returns the pattern of the names in a mapping to such objects.
func namePattern(t reflect.Type) string {
	switch t {
	case reflect.TypeFor[ToolLimit]():
		return `^[^:]+:.+$`
	case reflect.TypeFor[mcpserver.Override]():
		return `^.+$`
	}
	return `^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`
}

func fieldSchema(f strict.Field, variables bool) ordered {
	doc := ordered{{"description", f.Doc}}
	var form ordered
	switch k := f.Kind(); k {
	case strict.KindObject:
		form = objectSchema(f.Type, variables)
		if f.Flag != "" {
			form[0] = member{"type", []string{"object", "boolean"}}
		}
		if f.Text != "" {
			form[0] = member{"type", []string{"object", "string"}}
		}
	case strict.KindObjects:
		form = atLeastOne(f, "minItems", ordered{{"type", "array"}, {"items", objectSchema(f.Object(), variables)}})
	case strict.KindNamed:
		form = atLeastOne(f, "minProperties", ordered{
			{"type", "object"},
			{"propertyNames", ordered{{"pattern", namePattern(f.Object())}}},
			{"additionalProperties", objectSchema(f.Object(), f.Object() == reflect.TypeFor[Server]())},
		})
	case strict.KindTexts:
		form = atLeastOne(f, "minItems", ordered{{"type", "array"}, {"items", ordered{{"type", scalarTypes()}}}})
		if f.Enum != nil {
			form = ordered{{"anyOf", []ordered{{{"enum", f.Enum}}, form}}}
		}
	case strict.KindOwn: // a strict.Object
		form = ordered{{"type", "object"}}
	case strict.KindMap:
		form = ordered{{"type", "object"}, {"additionalProperties", ordered{{"type", scalarTypes()}}}}
	default:
		form = scalarSchema(f, k)
		if variables && (k != strict.KindText || f.Enum != nil) {
			form = ordered{{"anyOf", []ordered{form, {{"type", "string"}, {"pattern", `\$\{.+\}`}}}}}
		}
	}
	if f.Default != "" {
		form = append(form, member{"default", defaultOf(f)})
	}
	return append(doc, form...)
}

// atLeastOne adds the keyword that refuses an empty list, where that is refused.
func atLeastOne(f strict.Field, keyword string, form ordered) ordered {
	if f.Empty != strict.EmptyRefused {
		return form
	}
	return append(form, member{keyword, 1})
}

// scalarTypes are the JSON types of a text: YAML turns 8080 and true into other types than string.
func scalarTypes() []string { return []string{"string", "number", "boolean"} }

func scalarSchema(f strict.Field, k strict.Kind) ordered {
	switch k {
	case strict.KindBool:
		return ordered{{"type", "boolean"}}
	case strict.KindInt:
		return ordered{{"type", "integer"}, {"minimum", json.Number(orZero(f.Min))}}
	case strict.KindNumber:
		return ordered{{"type", "number"}, {"minimum", json.Number(orZero(f.Min))}}
	case strict.KindDuration:
		return ordered{{"anyOf", []ordered{
			{{"type", "string"}, {"pattern", `^\s*([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+\s*$|^0$`}},
			{{"type", "number"}, {"minimum", secondsOf(f.Min)}},
		}}}
	case strict.KindBytes:
		return ordered{{"anyOf", []ordered{
			{{"type", "string"}, {"pattern", `^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgG][iI]?[bB]|[kKmMgG]|[bB])?\s*$`}},
			{{"type", "integer"}, {"minimum", json.Number(orZero(f.Min))}},
		}}}
	}
	if f.Enum != nil {
		return ordered{{"enum", f.Enum}}
	}
	if f.Key == "sha256" {
		return ordered{{"type", "string"}, {"pattern", "^[0-9a-fA-F]{64}$"}}
	}
	return ordered{{"type", scalarTypes()}}
}

func orZero(min string) string {
	if min == "" {
		return "0"
	}
	return min
}

func secondsOf(min string) json.Number {
	d, _ := strict.ParseDuration(orZero(min))
	return json.Number(strconv.FormatFloat(d.Seconds(), 'g', -1, 64))
}

// defaultOf returns the default with its type in a file.
func defaultOf(f strict.Field) any {
	switch f.Kind() {
	case strict.KindBool:
		return f.Default == "true"
	case strict.KindInt, strict.KindNumber:
		return json.Number(f.Default)
	case strict.KindBytes:
		if _, err := strconv.Atoi(f.Default); err == nil {
			return json.Number(f.Default)
		}
	}
	return f.Default
}
