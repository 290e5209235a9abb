package catalog

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

func entryWith(t testing.TB, schema string) *Entry {
	t.Helper()
	c, _ := New(Limits{}).With(primitive.Listing{Upstream: "web", Namespace: "web", Tools: raws(`{"name":"t","inputSchema":` + schema + `}`)})
	if c.Len() != 1 {
		t.Fatalf("no entry for schema %s", schema)
	}
	return c.Entries()[0]
}

func TestValidate(t *testing.T) {
	const person = `{"type":"object","properties":{
		"name":{"type":"string","minLength":2},"age":{"type":"integer","minimum":0,"maximum":150},
		"role":{"enum":["admin","user"]},"tags":{"type":"array","items":{"type":"string"},"maxItems":2,"uniqueItems":true},
		"home":{"$ref":"#/$defs/address"},"note":{"anyOf":[{"type":"string"},{"type":"null"}]}},
		"required":["name"],"additionalProperties":false,
		"$defs":{"address":{"type":"object","properties":{"zip/code":{"type":"string","pattern":"^[0-9]+$"}},"required":["zip/code"]}}}`
	tests := []struct {
		name, schema, args string
		want               []Problem // nil: valid
	}{
		{"valid", person, `{"name":"Al","age":3,"role":"user","tags":["x"],"home":{"zip/code":"12"},"note":null}`, nil},
		{"no arguments", `{"type":"object"}`, ``, nil},
		{"no arguments where some are required", person, ``, []Problem{{"/name", "required", `required property "name" is missing`}}},
		{"types", person, `{"name":1,"age":"3"}`, []Problem{{"/age", "type", "must be integer, got string"}, {"/name", "type", "must be string, got number"}}},
		{"bounds", person, `{"name":"A","age":151}`, []Problem{{"/age", "maximum", "must be at most 150"}, {"/name", "minLength", "must have at least 2 characters, has 1"}}},
		{"unknown", person, `{"name":"Al","nome":1}`, []Problem{{"/nome", "additionalProperties", `unknown property "nome"`}}},
		{"enum", person, `{"name":"Al","role":"boss"}`, []Problem{{"/role", "enum", `must be one of "admin", "user"`}}},
		{"items", person, `{"name":"Al","tags":["a","a",1]}`, []Problem{
			{"/tags", "maxItems", "must have at most 2 items, has 3"}, {"/tags", "uniqueItems", "items 0 and 1 are equal"}, {"/tags/2", "type", "must be string, got number"}}},
		{"reference", person, `{"name":"Al","home":{}}`, []Problem{{"/home/zip~1code", "required", `required property "zip/code" is missing`}}},
		{"pattern", person, `{"name":"Al","home":{"zip/code":"x"}}`, []Problem{{"/home/zip~1code", "pattern", "does not match the pattern ^[0-9]+$"}}},
		{"any of", person, `{"name":"Al","note":1}`, []Problem{{"/note", "type", "must be null or string, got number"}}},
		{"case of keys", person, `{"Name":"Al"}`, []Problem{{"/Name", "additionalProperties", `unknown property "Name"`}, {"/name", "required", `required property "name" is missing`}}},
		{"array", person, `[]`, []Problem{{"", "type", "must be an object, got array"}}},
		{"null", person, `null`, []Problem{{"", "type", "must be an object, got null"}}},
		{"not JSON", person, `{"name":`, []Problem{{"", "json", "not valid JSON"}}},
		{"space that is none in JSON", `{"type":"object"}`, "{}\v", []Problem{{"", "json", "not valid JSON"}}},
		{"a key twice", person, `{"name":"Al","name":"Bo"}`, []Problem{{"", "json", `key "name" comes twice`}}},
		{"a huge number", person, `{"name":"Al","age":1e999999999}`, []Problem{{"", "json", "number 1e999999999 is out of range"}}},
		{"no schema", `null`, `{"anything":[1]}`, nil},
		{"no schema, no object", `null`, `7`, []Problem{{"", "type", "must be an object, got number"}}},

		{"numbers are not rounded", `{"properties":{"n":{"maximum":9007199254740992}}}`, `{"n":9007199254740993}`, []Problem{{"/n", "maximum", "must be at most 9007199254740992"}}},
		{"20 digits are an integer", `{"properties":{"n":{"type":"integer","const":12345678901234567890}}}`, `{"n":12345678901234567890}`, nil},
		{"1.0 is an integer", `{"properties":{"n":{"type":"integer"}}}`, `{"n":1.0}`, nil},
		{"a fraction", `{"properties":{"n":{"exclusiveMinimum":0.5}}}`, `{"n":0.5}`, []Problem{{"/n", "exclusiveMinimum", "must be more than 0.5"}}},

		{"2020-12 is the default", `{"properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":[1]}`, []Problem{{"/a/0", "type", "must be string, got number"}}},
		{"draft-07", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{"type":"string"}]}}}`, `{"a":[1]}`, []Problem{{"/a/0", "type", "must be string, got number"}}},
		{"draft-07 knows no prefixItems", `{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`, `{"a":[1]}`, nil},
		{"draft-04", `{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"a":{"maximum":5,"exclusiveMaximum":true}}}`, `{"a":5}`, []Problem{{"/a", "exclusiveMaximum", "must be less than 5"}}},
		{"unchecked pattern", `{"properties":{"p":{"pattern":"^(?=.*[0-9]).{3,}$"}}}`, `{"p":"x"}`, nil},
		{"ECMAScript escape", `{"properties":{"p":{"pattern":"^[\\u4e00-\\u9fa5]+$"}}}`, `{"p":"x"}`, []Problem{{"/p", "pattern", `does not match the pattern ^[\x{4e00}-\x{9fa5}]+$`}}},
		{"dependent", `{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []Problem{{"/b", "dependentRequired", `required property "b" is missing`}}},
		{"one of, both", `{"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"a":1,"b":1}`, []Problem{{"", "oneOf", "matches more than one of the forms of which it must match exactly one"}}},
		{"not", `{"not":{"required":["a"]}}`, `{"a":1}`, []Problem{{"", "not", "has a form that is not allowed"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := entryWith(t, tt.schema).Validate(json.RawMessage(tt.args))
			if tt.want == nil {
				if err != nil {
					t.Errorf("error %v", err)
				}
				return
			}
			var e *Error
			if !errors.As(err, &e) || e.Code != ArgsInvalid {
				t.Fatalf("error %v, want ARGS_INVALID", err)
			}
			if !slices.Equal(e.Problems, tt.want) {
				t.Errorf("problems\n%q, want\n%q", e.Problems, tt.want)
			}
			if !strings.Contains(e.Message, e.ID) || !strings.Contains(e.Message, tt.want[0].Message) || strings.Contains(e.Message, "\n") {
				t.Errorf("message %q", e.Message)
			}
		})
	}
}

