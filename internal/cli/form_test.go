package cli

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestFormFields: what a person types becomes the JSON that the field asks for, or an error that says
// what it must be.
func TestFormFields(t *testing.T) {
	for _, c := range []struct{ schema, answer, want string }{
		{`{"type":"string"}`, "5", `"5"`},
		{`{"type":"string","minLength":2}`, "a", "at least 2 characters"},
		{`{"type":"string","maxLength":2}`, "äöü", "at most 2 characters"},
		{`{"type":"string","format":"email"}`, "ann", "e-mail"},
		{`{"type":"string","format":"email"}`, "ann@example.com", `"ann@example.com"`},
		{`{"type":"string","format":"uri"}`, "example", "URL"},
		{`{"type":"string","format":"date"}`, "31.1.", "date"},
		{`{"type":"string","format":"date"}`, "2026-01-31", `"2026-01-31"`},
		{`{"type":"string","format":"date-time"}`, "2026-01-31", "time"},
		{`{"type":"integer"}`, "1.5", "whole number"},
		{`{"type":"integer","minimum":2}`, "1", "at least 2"},
		{`{"type":"number","maximum":2}`, "3", "at most 2"},
		{`{"type":"number"}`, "12345678901234567890", "12345678901234567890"},
		{`{"type":"number"}`, "NaN", "must be a number"},
		{`{"type":"boolean"}`, "Yes", "true"},
		{`{"type":"boolean"}`, "maybe", "y or n"},
		{`{"type":"boolean","default":false}`, "", "false"},
		{`{"type":"string","enum":["a","b"]}`, "b", `"b"`},
		{`{"type":"string","enum":["a","b"]}`, "2", `"b"`},
		{`{"type":"string","enum":["2","1"]}`, "2", `"2"`},
		{`{"type":"string","enum":["a"],"enumNames":["The first"]}`, "the first", `"a"`},
		{`{"type":"string","oneOf":[{"const":"x","title":"Ex"}]}`, "Ex", `"x"`},
		{`{"type":"string","enum":["a","b"]}`, "c", "none of the options"},
		{`{"type":"array","items":{"type":"string","enum":["a","b"]}}`, "b, a,b", `["b","a"]`},
		{`{"type":"array","items":{"anyOf":[{"const":"a","title":"A"}]},"minItems":1}`, ",", "at least 1"},
		{`{"type":"string"}`, "", "it is needed"},
	} {
		f, err := readForm(json.RawMessage(`{"message":"m","requestedSchema":{"type":"object","properties":{"f":` + c.schema + `},"required":["f"]}}`))
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		got, err := f.fields[0].value(c.answer)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || json.Valid([]byte(c.want)) {
				t.Errorf("%s, %q: %v, want %s", c.schema, c.answer, err, c.want)
			}
			continue
		}
		if string(got) != c.want {
			t.Errorf("%s, %q: %s, want %s", c.schema, c.answer, got, c.want)
		}
	}
}

// TestForms: fields keep their order, and what a shell cannot show is refused.
func TestForms(t *testing.T) {
	f, err := readForm(json.RawMessage(`{"message":"m","requestedSchema":{"properties":{"z":{"type":"string","title":"Last name","default":"x"},"a":{"type":"boolean"}}}}`))
	if err != nil || len(f.fields) != 2 || f.fields[0].label() != "Last name (string, optional) [x]" || f.fields[1].label() != "a (y or n, optional)" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, bad := range []string{
		`{"mode":"url","url":"https://example.com"}`,
		`{"requestedSchema":{"properties":{"f":{"type":"object"}}}}`,
		`{"requestedSchema":{"properties":{"f":{"type":"array"}}}}`,
		`{"requestedSchema":{"properties":{"f":7}}}`,
		`[]`,
	} {
		if f, err := readForm(json.RawMessage(bad)); err == nil {
			t.Errorf("%s: %+v", bad, f)
		}
	}
}

// TestSignatures: a tool in one line, and a call to start from.
func TestSignatures(t *testing.T) {
	schema := json.RawMessage(`{"type":"object","required":["path","n","of","mode","when","deep"],"$defs":{"Mode":{"enum":["r","w"],"type":"string"}},"properties":{
		"limit":{"type":"integer","default":10},
		"path":{"type":"string"},
		"n":{"type":"integer","minimum":5},
		"of":{"type":"array","items":{"type":"string","enum":["a b","c"]}},
		"mode":{"$ref":"#/$defs/Mode"},
		"when":{"type":"string","examples":["it's now"]},
		"deep":{"type":"object","required":["x"],"properties":{"x":{"type":"number"},"y":{"type":"string"}}},
		"maybe":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}`)
	params := paramsOf(schema)
	const want = `t(path: string, n: integer, of: ("a b"|"c")[], mode: "r"|"w", when: string, deep: object, limit?: integer = 10, maybe?: string|null)`
	if got := signature("t", params); got != want {
		t.Errorf("signature %s\n     want %s", got, want)
	}
	const call = `weir call fs:t --arg path=README.md --arg n=5 --arg 'of:=["a b"]' --arg mode=r --arg 'when=it'\''s now' --arg 'deep:={"x":1}'`
	if got := exampleCall("fs:t", params); got != call {
		t.Errorf("example %s\n   want %s", got, call)
	}
	params[0].description = "A path, e.g. `docs/cli.md`."
	if got := exampleCall("t", params[:1]); got != "weir call t --arg path=docs/cli.md" {
		t.Errorf("an example of the description: %s", got)
	}
	many := paramsOf(json.RawMessage(`{"properties":{"updated":{"enum":[1,2,3,4,5,6,7]}}}`))
	if got := signature("t", many); got != "t(updated?: 1|2|3|4|5|…)" || many[0].typeText() != "1|2|3|4|5|6|7" {
		t.Errorf("many values: %s, %s", got, many[0].typeText())
	}
	for name, want := range map[string]string{"filePath": "README.md", "output_dir": ".", "update": "TEXT", "dueDate": "2026-01-31"} {
		if got := exampleText(name, ""); got != want {
			t.Errorf("example of %s: %s, want %s", name, got, want)
		}
	}
	for _, p := range params {
		if got, want := strings.Join(p.values(), " "), map[string]string{"of": "a b c", "mode": "r w"}[p.name]; got != want {
			t.Errorf("values of %s: %q, want %q", p.name, got, want)
		}
	}
}
