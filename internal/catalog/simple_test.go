package catalog

import (
	"testing"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// simpleSamples are schemas with values that a simpleSchema admits, and with values that are left to
// the validator.
var simpleSamples = []struct {
	schema    string
	yes, left []string
}{
	{`{"type":"object","properties":{"text":{"type":"string","description":"d","default":"x"},"n":{"type":"integer","minimum":1,"maximum":9},"on":{"type":"boolean"}},"required":["text"],"additionalProperties":false}`,
		[]string{`{"text":"a"}`, `{"n":9,"text":"\u00e9","on":true}`, `{ "text" : "a" , "n" : 1 }`},
		[]string{`{}`, `{"text":1}`, `{"text":"a","n":0}`, `{"text":"a","n":10}`, `{"text":"a","n":1.0}`, `{"text":"a","n":1e0}`, `{"text":"a","x":1}`,
			`{"text":"a","text":"b"}`, `{"text":"a","\u0074ext":"b"}`, `{"text":null}`, `{"text":"a","n":"1"}`, `{"text":"a","on":1}`, `{"text":"a"`, `{"text":"a","n":01}`, `{"text":"a","on":tru}`, `{"text":"\q"}`}},
	{`{"properties":{"e":{"enum":["a","b",1,null]},"any":{},"list":{"type":"array","items":{"type":["integer","null"]}},"of":{"type":"object","properties":{"n":{"type":"number"}},"required":["n"]}}}`,
		[]string{`{}`, `{"e":"a"}`, `{"e":"b","any":1}`, `{"any":null}`, `{"any":"x"}`, `{"list":[]}`, `{"list":[1,null,-3]}`, `{"of":{"n":2}}`},
		[]string{`{"e":1}`, `{"e":null}`, `{"e":"c"}`, `{"e":"\u0061"}`, `{"any":{}}`, `{"any":[]}`, `{"list":["1"]}`, `{"list":{}}`, `{"of":{}}`, `{"of":{"n":1.5}}`, `{"of":{"n":1,"m":1}}`, `{"list":[1000000000000000000000]}`}},
	{`{"type":"object","properties":{"n":{"type":"number","minimum":2}},"additionalProperties":{"type":"string"}}`,
		nil, []string{`{"n":1}`, `{"n":2.5}`, `{"n":3}`, `{"x":"y"}`}},
	{`{"type":"object","properties":{"tags":{"type":"array"}}}`, []string{`{"tags":["a",1]}`}, []string{`{"tags":[{}]}`, `{"tags":[[]]}`}},
	{`{"type":"object","required":["a"]}`, nil, []string{`{"a":1}`, `{}`}},
	{`{"type":"object","properties":{"s":{"type":"string","minLength":2}}}`, nil, []string{`{"s":"ab"}`, `{}`}},
	{`{"type":"object","properties":{"s":{"anyOf":[{"type":"string"},{"type":"null"}]}}}`, nil, []string{`{"s":"ab"}`}},
	{`{"type":"object","properties":{"s":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, nil, []string{`{"s":"ab"}`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"l":{"type":"array","items":{"type":"string"}}}}`, nil, []string{`{"l":["a"]}`}},
	{`{"type":"string"}`, nil, []string{`{}`}},
	{`true`, nil, []string{`{}`}},
	{`{"properties":{"s":false}}`, nil, []string{`{}`, `{"s":1}`}},
}

// TestSimpleSchemas: what a simpleSchema admits, and that the validator finds the same valid.
func TestSimpleSchemas(t *testing.T) {
	for _, s := range simpleSamples {
		for _, text := range s.yes {
			if !admitsLikeValidator(t, s.schema, text) {
				t.Errorf("%s: %s is not admitted", s.schema, text)
			}
		}
		for _, text := range s.left {
			if admitsLikeValidator(t, s.schema, text) {
				t.Errorf("%s: %s is admitted", s.schema, text)
			}
		}
	}
}

// FuzzSimpleSchemas looks for arguments that a simpleSchema admits and the validator refuses.
func FuzzSimpleSchemas(f *testing.F) {
	for _, s := range simpleSamples {
		for _, text := range append(s.yes, s.left...) {
			f.Add(s.schema, text)
		}
	}
	for _, s := range guardSamples {
		for _, text := range s.values {
			f.Add(s.schema, text)
		}
	}
	f.Fuzz(func(t *testing.T, schema, text string) {
		if len(schema) <= 4096 && len(text) <= 4096 {
			admitsLikeValidator(t, schema, text)
		}
	})
}

// admitsLikeValidator reports whether the simpleSchema of a schema admits a value. It fails the test
// if the value is admitted and cannot be decoded or is not valid.
func admitsLikeValidator(t *testing.T, schema, text string) (admitted bool) {
	t.Helper()
	var p patterns
	c, err := compileFree([]byte(schema), &p)
	if err != nil {
		return false
	}
	s := simpleOf(c.schema)
	if s == nil || !rawjson.IsObject([]byte(text)) || !s.admits([]byte(text)[rawjson.SkipSpace([]byte(text), 0):]) {
		return false
	}
	value, err := decode([]byte(text), uniqueKeys)
	if err == nil {
		err = c.schema.Validate(value)
	}
	if err != nil {
		t.Errorf("%s: %s is admitted, but %v", schema, text, err)
	}
	return true
}
