package journal

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/weir-mcp/weir/internal/splice"
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
