package setup

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/weir-mcp/weir/internal/setup/journal"
)

// removeFolder is the step of an undo that removes the folder of a server.
const removeFolder = "remove folder"

// Folder holds the files of a server that a plan adds.
type Folder struct {
	Path string       // in Machine.Bundles
	Make func() error // makes the whole folder, or nothing of it

	made bool // by this plan
}

// Unpack makes the folder of the plan if it is missing, so that the server can be tried. Apply
// calls it as well. Discard takes it back.
func (p *Plan) Unpack() error {
	if p.Folder == nil {
		return nil
	}
	if _, err := os.Lstat(p.Folder.Path); !errors.Is(err, fs.ErrNotExist) {
		return err // It is there already, or it cannot be seen.
	}
	if err := p.Folder.Make(); err != nil {
		return err
	}
	p.Folder.made = true
	return nil
}

// Discard removes the folder that Unpack made. A folder that was there before stays.
func (p *Plan) Discard() error {
	if p.Folder == nil || !p.Folder.made {
		return nil
	}
	p.Folder.made = false
	return os.RemoveAll(p.Folder.Path)
}

// noteFolder adds the step that removes the plan's folder. A folder of unknown origin has no step.
func (p *Plan) noteFolder(op *journal.Operation) error {
	if p.Folder == nil {
		return nil
	}
	held, err := p.m.holds(p.Folder.Path)
	if p.Folder.made || held {
		op.OnUndo(removeFolder, p.Folder.Path)
	}
	return err
}

// holds reports whether an operation that stands needs a folder.
func (m *Machine) holds(dir string) (bool, error) {
	records, err := m.Journal.List()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(records, func(r journal.Record) bool {
		return r.UndoneBy == 0 && slices.Contains(r.Steps, journal.Step{Do: removeFolder, Name: dir})
	}), nil
}

// dropFolder removes the folder of an operation that is undone. It stays if another operation needs
// it, or if a file of the operation still names it.
func (m *Machine) dropFolder(undone journal.Record, dir string) error {
	if m.Bundles == "" || filepath.Dir(dir) != m.Bundles {
		return fmt.Errorf("%s stays: it is not in weir's folder %s; remove it by hand", dir, m.Bundles)
	}
	held, err := m.holds(dir)
	if err != nil || held {
		return err
	}
	for _, f := range undone.Files {
		doc, _, err := readFile(f.File)
		if err != nil {
			return err
		}
		if bytes.Contains(doc, []byte(filepath.Base(dir))) {
			return nil
		}
	}
	return os.RemoveAll(dir)
}
