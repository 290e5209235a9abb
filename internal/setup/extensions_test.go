package setup

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/setup/bundle"
)

// TestExtensions reads the folders of Claude Desktop with and without a person to ask.
func TestExtensions(t *testing.T) {
	home, err := filepath.Abs("testdata/extensions")
	if err != nil {
		t.Fatal(err)
	}
	m := &Machine{Env: environmentOf(home)}
	at := filepath.Join(home, ".config", "Claude", "Claude Extensions")
	read := func(ask Answerer) (lines, notes []string) {
		s, secrets, ok := m.Extensions(ask)
		if !ok || s.Err != nil {
			t.Fatal(ok, s.Err)
		}
		for _, server := range s.Servers {
			line := server.Name + ": " + strings.Join(append([]string{server.Command}, server.Args...), " ")
			if server.Env["API_KEY"] != "" {
				line += " " + server.Env["API_KEY"]
			}
			if server.Disabled {
				line = server.Name + " is off"
			}
			if server.Stay != "" {
				line = server.Name + " stays: " + server.Stay
			}
			lines = append(lines, strings.ReplaceAll(line, at, "@"))
		}
		for _, secret := range secrets {
			lines = append(lines, secret.Name+"="+secret.Value)
		}
		for _, note := range s.Notes {
			notes = append(notes, note.Server)
		}
		return lines, notes
	}

	plain := []string{
		"files: node @/ant.dir.files/server/index.js /home/me/a /home/me/b",
		"search stays: Claude Desktop keeps its setting \"key\" sealed; weir import claude-extensions at a terminal asks for it",
		"time is off",
		"win stays: win is for win32, and this is linux",
	}
	got, notes := read(nil)
	if !slices.Equal(got, plain) || !slices.Equal(notes, []string{"ant.dir.broken", "files"}) {
		t.Errorf("got\n%s\nnotes %q, want\n%s", strings.Join(got, "\n"), notes, strings.Join(plain, "\n"))
	}
	got, _ = read(func(name string, questions []bundle.Question) (map[string][]string, error) {
		if name != "search" || len(questions) != 1 || questions[0].ID != "key" {
			t.Errorf("%s is asked for %+v", name, questions)
		}
		return map[string][]string{"key": {"sk-abc"}}, nil
	})
	asked := slices.Concat(plain[:1], []string{"search: @/ant.dir.search/server/run ${secret:SEARCH_KEY}"}, plain[2:], []string{"SEARCH_KEY=sk-abc"})
	if !slices.Equal(got, asked) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(asked, "\n"))
	}
	if _, _, ok := (&Machine{Env: environmentOf(t.TempDir())}).Extensions(nil); ok {
		t.Error("a home without Claude Desktop has extensions")
	}
}