func TestBrokenSchemasAreNotTheCallersFault(t *testing.T) {
	for _, schema := range []string{
		`{"type":"objekt"}`, `{"properties":[]}`, `{"required":"a"}`, `"string"`, `7`, `[]`, `{"minimum":"1"}`,
		`{"$ref":"#/$defs/none"}`, `{"$ref":"https://example.com/s.json"}`, `{"$schema":7}`,
		`{"$ref":"#"}`, `{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`,
		`{"properties":{"p":{"pattern":"("}}}`, `{"properties":{"p":{"maximum":1e5000}}}`, `{"anyOf":[]}`, `{"type":["string","string"]}`,
		strings.Repeat(`{"not":`, 200) + `{}` + strings.Repeat(`}`, 200),
	} {
		e := entryWith(t, schema)
		if e.SchemaError() == nil {
			t.Errorf("%s was not found at ingest", clip(schema, 60))
		}
		for range 2 {
			var err *Error
			if got := e.Validate(json.RawMessage(`{}`)); !errors.As(got, &err) || err.Code != SchemaInvalid || err.ID != e.ID || err.Err == nil {
				t.Errorf("%s: %v, want SCHEMA_INVALID", clip(schema, 60), got)
				break
			}
			if strings.Contains(err.Message, "\n") || !strings.Contains(err.Message, `"web"`) {
				t.Errorf("message %q names no owner or is not one line", err.Message)
			}
		}
	}
}

