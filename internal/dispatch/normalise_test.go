package dispatch

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/weir-mcp/weir/internal/result"
)

const typedSchema = `{"type":"object","properties":{
	"i":{"type":"integer"},"n":{"type":"number"},"b":{"type":"boolean"},"z":{"type":"null"},"s":{"type":"string"},
	"oi":{"type":["integer","null"]},"os":{"type":["string","null"]},"nb":{"type":["boolean","number"]},"any":{},"o":{"type":"object","properties":{"i":{"type":"integer"}}},
	"ns":{"type":["null","string"]},
	"opt":{"anyOf":[{"type":"integer"},{"type":"null"}],"default":null},"one":{"oneOf":[{"type":"boolean"},{"type":"number"}]},"all":{"allOf":[{"type":"number"},{"type":"integer","minimum":1}]},
	"ref":{"$ref":"#/$defs/Count"},"optref":{"anyOf":[{"$ref":"#/$defs/Count"},{"type":"null"}]},"optstr":{"anyOf":[{"type":"integer"},{"type":"string"}]},
	"open":{"anyOf":[{"type":"integer"},{}]},"never":{"$ref":"#/$defs/None"},"far":{"$ref":"https://example.com/x"},"loop":{"$ref":"#/$defs/Loop"},"narrow":{"$ref":"#/$defs/Loop","type":"integer"}},
	"$defs":{"Count":{"type":"integer"},"Loop":{"anyOf":[{"$ref":"#/$defs/Loop"}]}}}`

func TestNormaliseRules(t *testing.T) {
	repair := func(path, rule string) []result.ArgRepair { return []result.ArgRepair{{Path: path, Rule: rule}} }
	for _, tt := range []struct {
		name, in, out string
		repairs       []result.ArgRepair
	}{
		{"object", `"{\"i\":1}"`, `{"i":1}`, repair("$", ruleStringifiedObject)},
		{"object with mark and space", `"\ufeff \n{\"i\": 1 }\t "`, `{"i": 1 }`, repair("$", ruleStringifiedObject)},
		{"object and field", `"{\"i\":\"1\"}"`, `{"i":1}`, []result.ArgRepair{{Path: "$", Rule: ruleStringifiedObject}, {Path: "$.i", Rule: ruleStrToInteger}}},
		{"array in a string", `"[1]"`, `"[1]"`, nil},
		{"broken object", `"{\"i\":"`, `"{\"i\":"`, nil},
		{"half of a surrogate pair", `"{\"s\":\"\\ud83d\"}"`, `"{\"s\":\"\\ud83d\"}"`, nil},
		{"twice stringified", `"\"{}\""`, `"\"{}\""`, nil},
		{"no object", `7`, `7`, nil},

		{"integer", `{"i":"42"}`, `{"i":42}`, repair("$.i", ruleStrToInteger)},
		{"negative integer", `{"i":"-7"}`, `{"i":-7}`, repair("$.i", ruleStrToInteger)},
		{"integer of twenty digits", `{"i":"12345678901234567890"}`, `{"i":12345678901234567890}`, repair("$.i", ruleStrToInteger)},
		{"integer with a fraction", `{"i":"1.0"}`, `{"i":"1.0"}`, nil},
		{"integer with an exponent", `{"i":"1e3"}`, `{"i":"1e3"}`, nil},
		{"integer with a plus", `{"i":"+1"}`, `{"i":"+1"}`, nil},
		{"integer with a zero in front", `{"i":"007"}`, `{"i":"007"}`, nil},
		{"integer with space", `{"i":" 1"}`, `{"i":" 1"}`, nil},
		{"empty string", `{"i":""}`, `{"i":""}`, nil},

		{"number", `{"n":"2.50"}`, `{"n":2.50}`, repair("$.n", ruleStrToNumber)},
		{"number with an exponent", `{"n":"-1.5E+3"}`, `{"n":-1.5E+3}`, repair("$.n", ruleStrToNumber)},
		{"whole number", `{"n":"3"}`, `{"n":3}`, repair("$.n", ruleStrToNumber)},
		{"infinite number", `{"n":"1e999"}`, `{"n":"1e999"}`, nil},
		{"NaN", `{"n":"NaN"}`, `{"n":"NaN"}`, nil},
		{"Infinity", `{"n":"Infinity"}`, `{"n":"Infinity"}`, nil},
		{"number with space", `{"n":"1 "}`, `{"n":"1 "}`, nil},
		{"hexadecimal", `{"n":"0x10"}`, `{"n":"0x10"}`, nil},

		{"true", `{"b":"true"}`, `{"b":true}`, repair("$.b", ruleStrToBoolean)},
		{"false", `{"b":"false"}`, `{"b":false}`, repair("$.b", ruleStrToBoolean)},
		{"True", `{"b":"True"}`, `{"b":"True"}`, nil},
		{"yes", `{"b":"yes"}`, `{"b":"yes"}`, nil},
		{"1 for a boolean", `{"b":"1"}`, `{"b":"1"}`, nil},

		{"null", `{"z":"null"}`, `{"z":null}`, repair("$.z", ruleStrToNull)},
		{"null of integer or null", `{"oi":"null"}`, `{"oi":null}`, repair("$.oi", ruleStrToNull)},
		{"null of string or null", `{"os":"null"}`, `{"os":"null"}`, nil},
		{"null of null or string", `{"ns":"null"}`, `{"ns":"null"}`, nil},
		{"None", `{"z":"None"}`, `{"z":"None"}`, nil},

		{"a string is never coerced", `{"s":"42"}`, `{"s":"42"}`, nil},
		{"no declared type", `{"any":"42"}`, `{"any":"42"}`, nil},
		{"unknown key stays", `{"q":"42","i":"1"}`, `{"q":"42","i":1}`, repair("$.i", ruleStrToInteger)},
		{"nested fields stay", `{"o":{"i":"1"}}`, `{"o":{"i":"1"}}`, nil},
		{"what is right stays", `{ "i" : 1, "b":true }`, `{ "i" : 1, "b":true }`, nil},
		{"spacing and order stay", `{ "b" : "true" , "i":"2", "s":"x" }`, `{ "b" : true , "i":2, "s":"x" }`, []result.ArgRepair{{Path: "$.b", Rule: ruleStrToBoolean}, {Path: "$.i", Rule: ruleStrToInteger}}},
		{"optional integer", `{"opt":"5"}`, `{"opt":5}`, repair("$.opt", ruleStrToInteger)},
		{"null of an optional integer", `{"opt":"null"}`, `{"opt":null}`, repair("$.opt", ruleStrToNull)},
		{"a word for an optional integer", `{"opt":"five"}`, `{"opt":"five"}`, nil},
		{"one of boolean and number", `{"one":"true"}`, `{"one":true}`, repair("$.one", ruleStrToBoolean)},
		{"all of number and integer", `{"all":"1.5"}`, `{"all":"1.5"}`, nil},
		{"whole number for all of number and integer", `{"all":"2"}`, `{"all":2}`, repair("$.all", ruleStrToInteger)},
		{"referred integer", `{"ref":"5"}`, `{"ref":5}`, repair("$.ref", ruleStrToInteger)},
		{"optional referred integer", `{"optref":"5"}`, `{"optref":5}`, repair("$.optref", ruleStrToInteger)},
		{"integer or string", `{"optstr":"5"}`, `{"optstr":"5"}`, nil},
		{"integer or anything", `{"open":"5"}`, `{"open":"5"}`, nil},
		{"a reference to nowhere", `{"never":"5"}`, `{"never":"5"}`, nil},
		{"a reference to elsewhere", `{"far":"5"}`, `{"far":"5"}`, nil},
		{"a reference in a circle", `{"loop":"5"}`, `{"loop":"5"}`, nil},
		{"a circle of integers", `{"narrow":"5"}`, `{"narrow":5}`, repair("$.narrow", ruleStrToInteger)},
		{"boolean or number", `{"nb":"1.5"}`, `{"nb":1.5}`, repair("$.nb", ruleStrToNumber)},
	} {
		got, repairs := normalise(json.RawMessage(tt.in), json.RawMessage(typedSchema))
		if string(got) != tt.out || !slices.Equal(repairs, tt.repairs) {
			t.Errorf("%s: %s becomes %s with %v, want %s with %v", tt.name, tt.in, got, repairs, tt.out, tt.repairs)
		}
	}
}

