package primitive

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/weir-mcp/weir/internal/json/rawjson"
)

// TestPresented: the texts of a handshake are bounded and have no invisible characters; the greeting
// keeps its bytes.
func TestPresented(t *testing.T) {
	long := strings.Repeat("é", 2*maxInstructions)
	info := `{"name":"x","title":"Of\u200bfice","description":"` + long + `"}`
	l := Listing{Title: "old", About: "old", Instructions: "old"}.Presented([]byte(info), "Use\u202e it. "+long)
	if l.Title != "Office" || utf8.RuneCountInString(l.About) != maxInstructions || !strings.HasPrefix(l.Instructions, "Use it. é") {
		t.Errorf("title %q, about %d bytes, instructions %.20q", l.Title, len(l.About), l.Instructions)
	}
	if string(l.Greeting.ServerInfo) != info || len(l.Greeting.Instructions) <= len(l.Instructions) {
		t.Errorf("the greeting has %d bytes, of %d", len(l.Greeting.ServerInfo), len(info))
	}
	if l = l.Presented(nil, ""); l.Title+l.About+l.Instructions != "" {
		t.Errorf("a server that says nothing: %+v", l)
	}
}

// TestDefinitions: each kind has its own list, and Surface is the list under which it is browsed.
func TestDefinitions(t *testing.T) {
	var l Listing
	for kind, list := range l.Definitions() {
		*list = []json.RawMessage{json.RawMessage(rawjson.Quote(string(kind)))}
	}
	if got := string(l.Tools[0]) + string(l.Resources[0]) + string(l.ResourceTemplates[0]) + string(l.Prompts[0]); got != `"tool""resource""resource_template""prompt"` {
		t.Errorf("the lists are of %s", got)
	}
	for range l.Definitions() {
		break // a caller may stop early
	}
	for kind, want := range map[Kind]Kind{KindTool: KindTool, KindTemplate: KindResource, KindResource: KindResource, KindPrompt: KindPrompt} {
		if got := kind.Surface(); got != want {
			t.Errorf("%s is browsed as %s", kind, got)
		}
	}
}

// FuzzBoundTexts: the result is JSON with the same values, except texts that were cut, and is stable.
func FuzzBoundTexts(f *testing.F) {
	long := strings.Repeat("x", MaxText+1)
	for _, seed := range []string{`{"name":"t","description":"` + long + `"}`, `{"inputSchema":{"enum":["` + long + `"]}}`, `{"` + long + `":1}`, `{"a":["` + long + `",1]}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if rawjson.Valid(raw) != nil {
			return
		}
		out, cut, longest, err := BoundTexts(raw)
		if err != nil {
			if KeptSize(raw) != 0 {
				t.Errorf("a definition that is left out has a size of %d", KeptSize(raw))
			}
			return
		}
		if KeptSize(raw) != len(out) || (cut > 0) != (longest > MaxText) || cut == 0 && string(out) != string(raw) || rawjson.Valid(out) != nil {
			t.Fatalf("%d texts cut, the longest of %d bytes, to %d bytes: %v", cut, longest, len(out), rawjson.Valid(out))
		}
		if again, more, _, err := BoundTexts(out); err != nil || more != 0 || string(again) != string(out) {
			t.Errorf("%d texts are cut a second time: %v", more, err)
		}
	})
}