// A $schema that names no draft is a finding. The schema itself is sound, so it is
// read as 2020-12 and calls go on.
func TestUnknownDialects(t *testing.T) {
	for schema, known := range map[string]bool{
		`{"$schema":"https://example.com/own","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`:                                           false,
		`{"$schema":"","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`:                                                                  false,
		`{"$schema":"http://json-schema.org/draft-03/schema#","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`:                           false,
		`{"properties":{"a":{"$ref":"#/$defs/x"}},"$defs":{"x":{"$id":"https://e.com/x","$schema":"x:y","prefixItems":[{"type":"string"}]}}}`:    false,
		`{"properties":{"a":{"$schema":"x:y","prefixItems":[{"type":"string"}]}}}`:                                                               false,
		`{"$schema":"https://json-schema.org/draft/2020-12/schema#","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`:                     true,
		`{"$schema":"https://json-schema.org/schema","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`:                                    true,
		`{"properties":{"a":{"prefixItems":[{"type":"string"}],"default":{"$schema":"x:y"}},"$schema":{"type":"string","enum":["x:y"]}}}`:        true,
		`{"properties":{"a":{"prefixItems":[{"type":"string"}]},"b":{"const":{"$schema":"x:y"}}},"enum":[{"a":["x"],"b":{"$schema":"x:y"}},{}]}`: true,
	} {
		c, report := New(Limits{OnInvalid: rejectInvalid}).With(primitive.Listing{Upstream: "web", Namespace: "web", Tools: raws(`{"name":"t","inputSchema":` + schema + `}`)})
		if c.Len() != 1 || report.Has(FoundSchema) || report.Has(FoundDialect) == known {
			t.Errorf("%s: %v", schema, report.Findings)
			continue
		}
		e := c.Entries()[0]
		if err := e.Validate(json.RawMessage(`{"a":["x"],"b":{"$schema":"x:y"}}`)); err != nil {
			t.Errorf("%s: %v", schema, err)
		}
		var err *Error
		if got := e.Validate(json.RawMessage(`{"a":[1]}`)); !errors.As(got, &err) || err.Code != ArgsInvalid {
			t.Errorf("%s: %v, want ARGS_INVALID", schema, got)
		}
	}
}

