package strict

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text   string
		line, column int // of the fault; 0 for none
	}{
		{"agent.json", "\t{\"tools\": [], // none yet\n}", 0, 0},
		{"agent.yaml", "tools: []", 0, 0},
		{"agent", `{"tools": []}`, 0, 0},
		{"agent.json", "{\n  \"tools\": oops\n}", 2, 12},
		{"agent.yaml", "tools:\n\t- x", 2, 0},
	} {
		root, err := Read(c.name, []byte(c.text))
		if c.line == 0 {
			if err != nil || root == nil || root.Content[0].Value != "tools" {
				t.Errorf("%s: %v, %v", c.text, root, err)
			}
			continue
		}
		var e *Error
		if !errors.As(err, &e) || len(e.Problems) != 1 || e.Problems[0].File != c.name || e.Problems[0].Line != c.line || c.column > 0 && e.Problems[0].Column != c.column {
			t.Errorf("%s: %v", c.text, err)
		}
	}
	if root, err := Read("agent.yaml", nil); root != nil || err != nil {
		t.Errorf("empty: %v, %v", root, err)
	}
	if got := Nearest("comand", []string{"args", "command"}); got != "command" {
		t.Errorf("nearest %q", got)
	}
}

func TestSizesAndDurations(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0": 0, "10": 10, "10MB": 10 << 20, "1.5 KiB": 1536, "2g": 2 << 30, "7b": 7, "3 kb": 3072,
		"9223372036854775807": 1<<63 - 1, "": -1, "MB": -1, "-1": -1, "1e3": -1, "10 MBs": -1,
		"9223372036854775808": -1, "9999999999GB": -1, "1..5": -1, "+1": -1, "0x10": -1,
	} {
		got, ok := parseBytes(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("parseBytes(%q) = %d, %t; want %d", text, got, ok, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"0": 0, "1.5": 1500 * time.Millisecond, "-1": -1, "1e300": -1, ".inf": -1, "NaN": -1, "30": 30 * time.Second,
	} {
		got, ok := parseSeconds(text)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("parseSeconds(%q) = %s, %t; want %s", text, got, ok, want)
		}
	}
}

func TestNearest(t *testing.T) {
	keys := []string{"command", "args", "include_tools", "env", "cwd"}
	for word, want := range map[string]string{
		"comand": "command", "Command": "command", "ars": "args", "agrs": "args", "includeTools": "include_tools",
		"include-tool": "include_tools", "xyz": "", "": "", strings.Repeat("c", 100): "", "evn": "env",
	} {
		if got := Nearest(word, keys); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
