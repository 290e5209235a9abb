package primitive

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestConcealed: texts are replaced at any depth and in any spelling; what a schema
// means, and what there is nothing to replace in, keeps its bytes.
func TestConcealed(t *testing.T) {
	replace := func(s string) string { return strings.ReplaceAll(s, "letmein", "[redacted]") }
	for in, want := range map[string]string{
		`{"name":"letmein","description":"key \u006cetmein"}`:                                          `{"name":"letmein","description":"key [redacted]"}`,
		`{ "uri" : "x://letmein", "title":"letmein" }`:                                                 `{ "uri" : "x://letmein", "title":"[redacted]" }`,
		`{"inputSchema":{"properties":{"name":{"default":"letmein"}}}}`:                                `{"inputSchema":{"properties":{"name":{"default":"[redacted]"}}}}`,
		`{"enum":["letmein","a"],"examples":["letmein"]}`:                                              `{"enum":["letmein","a"],"examples":["[redacted]"]}`,
		`{"const":"letmein","pattern":"^letmein$","required":["letmein"],"properties":{"letmein":{}}}`: `{"const":"letmein","pattern":"^letmein$","required":["letmein"],"properties":{"letmein":{}}}`,
		`{"properties":{"enum":{"description":"letmein"},"const":{"title":"letmein"}}}`:                `{"properties":{"enum":{"description":"[redacted]"},"const":{"title":"[redacted]"}}}`,
		`{"description":"nothing",   "n":1.50}`:                                                        `{"description":"nothing",   "n":1.50}`,
		`{"broken`:                                                                                     `{"broken`,
		``:                                                                                             ``,
	} {
		given := []json.RawMessage{json.RawMessage(`{"name":"first"}`), json.RawMessage(in)}
		l := Listing{Upstream: "u", Tools: given, Prompts: given}.Concealed(replace)
		if string(l.Tools[1]) != want || string(l.Prompts[1]) != want || string(given[1]) != in {
			t.Errorf("%s became %s, want %s; the listing it was taken from has %s", in, l.Tools[1], want, given[1])
		}
	}
}