// A reference that leads in a circle is its owner's fault as well where only
// some arguments reach it; a schema of a tree is none.
func TestCircularReferences(t *testing.T) {
	e := entryWith(t, `{"properties":{"a":{"$ref":"#/$defs/x"},"tree":{"$ref":"#/$defs/node"}},
		"$defs":{"x":{"$ref":"#/$defs/x"},"node":{"properties":{"child":{"$ref":"#/$defs/node"}},"required":["name"]}}}`)
	if err := e.SchemaError(); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]Code{
		`{}`:                          "",
		`{"a":1}`:                     SchemaInvalid,
		`{"a":1,"tree":{"child":{}}}`: SchemaInvalid,
		`{"tree":{"name":"a","child":{"name":"b","child":{"name":"c"}}}}`: "",
		`{"tree":{"name":"a","child":{}}}`:                                ArgsInvalid,
	} {
		err := e.Validate(json.RawMessage(args))
		var got *Error
		if want == "" && err != nil || want != "" && (!errors.As(err, &got) || got.Code != want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
		if want == SchemaInvalid && got != nil && (got.Err == nil || got.ID != e.ID || !strings.Contains(got.Message, `"web"`)) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// A schema whose references multiply would keep a call for hours. It is given
// up, and the next call is not kept either; a recursive schema is not bothered.
func TestSchemasThatMultiply(t *testing.T) {
	bomb := func(schema, link, last string) string {
		var b strings.Builder
		b.WriteString(`{"$schema":"` + schema + `",` + strings.ReplaceAll(link, "NEXT", "#/$defs/d0") + `,"$defs":{`)
		for i := range 40 {
			fmt.Fprintf(&b, `"d%d":{%s},`, i, strings.ReplaceAll(link, "NEXT", fmt.Sprintf("#/$defs/d%d", i+1)))
		}
		return b.String() + `"d40":` + last + `}}`
	}
	for _, dialect := range []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"} {
		for _, link := range []string{
			`"allOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]`, `"anyOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]`, `"oneOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]`,
			`"if":{"$ref":"NEXT"},"then":{"$ref":"NEXT"},"else":{"$ref":"NEXT"}`, `"not":{"allOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]}`,
			`"not":{"anyOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]}`,
		} {
			for _, last := range []string{`{"maxProperties":0}`, `{"minProperties":1}`, `{"type":"string"}`} {
				if strings.Contains(dialect, "draft-07") && !strings.Contains(last, "minP") {
					continue // the same again
				}
				e := entryWith(t, bomb(dialect, link, last))
				begun := time.Now()
				err := e.Validate(json.RawMessage(`{}`))
				if took := time.Since(begun); took > 10*time.Second {
					t.Fatalf("%s, %s: %v", link, last, took)
				}
				var got *Error
				if err != nil && (!errors.As(err, &got) || got.Code != SchemaInvalid && got.Code != ArgsInvalid) {
					t.Errorf("%s, %s: %v", link, last, err)
				}
			}
		}
	}
	e := entryWith(t, bomb("https://json-schema.org/draft/2020-12/schema", `"allOf":[{"$ref":"NEXT"},{"$ref":"NEXT"}]`, `{"minProperties":1}`))
	var err *Error
	if got := e.Validate(json.RawMessage(`{"a":1}`)); !errors.As(got, &err) || err.Code != SchemaInvalid || !strings.Contains(err.Message, `"web"`) {
		t.Errorf("%v, want SCHEMA_INVALID", got)
	}
	// Of arguments that are wrong, enough is found long before.
	if got := e.Validate(json.RawMessage(`{}`)); !errors.As(got, &err) || err.Code != ArgsInvalid || len(err.Problems) != 1 {
		t.Errorf("%v, want ARGS_INVALID", got)
	}

	// The meta-schema is recursive, too, and everybody's.
	var wg sync.WaitGroup
	for range 4 {
		own := entryWith(t, `{"properties":{"schema":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`)
		wg.Go(func() {
			for range 20 {
				var err *Error
				if got := own.Validate(json.RawMessage(`{"schema":{"type":"objekt"}}`)); !errors.As(got, &err) || err.Code != ArgsInvalid {
					t.Errorf("%v, want ARGS_INVALID", got)
				}
				if got := own.Validate(json.RawMessage(`{"schema":{"properties":{"a":{"items":{}}}}}`)); got != nil {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()

	tree := entryWith(t, `{"properties":{"node":{"$ref":"#/$defs/node"}},"$defs":{"node":{"required":["v"],"properties":{"v":{"type":"integer"},"kids":{"items":{"$ref":"#/$defs/node"}}}}}}`)
	leaves := strings.Repeat(`{"v":1,"kids":[{"v":2},{"v":3}]},`, 50_000)
	if err := tree.Validate(json.RawMessage(`{"node":{"v":1,"kids":[` + leaves + `{"v":4}]}}`)); err != nil {
		t.Errorf("many nodes: %v", err)
	}
	if got := tree.Validate(json.RawMessage(`{"node":{"v":1,"kids":[` + leaves + `{}]}}`)); !errors.As(got, &err) || err.Code != ArgsInvalid {
		t.Errorf("many nodes and a mistake: %v", got)
	}
}

func TestProblemsAreBounded(t *testing.T) {
	e := entryWith(t, `{"additionalProperties":false}`)
	var args strings.Builder
	for i := range 500 {
		fmt.Fprintf(&args, `,"key%d":1`, i)
	}
	var err *Error
	if got := e.Validate(json.RawMessage("{" + args.String()[1:] + "}")); !errors.As(got, &err) || len(err.Problems) != maxProblems || len(err.Message) > 600 {
		t.Errorf("error %v", got)
	}
}

func TestValidateConcurrently(t *testing.T) {
	e := entryWith(t, `{"type":"object","properties":{"a":{"prefixItems":[{"type":"string"}]}}}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 50 {
				if e.Validate(json.RawMessage(`{"a":["x"]}`)) != nil || e.Validate(json.RawMessage(`{"a":[1]}`)) == nil {
					t.Error("a wrong answer")
				}
			}
		})
	}
	wg.Wait()
}

var plainSamples = []struct {
	schema string
	plain  bool
}{
	{`{}`, true},
	{`{"type":"object","properties":{"a":{"type":["string","null"],"description":"x","default":null}},"required":["a"],"additionalProperties":false}`, true},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":{"type":"string"},"minItems":1,"uniqueItems":true}}}`, true},
	{`{"$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"$ref":"#/$defs/b"}},"$defs":{"b":{"enum":["x",1,null,[2]],"title":"B"}}}`, true},
	{`{"properties":{"a":{"anyOf":[{"type":"string"},true],"examples":[{"b":1.5}]}}}`, true},
	{`{"properties":{"a":{"pattern":"^[a-z]+$","format":"email","minLength":1,"minimum":-1.5}}}`, true},
	{`{"x-any":{"type":7},"type":"object"}`, true},
	{`{"properties":{"type":{"type":"string"},"$ref":{"type":"string"}}}`, true},
	{`{"type":"objekt"}`, false},
	{`{"type":[]}`, false},
	{`{"type":["string","string"]}`, false},
	{`{"type":null}`, false},
	{`{"properties":[]}`, false},
	{`{"properties":{"a":7}}`, false},
	{`{"required":["a","a"]}`, false},
	{`{"required":["a",1]}`, false},
	{`{"required":"a"}`, false},
	{`{"anyOf":[]}`, false},
	{`{"anyOf":[1]}`, false},
	{`{"anyOf":{}}`, false},
	{`{"enum":"a"}`, false},
	{`{"enum":[1e999]}`, false},
	{`{"enum":[1e9999]}`, false},
	{`{"default":[[[1e9999]]]}`, false},
	{`{"title":1}`, false},
	{`{"readOnly":"yes"}`, false},
	{`{"minimum":"1"}`, false},
	{`{"minLength":-1}`, false},
	{`{"minLength":1.5}`, false},
	{`{"pattern":"("}`, false},
	{`{"pattern":"(?=x)"}`, false},
	{`{"$ref":"#/$defs/none"}`, false},
	{`{"$ref":"other.json"}`, false},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","required":[]}`, false},
	{`{"properties":{"a":{"$schema":"x"}}}`, false},
	{`{"$id":"x","properties":{}}`, false},
	{`{"items":[{}]}`, false},
	{`true`, false},
	{`[]`, false},
}

func TestPlainSchemas(t *testing.T) {
	for _, tt := range plainSamples {
		if got := plainSchema([]byte(tt.schema)); got != tt.plain {
			t.Errorf("plainSchema(%s) = %v, want %v", tt.schema, got, tt.plain)
		}
		if _, err := compileFree([]byte(tt.schema), new(patterns)); tt.plain && err != nil {
			t.Errorf("%s is plain but does not compile: %v", tt.schema, err)
		}
	}
}

// What is called plain without a compiler must compile.
func FuzzPlainSchema(f *testing.F) {
	for _, tt := range plainSamples {
		f.Add(tt.schema)
	}
	f.Fuzz(func(t *testing.T, schema string) {
		raw := []byte(strings.TrimSpace(schema))
		if !json.Valid(raw) || !plainSchema(raw) {
			return
		}
		if _, err := compileFree(raw, new(patterns)); err != nil {
			t.Errorf("%s is plain but does not compile: %v", schema, err)
		}
	})
}

// No definition and no arguments may end the process.
func FuzzDefinition(f *testing.F) {
	f.Add(`{"name":"t","description":"d","inputSchema":{"type":"object","properties":{"a":{"type":"string"}}},"_meta":{"version":"1"}}`, `{"a":"b"}`)
	f.Add(`{"name":"\ud800","uri":"a:b","uriTemplate":"a:{b}","arguments":[{"name":"x"}]}`, `{"x":1e5}`)
	f.Fuzz(func(t *testing.T, def, args string) {
		l := primitive.Listing{Upstream: "u", Namespace: "u", Tools: raws(def), Resources: raws(def), ResourceTemplates: raws(def), Prompts: raws(def)}
		c, _ := New(Limits{}).With(l)
		for _, e := range c.Entries() {
			_, body := splitKind(e.ID)
			if id, err := ParseToolID(body); err != nil && !strings.Contains(e.ID, "~") {
				t.Errorf("id %q of %q: %+v, %v", e.ID, def, id, err)
			}
			if card := e.Card.AppendJSON(nil, true); !json.Valid(card) {
				t.Errorf("card %s is not JSON", card)
			}
			if path, ok := c.Path(e.ID); !ok || path == "" {
				t.Errorf("%q has no path", e.ID)
			}
			_ = e.Validate(json.RawMessage(args))
		}
	})
}
