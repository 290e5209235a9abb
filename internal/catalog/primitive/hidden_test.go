package primitive

import (
	"testing"

	"github.com/weir-mcp/weir/internal/text/visible"
)

func TestVisibleTexts(t *testing.T) {
	for in, want := range map[string]string{
		`{"description":"a\u200bb","properties":{"c\u200b":{"title" : "x\u00ady","enum":["\u200b"],"description":["\u200b"]}}}`: `{"description":"ab","properties":{"c\u200b":{"title" : "xy","enum":["\u200b"],"description":["\u200b"]}}}`,
		`{"properties":{"description":{"type":"string","pattern":"\u200b","description":"\u202e."}},"$comment":"\u00ad"}`:       `{"properties":{"description":{"type":"string","pattern":"\u200b","description":"."}},"$comment":""}`,
		`{"descri\u0070tion":"\u200bx"}`:        `{"descri\u0070tion":"x"}`,
		`{"title":{"a":"\u200b"},"b":"\u200b"}`: `{"title":{"a":"\u200b"},"b":"\u200b"}`,
		`["description","\u200b"]`:              `["description","\u200b"]`,
		`{"description":"\u00e9 é"}`:            `{"description":"\u00e9 é"}`,
		`{"description":"\u200b`:                `{"description":"\u200b`,
	} {
		if got := string(VisibleTexts([]byte(in))); got != want {
			t.Errorf("%s:\n%s, want\n%s", in, got, want)
		}
	}
}

func TestHidden(t *testing.T) {
	for raw, want := range map[string]visible.Kinds{
		`{"name":"t","description":"plain \u00e9 é"}`:            0,
		`{"na\u200bme":"t"}`:                                     visible.ZeroWidth,
		`{"a":{"enum":["x\u200b"]},"b":"\u202e"}`:                visible.ZeroWidth | visible.Bidi,
		`{"pattern":"^[\\u200b]+$"}`:                             0,
		"{\"description\":\"\U000E0049\",\"title\":\"\\u00ad\"}": visible.Tags | visible.Fillers,
	} {
		if got := Hidden([]byte(raw)); got != want {
			t.Errorf("%s hides %s, want %s", raw, got, want)
		}
	}
}
