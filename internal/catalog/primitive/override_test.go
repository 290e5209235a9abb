package primitive

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// TestOverride: the definition that agents see, the arguments that they may send, and those that the
// server gets.
func TestOverride(t *testing.T) {
	t.Parallel()
	const listed = `{"name":"create","title":"T","description":"D","inputSchema":{"type":"object","properties":{"repo":{"type":"string"},"token":{"type":"string"},"limit":{"type":"integer"},"dry":{}},"required":["repo","token","limit"]},"annotations":{"title":"T","readOnlyHint":true,"x":1}}`
	values := func(of string) (all map[string]json.RawMessage) {
		if err := json.Unmarshal([]byte(of), &all); err != nil {
			t.Fatal(err)
		}
		return all
	}
	o := &Override{
		Tool: "create", Name: "open", Title: "Open", Description: "Opens.", Annotations: json.RawMessage(`{"readOnlyHint":false}`),
		Hidden: map[string]bool{"token": true, "dry": true}, Values: values(`{"token":"s","limit":3}`),
	}
	shown, err := o.Apply(json.RawMessage(listed))
	if want := `{"name":"open","title":"Open","description":"Opens.","inputSchema":{"type":"object","properties":{"repo":{"type":"string"},"limit":{"type":"integer","default":3}},"required":["repo"]},"annotations":{"title":"Open","readOnlyHint":false,"x":1}}`; err != nil || string(shown) != want {
		t.Errorf("%s, %v\nwant %s", shown, err, want)
	}
	for args, want := range map[string]string{
		`{"repo":"a"}`:                       `{"repo":"a","limit":3,"token":"s"}`,
		` {"repo":"a", "limit":1} `:          `{"repo":"a", "limit":1,"token":"s"}`,
		``:                                   `{"limit":3,"token":"s"}`,
		`null`:                               `{"limit":3,"token":"s"}`,
		`{"token":"mine"}`:                   `error: no parameter "token"`,
		`{"\u0074oken":"mine"}`:              `error: no parameter "token"`,
		`{"Token":"mine","limit":1,"dry":0}`: `error: no parameter "`,
	} {
		filled, err := json.RawMessage(nil), o.Check(json.RawMessage(args))
		if err == nil {
			filled, err = o.Fill(json.RawMessage(args))
		}
		if part, wrong := strings.CutPrefix(want, "error: "); wrong {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %s, %v, want %q", args, filled, err, part)
			}
		} else if err != nil || string(filled) != want {
			t.Errorf("%s: %s, %v, want %s", args, filled, err, want)
		}
	}
	if _, err := o.Fill(json.RawMessage(`[]`)); err == nil {
		t.Error("arguments that are no object are filled")
	}
	// A definition without a schema, required parameters or annotations gets no more than it needs.
	for listed, want := range map[string]string{
		`{"name":"create"}`: `{"name":"open","title":"Open","description":"Opens.","annotations":{"readOnlyHint":false}}`,
		`{"name":"create","inputSchema":{"type":"object"}}`: `{"name":"open","inputSchema":{"type":"object"},"title":"Open","description":"Opens.","annotations":{"readOnlyHint":false}}`,
	} {
		if shown, err := o.Apply(json.RawMessage(listed)); err != nil || string(shown) != want {
			t.Errorf("%s: %s, %v, want %s", listed, shown, err, want)
		}
	}
	needs := &Override{Tool: "create", Hidden: map[string]bool{"repo": true}}
	if _, err := needs.Apply(json.RawMessage(listed)); err == nil || !strings.Contains(err.Error(), `the server requires the parameter "repo"`) {
		t.Errorf("%v", err)
	}
	if got := (&Override{Hidden: map[string]bool{"rep": true}, Values: values(`{"lim":1,"token":2}`)}).Unknown(json.RawMessage(listed)); !slices.Equal(got, []string{"lim", "rep"}) {
		t.Errorf("unknown are %q", got)
	}
	all := Overrides{"create": o, "list": {Tool: "list", Description: "x"}}
	for name, want := range map[string]string{"open": "create", "list": "list", "create": "gone", "other": ""} {
		got, known := all.Shown(name)
		switch {
		case want == "gone" && (got != nil || known), want == "" && (got != nil || !known), want != "gone" && want != "" && (got == nil || got.Tool != want):
			t.Errorf("%s: %+v, %v, want %q", name, got, known, want)
		}
	}
	var none *Override
	if args, err := none.Fill(json.RawMessage(`{"a":1}`)); none.Check([]byte(`{}`)) != nil || err != nil || string(args) != `{"a":1}` {
		t.Errorf("without an override: %s, %v", args, err)
	}
}
