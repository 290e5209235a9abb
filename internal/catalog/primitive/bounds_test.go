package primitive

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// TestBoundTexts: texts are cut by where they stand; values that decide about arguments stay whole.
func TestBoundTexts(t *testing.T) {
	long := strings.Repeat("é", MaxText/2+1)
	for where, definition := range map[string]string{
		"the definition":       `{"name":"t","description":"%"}`,
		"annotations":          `{"annotations":{"title":["%"]}}`,
		"a schema":             `{"inputSchema":{"description":"%"}}`,
		"a property":           `{"outputSchema":{"properties":{"enum":{"title":"%"}}}}`,
		"a schema by name":     `{"inputSchema":{"$defs":{"const":{"items":{"$comment":"%"}}}}}`,
		"enum, not in schemas": `{"enum":["%"]}`,
	} {
		raw := []byte(strings.ReplaceAll(definition, "%", long))
		out, cut, longest, err := BoundTexts(raw)
		before, after, _ := strings.Cut(definition, "%")
		if err != nil || cut != 1 || longest != len(long) || !strings.HasPrefix(string(out), before+"é") || !strings.HasSuffix(string(out), "é…"+after) {
			t.Errorf("%s: %d texts are cut, the longest of %d bytes: %v", where, cut, longest, err)
		}
		if kept := len(out) - len(before) - len(after); kept > MaxText || kept < MaxText-utf8.UTFMax || KeptSize(raw) != len(out) {
			t.Errorf("%s: %d bytes of the text are kept, the size is %d", where, kept, KeptSize(raw))
		}
	}
	for where, definition := range map[string]string{
		"enum":            `{"inputSchema":{"enum":["%"]}}`,
		"const in a list": `{"inputSchema":{"anyOf":[{"const":{"description":"%"}}]}}`,
		"default":         `{"outputSchema":{"properties":{"a":{"default":"%"}}}}`,
		"an escaped key":  `{"inputSchema":{"\u0065num":["%"]}}`,
		"no text":         `{"description":"short"}`,
	} {
		raw := []byte(strings.ReplaceAll(definition, "%", long))
		if out, cut, _, err := BoundTexts(raw); err != nil || cut != 0 || &out[0] != &raw[0] {
			t.Errorf("%s: %d texts are cut: %v", where, cut, err)
		}
	}
	if _, _, _, err := BoundTexts([]byte(`{"` + long + `":1}`)); err == nil {
		t.Error("a key is cut")
	}
}
