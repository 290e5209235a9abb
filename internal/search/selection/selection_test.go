package selection

import (
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestSchema(t *testing.T) {
	bare := `{"type":"object","properties":{"selection":{"type":"string","enum":["a:b@1","c:\"d\"#00000000"]}},"required":["selection"],"additionalProperties":false}`
	for variant, want := range map[Variant]string{
		JSONSchema: bare,
		OpenAI:     `{"type":"json_schema","json_schema":{"name":"tool_selection","strict":true,"schema":` + bare + `}}`,
		Anthropic:  `{"name":"tool_selection","description":"Choose exactly one id among those offered.","input_schema":` + bare + `}`,
	} {
		got, err := Schema([]string{"a:b@1", `c:"d"#00000000`, "a:b@1"}, variant)
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v", variant, got, err)
		}
		if !json.Valid(got) {
			t.Errorf("%s is no JSON", got)
		}
	}
}

func TestSchemaErrors(t *testing.T) {
	for _, variant := range []Variant{JSONSchema, OpenAI, Anthropic} {
		if got, err := Schema(nil, variant); !errors.Is(err, ErrNoCandidates) || got != nil {
			t.Errorf("%s without candidates: %s, %v", variant, got, err)
		}
	}
	if _, err := Schema([]string{"a"}, "gemini"); !errors.Is(err, errUnknownVariant) || !strings.Contains(err.Error(), "openai") {
		t.Errorf("%v", err)
	}
}

func TestValidate(t *testing.T) {
	offered := []string{"github:create_issue@1", "github:create_issue@10", "slack:Send#00000000", "slack:send#11111111", "x:Y@1", "X:y@1", "docs:read@2"}
	for _, tt := range []struct {
		selected string
		want     Selection
	}{
		{"github:create_issue@1", Selection{Status: Accepted, ID: "github:create_issue@1"}}, // though it is a prefix of another
		{"X:y@1", Selection{Status: Accepted, ID: "X:y@1"}},
		{" \tdocs:read@2\n", Selection{Status: Repaired, ID: "docs:read@2", Rule: RuleStrip}},
		{"DOCS:Read@2", Selection{Status: Repaired, ID: "docs:read@2", Rule: RuleCaseFold}},
		{"GitHub:Create_Issue@1", Selection{Status: Repaired, ID: "github:create_issue@1", Rule: RuleCaseFold}}, // case before prefix
		{"  docs:READ@2 ", Selection{Status: Repaired, ID: "docs:read@2", Rule: RuleCaseFold}},
		{"docs", Selection{Status: Repaired, ID: "docs:read@2", Rule: RulePrefix}},
		{"SLACK:SEND#1", Selection{Status: Repaired, ID: "slack:send#11111111", Rule: RulePrefix}},
		{"x:y@1", Selection{Status: Rejected, Reason: reasonAmbiguousCaseFold}},
		{"github:", Selection{Status: Rejected, Reason: reasonAmbiguousPrefix}},
		{"read@2", Selection{Status: Rejected, Reason: reasonNotOffered}}, // no suffix, nothing inside
		{"docs:raed@2", Selection{Status: Rejected, Reason: reasonNotOffered}},
		{"docs:read@22", Selection{Status: Rejected, Reason: reasonNotOffered}},
		{"", Selection{Status: Rejected, Reason: reasonEmpty}},
		{" \n", Selection{Status: Rejected, Reason: reasonEmpty}},
	} {
		got := Validate(tt.selected, offered)
		if got != tt.want || got.OK() != (tt.want.Status != Rejected) {
			t.Errorf("%q: %+v, want %+v", tt.selected, got, tt.want)
		}
	}
}

// What is offered may itself have white space around it, and may come twice.
func TestValidateOddOffers(t *testing.T) {
	if got := Validate(" a", []string{"a", " a"}); got != (Selection{Status: Accepted, ID: " a"}) {
		t.Errorf("%+v", got)
	}
	if got := Validate("A", []string{"a", "a"}); got != (Selection{Status: Repaired, ID: "a", Rule: RuleCaseFold}) {
		t.Errorf("%+v", got)
	}
	if got := Validate("a", nil); got.OK() {
		t.Errorf("%+v", got)
	}
}

// The order of the candidates never changes the outcome.
func TestValidateIsIndependentOfOrder(t *testing.T) {
	offered := []string{"a:b", "A:b", "a:bc", "d:e", "D:ef"}
	for _, selected := range []string{"a:b", "A:B", "d:e", "d:", "D:E", " a:b", "q"} {
		want := Validate(selected, offered)
		reversed := slices.Clone(offered)
		slices.Reverse(reversed)
		if got := Validate(selected, reversed); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v and %+v", selected, got, want)
		}
	}
}

func FuzzValidate(f *testing.F) {
	f.Add("a:B", "a:b\nA:b\nc")
	f.Fuzz(func(t *testing.T, selected, list string) {
		offered := strings.Split(list, "\n")
		got := Validate(selected, offered)
		if got.OK() != slices.Contains(offered, got.ID) && got.ID != "" {
			t.Errorf("%q of %q: %+v", selected, offered, got)
		}
		if slices.Contains(offered, selected) && strings.TrimSpace(selected) != "" && got.Status != Accepted {
			t.Errorf("an exact id is not accepted: %q of %q: %+v", selected, offered, got)
		}
	})
}
