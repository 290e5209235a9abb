package catalog

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/text/visible"
)

const hiddenTags = "\U000E0049\U000E0067\U000E006E\U000E006F\U000E0072\U000E0065" // "Ignore"

// TestHiddenText: what nobody sees is a finding, reaches no card, and changes neither
// the id nor the bytes of a definition.
func TestHiddenText(t *testing.T) {
	for name, c := range map[string]struct {
		definition string
		kinds      visible.Kinds
	}{
		"description":          {`{"name":"t","description":"Reads.` + hiddenTags + `"}`, visible.Tags},
		"escaped":              {`{"name":"t","description":"Reads.\udb40\udc49\u200b"}`, visible.Tags | visible.ZeroWidth},
		"name":                 {"{\"name\":\"dan\u200bger\",\"description\":\"d\"}", visible.ZeroWidth},
		"title":                {"{\"name\":\"t\",\"title\":\"\u202eeltit\"}", visible.Bidi},
		"text of a parameter":  {`{"name":"t","description":"d","inputSchema":{"properties":{"a":{"description":"x\u00ad"}}}}`, visible.Fillers},
		"name of a parameter":  {`{"name":"t","description":"d","inputSchema":{"properties":{"a\u2060":{}}}}`, visible.ZeroWidth},
		"default":              {`{"name":"t","description":"d","inputSchema":{"properties":{"a":{"default":"x\udb40\udc49"}}}}`, visible.Tags},
		"enum":                 {`{"name":"t","description":"d","inputSchema":{"properties":{"a":{"enum":["x\udb40\udc49"]}}}}`, visible.Tags},
		"tag":                  {`{"name":"t","description":"d","_meta":{"tags":["a\u200eb"]}}`, visible.Bidi},
		"controls":             {`{"name":"t","description":"d\b\u009b31m"}`, visible.Controls},
		"nothing":              {`{"name":"t","description":"Reads.\n\tTwo lines\r\n\u00e9 👩\u200d💻 می\u200cخواهم \u2764\ufe0f"}`, 0},
		"a pattern is no text": {`{"name":"t","description":"d","inputSchema":{"properties":{"a":{"pattern":"^[\\u200b]+$"}}}}`, 0},
	} {
		c0, report := New(Limits{}).With(primitive.Listing{Upstream: "web", Namespace: "web", Tools: raws(c.definition)})
		e := c0.Entries()[0]
		if e.Hidden != c.kinds || report.Has(FoundHidden) != (c.kinds != 0) {
			t.Errorf("%s: %s, findings %v", name, e.Hidden, report.Findings)
		}
		for _, f := range report.Findings {
			if f.Kind == FoundHidden && (!strings.Contains(f.Message, c.kinds.String()) || !strings.Contains(f.Message, `"web"`) || visible.Find(f.Message) != 0) {
				t.Errorf("%s: %q", name, f.Message)
			}
		}
		if card := e.Card.Render(); visible.Find(card) != 0 {
			t.Errorf("%s: the card %+q", name, card)
		}
		if string(e.Raw) != c.definition || e.Hash8 != hashTool(e.RawName, e.InputSchema) {
			t.Errorf("%s: the definition has changed: %s, %s", name, e.Raw, e.Hash8)
		}
	}
	// Resources and prompts as well.
	_, report := New(Limits{}).With(primitive.Listing{Upstream: "web", Namespace: "web", Resources: raws(`{"uri":"a:b","name":"n","description":"x\u200b"}`),
		Prompts: raws(`{"name":"p","arguments":[{"name":"a","description":"\u2066x"}]}`)})
	n := 0
	for _, f := range report.Findings {
		if f.Kind == FoundHidden {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%v", report.Findings)
	}
}

// Looking for hidden text in a definition that has none, beside reading it.
func BenchmarkHidden(b *testing.B) {
	raw := bigListings()[0].Tools[0]
	b.Run("hidden", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if primitive.Hidden(raw) != 0 {
				b.Fatal("hidden")
			}
		}
	})
	b.Run("baseline", func(b *testing.B) {
		b.SetBytes(int64(len(raw)))
		for b.Loop() {
			if !json.Valid(raw) {
				b.Fatal("invalid")
			}
		}
	})
}
