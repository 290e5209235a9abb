package setup

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// third is another token.
const third = "ghp_cccccccccccccccccccccccccccccccccccc3"

// TestHiddenElements changes a list with two secrets that look the same. Each keeps its own place, and
// a change that does not say which one it means is refused.
func TestHiddenElements(t *testing.T) {
	const other = "sk-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb2"
	for _, test := range []struct{ args, want string }{
		{`["--token","•••","--api-key","•••","--verbose"]`, `["--token","` + token + `","--api-key","` + other + `","--verbose"]`},
		{`["-v","--token","•••","--api-key","•••"]`, `["-v","--token","` + token + `","--api-key","` + other + `"]`},
		{`["--token","` + third + `","--api-key","•••"]`, `["--token","` + third + `","--api-key","` + other + `"]`},
		{`["--api-key","•••","--token","•••"]`, `["--api-key","` + other + `","--token","` + token + `"]`},
		{`["--api-key","•••"]`, `["--api-key","` + other + `"]`},
		{`["•••","--token"]`, ""},
		{`["--other","•••"]`, ""},
		{`["--token","•••","--api-key","•••","•••"]`, ""},
	} {
		m := machineWith(t, "mcpServers:\n  a:\n    command: x\n    args: [--token, "+token+", --api-key, "+other+"]\n")
		m.Journal = m.Journal.AtOnce()
		change, err := splice.Decode([]byte(`{"args":`+test.args+`}`), splice.JSON)
		if err != nil {
			t.Fatal(err)
		}
		p, err := m.Amend("a", change.(splice.Object))
		if test.want == "" {
			if !errors.Is(err, errHidden) {
				t.Errorf("%s: %v", test.args, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", test.args, err)
			continue
		}
		if _, err := p.Apply(t.Context(), Store); err != nil {
			t.Fatal(err)
		}
		_, entry, err := m.entry("a")
		if err != nil {
			t.Fatal(err)
		}
		got, err := json.Marshal(entry.Get("args"))
		if err != nil {
			t.Fatal(err)
		}
		text := string(got)
		for name, value := range m.Secrets.(shelf) {
			text = strings.ReplaceAll(text, "${secret:"+name+"}", value)
		}
		if text != test.want {
			t.Errorf("%s: %s", test.args, text)
		}
	}
}

// TestListsOfObjects changes a list whose elements are objects and lists.
func TestListsOfObjects(t *testing.T) {
	m := machineWith(t, "mcpServers:\n  a:\n    command: x\n    rules: [{a: 1}, [b]]\n")
	change, err := splice.Decode([]byte(`{"rules":[{"a":2},["c"]]}`), splice.JSON)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := m.Amend("a", change.(splice.Object)); err != nil || p.Empty() {
		t.Errorf("%v", err)
	}
}
