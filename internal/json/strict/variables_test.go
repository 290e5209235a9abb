package strict_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/strict"
)

// TestVariables lists texts with references, and a part of the message where one is wrong.
func TestVariables(t *testing.T) {
	var used []string
	v := strict.Variables{
		Lookup: func(name string) (string, bool) {
			return map[string]string{"A": "a", "REF": "${A}", "NONE": ""}[name], name != "B"
		},
		Other: func(ref string) (string, bool, error) {
			return strings.ToUpper(ref), strings.HasPrefix(ref, "upper:"), nil
		},
		Others:   " and ${upper:x}",
		Resolved: func(name, value string) { used = append(used, name+"="+value) },
	}
	for text, want := range map[string]string{
		"":                       "",
		"plain $ {A}":            "plain $ {A}",
		"${A}-${env:A}":          "a-a",
		"${REF}":                 "${A}",
		"${NONE:-${B:-${A}}}":    "a",
		"$${A}":                  "${A}",
		"${upper:x}":             "UPPER:X",
		"${A:-unused ${MISSING}": "error: without a closing }",
		"${B}":                   "error: the environment variable B is not set",
		"${a b}":                 "error: known are ${VAR}, ${VAR:-default}, ${env:VAR} and ${upper:x};",
		strings.Repeat("${B:-", 18) + strings.Repeat("}", 18): "error: nested more than 16 deep",
	} {
		got, err := v.Expand(text)
		if part, wrong := strings.CutPrefix(want, "error: "); wrong {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%q: %q, %v, want %q", text, got, err, part)
			}
		} else if err != nil || got != want {
			t.Errorf("%q: %q, %v, want %q", text, got, err, want)
		}
	}
	if !slices.Contains(used, "A=a") || !slices.Contains(used, "REF=${A}") || slices.ContainsFunc(used, func(s string) bool { return strings.HasPrefix(s, "NONE") }) {
		t.Errorf("used were %q", used)
	}
	if got := strict.References("${A:-x} $${B} ${secret:C} ${A} ${"); !slices.Equal(got, []string{"${A}", "${secret:C}"}) {
		t.Errorf("references %q", got)
	}
}
