package catalog

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// A long text is as valid as it was, whatever the schema says of texts.
func TestLongTexts(t *testing.T) {
	long := strings.Repeat("é", 50_000)
	for name, tt := range map[string]struct {
		text  string // the schema of the member text
		value string
		valid bool
	}{
		"a string":        {`{"type":"string"}`, long, true},
		"a number":        {`{"type":"number"}`, long, false},
		"enum":            {`{"enum":["é","éé"]}`, long, false},
		"its beginning":   {`{"const":` + string(rawjson.Quote(long[:1000])) + `}`, long, false},
		"too long":        {`{"maxLength":49999}`, long, false},
		"long enough":     {`{"minLength":50000}`, long, true},
		"pattern":         {`{"pattern":"x$"}`, long + "x", true},
		"another pattern": {`{"pattern":"x$"}`, long, false},
		"reference":       {`{"$ref":"#/$defs/a"}`, long, false},
		"lists":           {`{"type":"array","items":{"type":"string"},"uniqueItems":true}`, "", true},
	} {
		schema := `{"type":"object","properties":{"text":` + tt.text + `},"$defs":{"a":{"type":"null"}}}`
		e := entryWith(t, schema)
		for form, value := range map[string]string{"plain": string(rawjson.Quote(tt.value)), "escaped": escapes(tt.value)} {
			if name == "lists" {
				value = `[` + string(rawjson.Quote(long+"a")) + `,` + string(rawjson.Quote(long+"b")) + `]`
			}
			if err := e.Validate(json.RawMessage(`{"text":` + value + `}`)); (err == nil) != tt.valid {
				t.Errorf("%s, %s: %.300v", name, form, err)
			}
		}
	}
}

func escapes(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		fmt.Fprintf(&b, `\u%04x`, r)
	}
	return b.String() + `"`
}

func TestTextClip(t *testing.T) {
	for schema, clips := range map[string]bool{
		`{"type":"string"}`:                       true,
		`{"properties":{"a":{"format":"date"}}}`:  false,
		`{"$ref":"#/$defs/a"}`:                    true,
		`{"$ref" : "https://example.com/schema"}`: false,
		`{"$dynamicRef":"other#a"}`:               false,
		`{"properties":{"brief":{}}}`:             false, // a name that ends as a reference does
		`{"\u0070attern":"a"}`:                    false,
	} {
		if got := textClip([]byte(schema)) > 0; got != clips {
			t.Errorf("%s: %t, want %t", schema, got, clips)
		}
	}
}

// The beginning of a text is a JSON string of whole characters and escapes.
func TestClipText(t *testing.T) {
	for _, unit := range []string{"a", "é", "水", `\n`, `\\`, `\"`, `\u00e9`, `\ud83d\ude00`, `a\\\"é`} {
		raw := []byte(`"` + strings.Repeat(unit, 1000) + `"`)
		before := string(raw)
		for clip := 90; clip < 110; clip++ {
			got := clipText(raw, clip)
			if err := rawjson.Valid(got); err != nil || !utf8.Valid(got) || len(got) < clip || len(got) > clip+20 {
				t.Errorf("%s, %d: %s, %v", unit, clip, got, err)
			}
		}
		if string(raw) != before {
			t.Errorf("%s: the text has changed", unit)
		}
	}
}

// BenchmarkValidateLongText measures a text of 100 KB that has to be a text.
func BenchmarkValidateLongText(b *testing.B) {
	e := entryWith(b, `{"type":"object","properties":{"text":{"type":"string"}}}`)
	args := json.RawMessage(`{"text":"` + strings.Repeat("over the weir ", 7300) + `"}`)
	b.SetBytes(int64(len(args)))
	b.ReportAllocs()
	for b.Loop() {
		if err := e.Validate(args); err != nil {
			b.Fatal(err)
		}
	}
}