func TestNormaliseWithoutSchema(t *testing.T) {
	for _, schema := range []string{"", `true`, `{"properties":7}`, `{"properties":{"i":true}}`, `{"properties":{"i":{"type":7}}}`} {
		if got, repairs := normalise(json.RawMessage(`{"i":"1"}`), json.RawMessage(schema)); string(got) != `{"i":"1"}` || repairs != nil {
			t.Errorf("%s: %s, %v", schema, got, repairs)
		}
	}
}

// Fields of a schema that is put together of others are known, too.
func TestNormaliseComposedSchema(t *testing.T) {
	const schema = `{"$ref":"#/$defs/Args","allOf":[{"properties":{"b":{"type":"boolean"},"x":{"type":"integer"}}}],
		"$defs":{"Args":{"type":"object","properties":{"i":{"type":"integer"},"x":{"type":"string"}}}}}`
	got, repairs := normalise(json.RawMessage(`{"i":"1","b":"true","x":"2"}`), json.RawMessage(schema))
	if string(got) != `{"i":1,"b":true,"x":"2"}` || len(repairs) != 2 {
		t.Errorf("%s, %v", got, repairs)
	}
}

func FuzzNormalise(f *testing.F) {
	f.Add(`{"i":"1","n":"1e5"}`)
	f.Add(`"{\"i\":\"1\"}"`)
	f.Fuzz(func(t *testing.T, args string) {
		if !json.Valid([]byte(args)) {
			return
		}
		got, repairs := normalise(json.RawMessage(args), json.RawMessage(typedSchema))
		if !json.Valid(got) {
			t.Errorf("%q becomes %q", args, got)
		}
		if len(repairs) == 0 && string(got) != args {
			t.Errorf("%q becomes %q without a repair", args, got)
		}
	})
}
