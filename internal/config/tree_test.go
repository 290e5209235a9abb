package config

import (
	"errors"
	"testing"
)

func TestTree(t *testing.T) {
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
		root, err := Tree(c.name, []byte(c.text))
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
	if root, err := Tree("agent.yaml", nil); root != nil || err != nil {
		t.Errorf("empty: %v, %v", root, err)
	}
	if got := Nearest("comand", []string{"args", "command"}); got != "command" {
		t.Errorf("nearest %q", got)
	}
}
