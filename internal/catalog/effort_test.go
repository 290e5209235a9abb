package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/limit/work"
)

// programsOf compiles a schema for light and for guarded validation.
func programsOf(t testing.TB, schema string) (free func(any) error, guarded func(*work.Meter, any, int) error) {
	t.Helper()
	var p patterns
	c, err := compileFree([]byte(schema), &p)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	g, err := newGuarded([]byte(schema), &p)
	if err != nil {
		t.Fatalf("%s: %v", schema, err)
	}
	return c.schema.Validate, g.validate
}

func problemsOf(err error) []Problem {
	var ve *jsonschema.ValidationError
	if errors.As(err, &ve) {
		return flatten(ve)
	}
	return nil
}

var guardSamples = []struct {
	schema string
	values []string
}{
	{`{"properties":{"a":{"type":"string","minLength":2},"b":{"items":{"type":"integer","minimum":3}}},"required":["a"],"additionalProperties":false}`,
		[]string{`{}`, `{"a":"x"}`, `{"a":"xy","b":[3,4]}`, `{"a":1,"b":[1,"x",5],"c":1}`, `[]`, `7`}},
	{`{"contains":{"type":"integer"}}`, []string{`[]`, `["a"]`, `["a",1]`, `{}`}},
	{`{"contains":{"type":"integer"},"minContains":2,"maxContains":3}`, []string{`[1]`, `[1,2,"a"]`, `[1,2,3,4]`, `[]`}},
	{`{"contains":{"type":"integer"},"minContains":0,"maxContains":1}`, []string{`[]`, `[1,2]`}},
	{`{"prefixItems":[{"type":"string"}],"contains":{"type":"integer"},"unevaluatedItems":false}`, []string{`["a",1,2]`, `["a",1,"b"]`, `["a"]`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"},{"pattern":"^b"}],"additionalItems":{"type":"integer"},"contains":{"const":1}}`,
		[]string{`["a","b",1]`, `["a","c",1]`, `["a","b","c"]`, `[1]`}},
	{`{"$schema":"http://json-schema.org/draft-04/schema#","properties":{"n":{"maximum":5,"exclusiveMaximum":true}},"dependencies":{"n":["m"],"m":{"required":["k"]}}}`,
		[]string{`{"n":5,"m":1,"k":1}`, `{"n":1}`, `{"n":1,"m":2}`, `{"n":4,"m":1,"k":1}`}},
	{`{"allOf":[{"properties":{"a":{"type":"string"}}},{"properties":{"b":true}}],"unevaluatedProperties":false}`, []string{`{"a":"x","b":1}`, `{"a":"x","c":1}`, `{"a":1}`}},
	{`{"anyOf":[{"properties":{"a":{"const":1}},"required":["a"]},{"properties":{"b":{"items":{"type":"string"}}},"required":["b"]}],"unevaluatedProperties":{"type":"null"}}`,
		[]string{`{"a":1}`, `{"b":["x"]}`, `{"a":1,"b":["x"],"c":null}`, `{"a":1,"c":2}`, `{"b":[1]}`, `{}`}},
	{`{"oneOf":[{"items":{"type":"string"}},{"items":{"type":"integer"}},{"maxItems":0}]}`, []string{`["a"]`, `[1]`, `[]`, `[1,"a"]`}},
	{`{"if":{"properties":{"k":{"const":"x"}},"required":["k"]},"then":{"required":["x"]},"else":{"properties":{"y":{"type":"array","uniqueItems":true}}}}`,
		[]string{`{"k":"x"}`, `{"k":"x","x":1}`, `{"y":[1,1]}`, `{"y":[1,2]}`}},
	{`{"not":{"items":{"not":{"type":"string"}}}}`, []string{`["a"]`, `[1]`, `[]`}},
	{`{"propertyNames":{"pattern":"^[a-z]+$","maxLength":3}}`, []string{`{"abc":1}`, `{"ABC":1}`, `{"abcd":1}`}},
	{`{"patternProperties":{"^a":{"type":"integer"},"b$":{"minimum":3}},"additionalProperties":{"type":"null"}}`, []string{`{"ab":4}`, `{"ab":1}`, `{"a":"x"}`, `{"c":null}`, `{"c":1}`}},
	{`{"dependentSchemas":{"a":{"properties":{"b":{"type":"integer"}},"required":["b"]}},"dependentRequired":{"c":["d"]}}`, []string{`{"a":1}`, `{"a":1,"b":"x"}`, `{"c":1}`, `{"c":1,"d":1}`}},
	{`{"$ref":"#/$defs/tree","$defs":{"tree":{"required":["v"],"properties":{"v":{"type":"integer"},"kids":{"items":{"$ref":"#/$defs/tree"}}}}}}`,
		[]string{`{"v":1,"kids":[{"v":2,"kids":[{"v":3}]}]}`, `{"v":1,"kids":[{"v":2,"kids":[{}]}]}`, `{"v":"x"}`}},
	{`{"$id":"https://e.com/strict","$dynamicAnchor":"node","$ref":"#/$defs/base","unevaluatedProperties":false,"$defs":{"base":{"$id":"https://e.com/base","$dynamicAnchor":"node","properties":{"v":true,"kids":{"items":{"$dynamicRef":"#node"}}}}}}`,
		[]string{`{"v":1,"kids":[{"v":2}]}`, `{"v":1,"kids":[{"w":2}]}`, `{"x":1}`}},
	{`{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"properties":{"kids":{"items":{"$recursiveRef":"#"}},"v":{"type":"integer"}},"unevaluatedProperties":false}`,
		[]string{`{"v":1,"kids":[{"v":2}]}`, `{"v":1,"kids":[{"v":"x"}]}`, `{"kids":[{"x":1}]}`}},
	{`{"properties":{"s":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, []string{`{"s":{"type":"object"}}`, `{"s":{"type":"objekt"}}`, `{"s":{"properties":{"a":{"items":7}}}}`}},
	{`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"r":{"format":"regex"},"d":{"format":"date"}}}`, []string{`{"r":"(","d":"x"}`, `{"r":"(?=a)","d":"2024-01-02"}`}},
	{`{"items":{"allOf":[{"anyOf":[{"type":"string"},{"items":{"type":"string"}}]}],"enum":["a",["b"],["c",1],2]}}`, []string{`["a",["b"]]`, `[["c",1]]`, `[2]`}},
	{`{"properties":{"a":false,"b":true,"c":{"const":{"x":[1]}}},"minProperties":1,"maxProperties":2}`, []string{`{"a":1}`, `{"b":1,"c":{"x":[1.0]}}`, `{"c":{"x":[2]}}`, `{}`, `{"b":1,"c":1,"d":1}`}},
}

// TestGuardsChangeNothing: a guarded program finds what the plain one finds.
func TestGuardsChangeNothing(t *testing.T) {
	for _, s := range guardSamples {
		free, guarded := programsOf(t, s.schema)
		for _, text := range s.values {
			value, err := decode([]byte(text), uniqueKeys)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 { // what one validation leaves must not change the next
				want, got := free(value), guarded(nil, value, len(text))
				if (want == nil) != (got == nil) || !slices.Equal(problemsOf(want), problemsOf(got)) {
					t.Errorf("%s\n%s: %q, want %q", s.schema, text, problemsOf(got), problemsOf(want))
				}
			}
		}
	}
}

// FuzzGuards looks for a schema whose guards change what is valid.
func FuzzGuards(f *testing.F) {
	for _, s := range guardSamples {
		for _, v := range s.values {
			f.Add(s.schema, v)
		}
	}
	f.Fuzz(func(t *testing.T, schema, text string) {
		value, err := decode([]byte(text), lastKeyWins)
		if err != nil || len(text) > 4096 || len(schema) > 4096 {
			return
		}
		var p patterns
		c, err := compileFree([]byte(schema), &p)
		if err != nil {
			return
		}
		if w := weigh(c.schema, map[*jsonschema.Schema]weight{}); !w.light(value, len(text)) && w.steps < endless {
			return // takes long without guards
		}
		g, err := newGuarded([]byte(schema), &p)
		if err != nil {
			t.Fatalf("%s: %v", schema, err)
		}
		got := g.validate(nil, value, len(text))
		var costly *costlyPattern
		if errors.Is(got, errEffort) || errors.As(got, &costly) {
			return
		}
		if want := c.schema.Validate(value); (want == nil) != (got == nil) {
			t.Errorf("%s\n%s: %v, want %v", schema, text, got, want)
		}
	})
}

// TestCostlyPatterns: patterns end with the work they may cause, and say so.
func TestCostlyPatterns(t *testing.T) {
	long := strings.Repeat("a", 200<<10)
	for name, c := range map[string]struct{ schema, args string }{
		"one pattern":        {`{"properties":{"a":{"pattern":"(?:a?){300}b"}}}`, `{"a":"` + long + `"}`},
		"many of them":       {`{"properties":{"a":{"items":{"not":{"pattern":"(?:a?){300}b"}}}}}`, `{"a":[` + strings.Repeat(`"`+strings.Repeat("a", 1000)+`",`, 2000) + `""]}`},
		"names":              {`{"propertyNames":{"pattern":"(?:a?){300}b"}}`, `{"` + long + `":1}`},
		"pattern properties": {`{"patternProperties":{"(?:a?){300}b":{}}}`, `{"` + long + `":1}`},
		"in a branch":        {`{"properties":{"a":{"anyOf":[{"not":{"pattern":"(?:a?){300}b"}},{"type":"null"}]}}}`, `{"a":"` + long + `"}`},
		"in contains":        {`{"properties":{"a":{"contains":{"pattern":"(?:a?){300}b"}}}}`, `{"a":["` + long + `"]}`},
	} {
		e := entryWith(t, c.schema)
		_ = e.Validate(nil)
		g, err := e.check.checker().guarded.take(e.check.schema)
		if err != nil || g.most != maxPatterns {
			t.Fatalf("%d units, %v", g.most, err)
		}
		g.most = 2_000_000 // the same, sooner
		e.check.checker().guarded.give(g)
		m := work.NewMeter(t.Context(), work.Options{})
		var refused *Error
		if got := e.ValidateWithin(json.RawMessage(c.args), func() *work.Meter { return m }); !errors.As(got, &refused) || refused.Code != ArgsInvalid || !strings.Contains(refused.Message, "too expensive for an argument of") {
			t.Errorf("%s: %v, want ARGS_INVALID", name, got)
		}
		if m.Spent() > 2_200_000+100_000*stepUnits {
			t.Errorf("%s: %d units were spent", name, m.Spent())
		}
		// The next call of the same tool is as if nothing had been.
		if err := e.Validate(json.RawMessage(`{}`)); err != nil {
			t.Errorf("%s, afterwards: %v", name, err)
		}
	}
	// Programs that ask for too much memory are left to the server, as all are that weir cannot match.
	for name, schema := range map[string]string{
		"one":  `{"properties":{"a":{"pattern":"` + strings.Repeat("[a-f]?[g-k]?", 4500) + `"}}}`,
		"many": `{"properties":{` + strings.Repeat(`"x":{},`, 3) + many(100, `"p%d":{"pattern":"(?:(?:a{10}){10}){9}%[1]d"}`) + `}}`,
	} {
		c, report := New(Limits{}).With(primitive.Listing{Upstream: "web", Namespace: "web", Tools: raws(`{"name":"t","description":"d","inputSchema":` + schema + `}`)})
		if !report.Has(FoundPattern) || report.Has(FoundSchema) {
			t.Errorf("%s: %v", name, report.Findings)
		}
		if err := c.Entries()[0].Validate(json.RawMessage(`{"a":"` + long + `"}`)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func many(n int, format string) string {
	var parts []string
	for i := range n {
		parts = append(parts, fmt.Sprintf(format, i))
	}
	return strings.Join(parts, ",")
}

// TestValidationEndsWithItsContext: whatever a schema makes of its arguments, a
// validation ends when the call does, and does not wait for others of the tool.
func TestValidationEndsWithItsContext(t *testing.T) {
	numbers := `[` + strings.Repeat(`1,`, 100_000) + `1]`
	for name, c := range map[string]struct{ schema, args string }{
		"a pattern":          {`{"properties":{"a":{"pattern":"(?:a?){100}b"}}}`, `{"a":"` + strings.Repeat("a", 400_000) + `"}`},
		"contains in itself": {`{"properties":{"a":{"contains":{"contains":{"contains":{"type":"string"}}}}}}`, `{"a":[[` + numbers + `]]}`},
		"pattern properties": {`{"patternProperties":{` + many(300, `"^a%d":{"type":"string"}`) + `}}`, `{` + many(5000, `"b%d":1`) + `}`},
		"many forms":         {`{"properties":{"a":{"items":{"anyOf":[` + many(200, `{"items":{"const":%d}}`) + `]}}}}`, `{"a":[` + strings.Repeat(`["x"],`, 2000) + `[]]}`},
		"a tree":             {`{"properties":{"a":{"$ref":"#/$defs/t"}},"$defs":{"t":{"items":{"anyOf":[{"type":"integer"},{"$ref":"#/$defs/t"}]}}}}`, `{"a":` + numbers + `}`},
	} {
		e := entryWith(t, c.schema)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := work.NewMeter(ctx, work.Options{})
		if err := e.ValidateWithin(json.RawMessage(c.args), func() *work.Meter { return m }); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", name, err)
		}
		if m.Spent() > 2*work.Small {
			t.Errorf("%s: %d units were spent", name, m.Spent())
		}
	}
}

// TestErrorsAreBounded: a validation that fails everywhere keeps no more errors
// than it tells.
func TestErrorsAreBounded(t *testing.T) {
	numbers := `[` + strings.Repeat(`1,`, 60_000) + `1]`
	for name, c := range map[string]struct {
		schema, args string
		want         int // problems; 0: valid
	}{
		"items":    {`{"properties":{"a":{"items":{"type":"string"}}}}`, `{"a":` + numbers + `}`, maxProblems},
		"contains": {`{"properties":{"a":{"contains":{"type":"string"}}}}`, `{"a":` + numbers + `}`, maxProblems},
		"contains in itself": {`{"properties":{"a":{"contains":{"contains":{"contains":{"type":"string"}}}}}}`,
			`{"a":[[` + numbers + `]]}`, maxProblems},
		"a form that fails": {`{"properties":{"a":{"anyOf":[{"items":{"type":"string"}},{"items":{"type":"integer"}}]}}}`, `{"a":` + numbers + `}`, 0},
		"all forms fail":    {`{"properties":{"a":{"anyOf":[{"items":{"type":"string"}},{"items":{"type":"null"}}]}}}`, `{"a":` + numbers + `}`, maxProblems},
		"not":               {`{"properties":{"a":{"not":{"items":{"type":"string"}}}}}`, `{"a":` + numbers + `}`, 0},
		"unknown names in many forms": {`{"anyOf":[` + many(200, `{"properties":{"x%d":{"items":{}}},"additionalProperties":false}`) + `]}`,
			`{` + many(5000, `"b%d":1`) + `}`, maxProblems},
	} {
		e := entryWith(t, c.schema)
		if err := e.Validate(json.RawMessage(`{"a":[]}`)); err != nil && name != "contains" && name != "contains in itself" && name != "not" && !strings.HasPrefix(name, "unknown") {
			t.Fatalf("%s: %v", name, err)
		}
		value, err := decode([]byte(c.args), uniqueKeys)
		if err != nil {
			t.Fatal(err)
		}
		g, err := e.check.checker().guarded.take(e.check.schema)
		if err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		got := g.validate(nil, value, len(c.args))
		runtime.GC()
		runtime.ReadMemStats(&after)
		if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 2<<20 {
			t.Errorf("%s: %d bytes are kept", name, kept)
		}
		if n := len(problemsOf(got)); n != c.want || (got == nil) != (c.want == 0) {
			t.Errorf("%s: %d problems (%v), want %d", name, n, got != nil, c.want)
		}
		runtime.KeepAlive(got)
	}
}

// TestGuardedConcurrently: heavy calls of one tool do not wait for each other.
func TestGuardedConcurrently(t *testing.T) {
	e := entryWith(t, `{"properties":{"a":{"items":{"anyOf":[{"type":"string","pattern":"^x+$"},{"type":"array","items":{"type":"integer"}}]}}}}`)
	good := json.RawMessage(`{"a":[` + strings.Repeat(`"xx",[1],`, 2000) + `"x"]}`)
	bad := json.RawMessage(`{"a":[` + strings.Repeat(`"xx",[1],`, 2000) + `"y"]}`)
	var wg sync.WaitGroup
	for range 6 {
		wg.Go(func() {
			for range 3 {
				var err *Error
				if got := e.Validate(good); got != nil {
					t.Error(got)
				}
				if got := e.Validate(bad); !errors.As(got, &err) || err.Code != ArgsInvalid || !strings.HasPrefix(err.Problems[0].Path, "/a/4000") {
					t.Error(got)
				}
			}
		})
	}
	wg.Wait()
	if n := len(e.check.checker().guarded.idle); n == 0 || n > maxIdle {
		t.Errorf("%d programs are kept", n)
	}
}

// The price of guards for many rows, as a ratio to the same without guards.
func BenchmarkGuarded(b *testing.B) {
	const schema = `{"type":"object","properties":{"rows":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"name":{"type":"string","minLength":1},"tags":{"type":"array","items":{"type":"string"}}},"required":["id"]}}}}`
	free, guarded := programsOf(b, schema)
	args := `{"rows":[` + strings.Repeat(`{"id":7,"name":"somebody","tags":["a","b"]},`, 2000) + `{"id":8}]}`
	value, err := decode([]byte(args), uniqueKeys)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("guarded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := guarded(nil, value, len(args)); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("baseline", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := free(value); err != nil {
				b.Fatal(err)
			}
		}
	})
}
