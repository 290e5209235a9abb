package config

import (
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

// TestTrust: a server without a mode has the one of the whole configuration, as have servers that are
// found at run time; a changed mode is a changed server.
func TestTrust(t *testing.T) {
	read := func(text string) *Config {
		t.Helper()
		c, _, err := Parse("weir.yaml", []byte(text), Options{})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := read("trust: hold\nmcpServers: {a: {command: a}, b: {command: b, trust: warn}}")
	for server, want := range map[string]mcpserver.TrustMode{"a": "hold", "b": "warn", "found": "hold"} {
		if got := c.TrustOf(server); got != want {
			t.Errorf("%s: %q, want %q", server, got, want)
		}
	}
	if off := read("mcpServers: {a: {command: a}, b: {command: b, trust: warn}}"); off.TrustOf("a") != "" || off.TrustOf("b") != "warn" {
		t.Errorf("without a default: %q, %q", off.TrustOf("a"), off.TrustOf("b"))
	} else if change := Diff(off, c); len(change.Changed) != 1 || change.Changed[0] != "a" || len(change.Other) != 1 || change.Other[0] != "trust" {
		t.Errorf("the change is %+v", change)
	}
	if _, _, err := Parse("weir.yaml", []byte("trust: maybe\nmcpServers: {a: {command: a}}"), Options{}); err == nil {
		t.Error("an unknown mode is taken")
	}
}
