package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/json/strict"
)

func compiled(t *testing.T) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("weir.schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("weir.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// asJSON turns YAML into what a JSON Schema validator takes.
func asJSON(t *testing.T, text string) any {
	t.Helper()
	var v any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestSchemaAgreesWithReader reads the golden cases of weir.yaml with both: what
// the reader takes is valid, and what it refuses for its form is not.
func TestSchemaAgreesWithReader(t *testing.T) {
	schema := compiled(t)
	cases, err := filepath.Glob("testdata/*.case")
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for _, path := range cases {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		c := splitCase(t, string(data))
		name := filepath.Base(path)
		good := strings.HasPrefix(c.want, "ok:") || strings.Contains(c.want, "\nok:")
		form := name == "unknown-keys.case" || name == "wrong-types.case" || name == "names.case" || name == "not-a-mapping.case" || name == "controls-forms.case"
		if c.name != "weir.yaml" || name == "empty.case" || strings.HasPrefix(name, "alone-") || !good && !form {
			continue // an empty mapping is not written down for editors to accept
		}
		checked++
		if err := schema.Validate(asJSON(t, c.text)); (err == nil) != good {
			t.Errorf("%s: good for the reader: %t; schema says: %v", name, good, err)
		}
	}
	if checked < 6 {
		t.Errorf("only %d cases compared", checked)
	}
}

// TestSchemaHasEveryKey walks the Go types on its own, so that a field without a
// tag, or a key that the schema forgot, shows.
func TestSchemaHasEveryKey(t *testing.T) {
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	count := 0
	var walk func(typ reflect.Type, schema map[string]any, path string)
	walk = func(typ reflect.Type, schema map[string]any, path string) {
		properties, _ := schema["properties"].(map[string]any)
		if schema["additionalProperties"] != false {
			t.Errorf("%s: unknown keys are allowed", path)
		}
		seen := 0
		for i := range typ.NumField() {
			f := typ.Field(i)
			if !f.IsExported() || typ == reflect.TypeFor[Server]() && (f.Name == "Name" || f.Name == "Problems") || typ == reflect.TypeFor[ToolLimit]() && f.Name == "ToolID" || typ == reflect.TypeFor[mcpserver.Override]() && f.Name == "Tool" ||
				slices.Contains([]reflect.Type{reflect.TypeFor[AgentLimited](), reflect.TypeFor[HubComputer](), reflect.TypeFor[RemoteHub](), reflect.TypeFor[Issuer](), reflect.TypeFor[Profile](), reflect.TypeFor[SavedProgram]()}, typ) && f.Name == "Name" {
				continue
			}
			key := f.Tag.Get("key")
			if key == "" {
				t.Errorf("%s: field %s has no key", path, f.Name)
				continue
			}
			seen++
			count++
			s, ok := properties[key].(map[string]any)
			if !ok {
				t.Errorf("%s.%s is not in the schema", path, key)
				continue
			}
			if s["description"] == "" || s["description"] == nil {
				t.Errorf("%s.%s has no description", path, key)
			}
			inner := f.Type
			for inner.Kind() == reflect.Slice || inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			if inner.Kind() != reflect.Struct {
				continue
			}
			switch {
			case f.Tag.Get("name") != "":
				s = s["additionalProperties"].(map[string]any)
			case f.Type.Kind() == reflect.Slice:
				s = s["items"].(map[string]any)
			}
			walk(inner, s, path+"."+key)
		}
		if seen != len(properties) {
			t.Errorf("%s: %d keys in Go, %d in the schema", path, seen, len(properties))
		}
	}
	walk(reflect.TypeFor[Config](), root, "config")
	if count < 50 {
		t.Errorf("only %d keys seen", count)
	}
}

// TestDefaultsAndBounds checks the table itself: a default that does not read, or
// is not among the legal values, would be dropped in silence.
func TestDefaultsAndBounds(t *testing.T) {
	var walk func(typ reflect.Type)
	walk = func(typ reflect.Type) {
		for _, f := range strict.Fields(typ) {
			k := f.Kind()
			switch k {
			case strict.KindObject, strict.KindObjects, strict.KindNamed:
				walk(f.Object())
				continue
			}
			for what, text := range map[string]string{"default": f.Default, "min": f.Min} {
				if text == "" {
					continue
				}
				if !f.Reads(text) {
					t.Errorf("%s.%s: the %s %q does not read", typ.Name(), f.Key, what, text)
				}
			}
			if f.Enum != nil && f.Default != "" && !strings.Contains(","+strings.Join(f.Enum, ",")+",", ","+f.Default+",") {
				t.Errorf("%s.%s: the default %q is not legal", typ.Name(), f.Key, f.Default)
			}
		}
	}
	walk(reflect.TypeFor[Config]())
}

// TestEveryKeyIsRead reads a file that sets every key to something else than its
// default and looks for fields that kept it.
func TestEveryKeyIsRead(t *testing.T) {
	data, err := os.ReadFile("testdata/all-keys.case")
	if err != nil {
		t.Fatal(err)
	}
	c := splitCase(t, string(data))
	cfg, _, err := Parse(c.name, []byte(c.text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	fresh := &Config{}
	strict.SetDefaults(fresh)
	read, kept := map[string]bool{}, map[string]any{} // entries that exclude each other's keys share a path
	var walk func(got, def reflect.Value, path string)
	walk = func(got, def reflect.Value, path string) {
		for _, f := range strict.Fields(got.Type()) {
			a, b, here := got.FieldByIndex(f.Index), def.FieldByIndex(f.Index), path+"."+f.Key
			switch f.Kind() {
			case strict.KindObject:
				walk(a, b, here)
			case strict.KindObjects, strict.KindNamed:
				element := reflect.New(f.Object())
				strict.SetDefaults(element.Interface())
				for i := range a.Len() {
					walk(reflect.Indirect(a.Index(i)), element.Elem(), here)
				}
			default:
				switch here {
				case ".mcpServers.disabled", ".mcpServers.scope", ".inputs.options", ".guards.hooks.command":
					continue // true would switch the entry off; an agent server has no scope: cluster; the others belong to the other kind of input or hook
				}
				if reflect.DeepEqual(a.Interface(), b.Interface()) {
					kept[here] = a.Interface()
				} else {
					read[here] = true
				}
			}
		}
	}
	walk(reflect.ValueOf(cfg).Elem(), reflect.ValueOf(fresh).Elem(), "")
	for here, value := range kept {
		if !read[here] {
			t.Errorf("%s was not read: %v", here, value)
		}
	}
}
