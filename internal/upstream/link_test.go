package upstream

import (
	"testing"
	"time"
)

func TestStripModern(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"nothing", ``, ``},
		{"no meta", `{"name":"a", "n":12345678901234567890}`, `{"name":"a", "n":12345678901234567890}`},
		{"a mention elsewhere", `{"x":"io.modelcontextprotocol/protocolVersion"}`, `{"x":"io.modelcontextprotocol/protocolVersion"}`},
		{"only marks", `{"b":1,"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"a":1.50}`, `{"b":1,"a":1.50}`},
		{
			"marks and more", `{"_meta":{"progressToken":7,"io.modelcontextprotocol/clientInfo":{"name":"x"},"io.modelcontextprotocol/related":1,"z":null}}`,
			`{"_meta":{"progressToken":7,"io.modelcontextprotocol/related":1,"z":null}}`,
		},
		{"with an escape", `{"_meta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}`, `{}`},
		{"no object", `{"_meta":"io.modelcontextprotocol/"}`, `{"_meta":"io.modelcontextprotocol/"}`},
	} {
		got, err := stripModern([]byte(c.in))
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	if _, err := stripModern([]byte(`{"_meta":{"io.modelcontextprotocol/logLevel":1,"io.modelcontextprotocol/logLevel":2}}`)); err == nil {
		t.Error("a key that stands twice is taken off")
	}
}

func TestAddModern(t *testing.T) {
	const marks = `"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"w"},"io.modelcontextprotocol/clientCapabilities":{}`
	for _, c := range []struct{ name, in, level, want string }{
		{"nothing", ``, "", `{"_meta":{` + marks + `}}`},
		{"params", `{"n":12345678901234567890}`, "", `{"n":12345678901234567890,"_meta":{` + marks + `}}`},
		{"a token", `{"_meta":{"progressToken":"t"},"z":1}`, "", `{"_meta":{"progressToken":"t",` + marks + `},"z":1}`},
		{"a level", `{}`, "debug", `{"_meta":{` + marks + `,"io.modelcontextprotocol/logLevel":"debug"}}`},
	} {
		got, err := addModern([]byte(c.in), "2026-07-28", []byte(`{"name":"w"}`), []byte("{}"), c.level)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.name, got, err, c.want)
		}
	}
	for in, want := range map[string]bool{`{"_meta":{` + marks + `}}`: true, `{"a":1}`: false, ``: false, `{"_meta":{"io.modelcontextprotocol/protocolVersion":"2025-11-25"}}`: false} {
		if got := saysModern([]byte(in)); got != want {
			t.Errorf("%s is modern: %v", in, got)
		}
	}
}

func TestBackoffIsBounded(t *testing.T) {
	for _, failures := range []int{-1, 0, 1, 5, 9, 10, 63, 64, 1 << 40} {
		if d := backoff(failures); d < firstBackoff*3/4 || d > maxBackoff*5/4 {
			t.Errorf("%d failures: %s", failures, d)
		}
	}
	if d := backoff(3); d < 300*time.Millisecond || d > 500*time.Millisecond {
		t.Errorf("3 failures: %s", d)
	}
}
