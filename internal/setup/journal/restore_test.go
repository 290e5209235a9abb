package journal

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// TestRestoreOfACut puts back what an earlier operation cut, as an operation of its own.
func TestRestoreOfACut(t *testing.T) {
	j, name := newJournal(t), write(t, filepath.Join(t.TempDir(), "c.json"), client)
	connect(t, j, name)
	connected := contents(t, name)
	all, err := j.List()
	if err != nil {
		t.Fatal(err)
	}
	var edits []Edit
	for i := len(all[0].Files[0].Edits) - 1; i >= 0; i-- {
		e := all[0].Files[0].Edits[i]
		if e.Set {
			edits = append(edits, Edit{Path: e.Path, Remove: true})
		} else {
			edits = append(edits, Edit{Path: e.Path, Restore: e.Cut})
		}
	}
	op := j.Begin("disconnect", "")
	if _, err := op.Edit(name, splice.JSON, edits); err != nil {
		t.Fatal(err)
	}
	if _, err := op.Apply(t.Context()); err != nil || contents(t, name) != client {
		t.Fatalf("%v\n%s\nwant\n%s", err, contents(t, name), client)
	}
	again := j.Begin("disconnect", "")
	if _, err := again.Edit(name, splice.JSON, []Edit{{Path: edits[0].Path, Restore: edits[0].Restore}}); !errors.Is(err, splice.ErrTaken) {
		t.Errorf("a name that is taken: %v", err)
	}
	if _, err := j.Undo(t.Context(), 0); err != nil || contents(t, name) != connected {
		t.Errorf("undo: %v\n%s\nwant\n%s", err, contents(t, name), connected)
	}
}

// TestUndoKeepsAServerLikeTheAddedOne: two servers may have one command with other variables. The undo
// of the second keeps the first, also where the file has changed since.
func TestUndoKeepsAServerLikeTheAddedOne(t *testing.T) {
	const before = `{"mcpServers":{"first":{"command":"x","args":["y"],"env":{"A":"1"}}}}`
	for name, change := range map[string]func(text string) string{
		"as it was left": func(text string) string { return text },
		"another server": func(text string) string {
			return strings.Replace(text, `{"mcpServers":{`, `{"mcpServers":{"third":{"command":"z"},`, 1)
		},
		"removed by hand": func(string) string { return strings.Replace(before, `"1"`, `"2"`, 1) },
		"renamed":         func(text string) string { return strings.Replace(text, `"second"`, `"other"`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			j := newJournal(t)
			file := write(t, filepath.Join(t.TempDir(), "weir.json"), before)
			op := j.Begin("add", "second")
			if _, err := op.Edit(file, splice.JSON, []Edit{{Path: splice.Path{"mcpServers", "second"}, Value: splice.Object{{Key: "command", Value: "x"}, {Key: "args", Value: []any{"y"}}}}}); err != nil {
				t.Fatal(err)
			}
			r, err := op.Apply(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			write(t, file, change(contents(t, file)))
			if _, err := j.Undo(t.Context(), r.N); err != nil {
				t.Fatal(err)
			}
			if text := contents(t, file); !strings.Contains(text, `"first"`) || strings.Contains(text, `"second"`) || strings.Contains(text, `"other"`) {
				t.Errorf("after the undo: %s", text)
			}
		})
	}
}
