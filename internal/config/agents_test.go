package config

import (
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
)

func TestScopes(t *testing.T) {
	auth := Auth{Tokens: []Token{
		{Name: "all"}, {Name: "star", Agents: []string{"*"}},
		{Name: "some", Agents: []string{"billing", "stock-?"}, Register: []string{"billing"}},
	}}
	for _, c := range []struct {
		principal, agent           string
		scoped, reaches, registers bool
	}{
		{"all", "x", false, true, false},
		{"star", "x", false, true, false},
		{"some", "billing", true, true, true},
		{"some", "stock-1", true, true, false},
		{"some", "stock-12", true, false, false},
		{"some", "bill", true, false, false},
		{"nobody", "x", false, false, false},
	} {
		if got := auth.Scoped(c.principal); got != c.scoped {
			t.Errorf("%s: scoped %v", c.principal, got)
		}
		if got := auth.Reaches(c.principal, c.agent); got != c.reaches {
			t.Errorf("%s reaches %s: %v", c.principal, c.agent, got)
		}
		if got := auth.Registers(c.principal, c.agent); got != c.registers {
			t.Errorf("%s registers %s: %v", c.principal, c.agent, got)
		}
	}
	if open := (Auth{}); open.Scoped("local") || !open.Reaches("local", "x") || !open.Registers("local", "x") {
		t.Error("without tokens, somebody is kept out")
	}
}

func TestLimitsOf(t *testing.T) {
	a := Agents{Limits: AgentLimits{InFlight: 5, PerMinute: 6, MaxBodyBytes: 7}, PerAgent: []*AgentLimited{{Name: "b", PerMinute: 1}}}
	if got := a.LimitsOf("a"); got != a.Limits {
		t.Errorf("%+v", got)
	}
	if got, want := a.LimitsOf("b"), (AgentLimits{InFlight: 5, PerMinute: 1, MaxBodyBytes: 7}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestNewServer(t *testing.T) {
	s, err := NewServer("Agent.1", "http://127.0.0.1:7000/mcp")
	if err != nil || s.Namespace != "agent_1" || s.Type != mcpserver.TransportHTTP || s.Timeout == 0 || s.Start != mcpserver.StartBoot || !s.PerSession || !s.Agent {
		t.Errorf("%+v, %v", s, err)
	}
	for _, c := range [][2]string{{"", "http://x/"}, {"a/b", "http://x/"}, {"a", "ftp://x/"}, {"a", "http://u:p@x/"}, {"a", "http:///x"}, {"a", "http://x/#f"}, {"a", ":"}} {
		if _, err := NewServer(c[0], c[1]); err == nil {
			t.Errorf("%q at %q was taken", c[0], c[1])
		}
	}
}

func TestNamespaceFor(t *testing.T) {
	taken := map[string]bool{"a": true, "a_2": true, strings.Repeat("b", 64): true}
	for name, want := range map[string]string{"A": "a_3", "c": "c", strings.Repeat("b", 64): strings.Repeat("b", 62) + "_2"} {
		if got := NamespaceFor(name, func(s string) bool { return taken[s] }); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestSecretOutsideServers: a secret is expanded wherever it stands, and hidden.
func TestSecretOutsideServers(t *testing.T) {
	value := strings.Repeat("s", 40)
	c, _, err := Parse("weir.yaml", []byte("agents: {invocation: {secret: \"${KEY}\"}}\nmcpServers: {}\n"), Options{
		LookupEnv: func(name string) (string, bool) { return value, name == "KEY" },
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Agents.Invocation.Secret.Reveal(); got != value {
		t.Errorf("%q", got)
	}
	if secrets := c.Secrets(); len(secrets) != 1 || secrets[0] != value {
		t.Errorf("secrets %q", secrets)
	}
}
