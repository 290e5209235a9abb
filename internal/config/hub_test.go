package config

import (
	"strings"
	"testing"
)

// A hub is there only where the configuration asks for one, in any of its forms.
func TestHubIsOffUnlessConfigured(t *testing.T) {
	schema := compiled(t)
	for _, c := range []struct {
		text   string
		on     bool
		warned string
	}{
		{"", false, ""},
		{"hub: {}\n", true, ""},
		{"hub: true\n", true, ""},
		{"hub: false\n", false, ""},
		{"hub: {office: lab}\n", true, ""},
		{"hub: {enabled: true}\n", true, ""},
		{"hub: {enabled: false, office: lab}\n", false, ""},
		{"hub:\n", false, "write hub: {} to switch it on"},
		{"hubs: {far: {url: \"https://hub.example.com\", office: lab}}\n", false, ""},
	} {
		text := "mcpServers: {a: {command: a}}\n" + c.text
		got, warnings, err := Parse("weir.yaml", []byte(text), Options{})
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		if got.Hub.Enabled != c.on || c.on && got.Hub.Office == "" {
			t.Errorf("%q: enabled is %t, office %q", c.text, got.Hub.Enabled, got.Hub.Office)
		}
		if said := len(warnings) == 1 && strings.Contains(warnings[0].Message, c.warned); said != (c.warned != "") {
			t.Errorf("%q: warnings %v", c.text, warnings)
		}
		if c.warned == "" {
			if err := schema.Validate(asJSON(t, text)); err != nil {
				t.Errorf("%q: the schema says %v", c.text, err)
			}
		}
	}
	const key = `{key: "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="}`
	if _, _, err := Parse("weir.yaml", []byte("hub: {computers: {desk: "+key+", Desk: "+key+"}}\n"), Options{}); err == nil || !strings.Contains(err.Error(), "count as one") {
		t.Errorf("two names that are one: %v", err)
	}
	if _, warnings, err := Parse("weir.yaml", []byte("mcpServers: {Desk-excel: {command: a}, desktop: {command: a}}\nhub: {computers: {desk: "+key+"}}\n"), Options{}); err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].Message, `mcpServers.Desk-excel has a name of the Computer "desk"`) {
		t.Errorf("a server with a Computer's name: %v, %v", warnings, err)
	}
	if _, _, err := Parse("weir.yaml", []byte("mcpServers: {}\nhub: 1\n"), Options{}); err == nil || !strings.Contains(err.Error(), "hub must be") {
		t.Errorf("hub: 1: %v", err)
	}
}
