package journal

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// rewrites bounds how often a lost change is made again.
const rewrites = 3

// Edit is one change of a value: set it, remove it, or restore the cut of an earlier edit.
type Edit struct {
	Path    splice.Path
	Value   any // see splice.Member
	Remove  bool
	Restore *splice.Cut // its bytes are restored under Path, which must be the cut's
}

// Operation is a planned change of some files. Its methods must not be called concurrently.
type Operation struct {
	j       *Journal
	record  Record
	changes []*Change
}

// Change is the planned effect on one file.
type Change struct {
	File   string // the caller's name for it
	Before []byte
	After  []byte
	New    bool // the file does not exist yet

	target string
	format splice.Format
	was    file
	edits  []Edit
	record FileRecord
}

// Begin starts an operation. Nothing is written before Apply.
func (j *Journal) Begin(kind, summary string) *Operation {
	return &Operation{j: j, record: Record{Kind: kind, Summary: summary}}
}

// OnUndo adds a step that the caller has to do when the operation is undone.
func (op *Operation) OnUndo(do, name string) {
	op.record.Steps = append(op.record.Steps, Step{do, name})
}

// Edit plans changes of a file, in their order. A file that is missing counts as empty. A file can be
// edited once in an operation.
func (op *Operation) Edit(name string, format splice.Format, edits []Edit) (*Change, error) {
	target, err := resolve(name)
	if err != nil {
		return nil, err
	}
	for _, c := range op.changes {
		if c.target == target {
			return nil, fmt.Errorf("%s is planned already", name)
		}
	}
	was, err := readFile(target)
	if err != nil {
		return nil, err
	}
	if err := was.writable(target); err != nil {
		return nil, err
	}
	c := &Change{File: name, Before: was.data, New: !was.exists, target: target, format: format, was: was, edits: edits}
	if err := c.plan(was); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	op.changes = append(op.changes, c)
	return c, nil
}

// Changes returns the effects of Apply, in the order of planning.
func (op *Operation) Changes() []*Change { return op.changes }

// plan makes the new contents and the record for the current file.
func (c *Change) plan(was file) error {
	r := FileRecord{File: c.target, Format: c.format, Existed: was.exists, Mode: 0o600, Before: hash(was.data)}
	if was.exists {
		r.Mode = was.info.Mode().Perm()
	}
	doc, whole := was.data, true
	for i, e := range c.edits {
		next, done, err := apply(doc, c.format, e)
		if err != nil {
			return err
		}
		if e.Remove && done.Cut == nil {
			if c.record.Edits == nil {
				return fmt.Errorf("%s: %w", e.Path, splice.ErrMissing)
			}
			done, whole = c.record.Edits[i], false // It is gone since the first writing.
		}
		doc, r.Edits = next, append(r.Edits, done)
	}
	c.After, c.was = doc, was
	if r.After = hash(doc); !whole {
		r.After = ""
	}
	c.record = r
	return nil
}

// apply makes one edit and says how to take it back.
func apply(doc []byte, f splice.Format, e Edit) ([]byte, EditRecord, error) {
	done := EditRecord{Path: e.Path, Set: !e.Remove}
	if len(e.Path) == 0 {
		return nil, done, errors.New("an edit has no path")
	}
	_, taken, err := splice.Lookup(doc, f, e.Path)
	if err != nil {
		return nil, done, err
	}
	without := doc
	if taken {
		out, cut, err := splice.Remove(doc, f, e.Path)
		if err != nil {
			return nil, done, err
		}
		without, done.Cut = out, &cut
	}
	if e.Remove {
		return without, done, nil
	}
	if e.Restore != nil {
		return restore(doc, f, *e.Restore, done)
	}
	for i := 1; i < len(e.Path); i++ {
		if _, ok, err := splice.Lookup(doc, f, e.Path[:i]); err != nil {
			return nil, done, err
		} else if !ok {
			done.Made = len(e.Path) - i
			break
		}
	}
	out, err := splice.Set(doc, f, e.Path, e.Value)
	if err != nil {
		return nil, done, err
	}
	raw, err := splice.Set(nil, splice.JSON, splice.Path{"v"}, e.Value)
	if err == nil {
		raw, _, err = splice.Raw(raw, splice.JSON, splice.Path{"v"})
	}
	done.Value = json.RawMessage(raw)
	return out, done, err
}

// restore restores a cut. It fails if the name is taken by now.
func restore(doc []byte, f splice.Format, cut splice.Cut, done EditRecord) ([]byte, EditRecord, error) {
	out, err := splice.Restore(doc, f, cut)
	done.Cut, done.Value = nil, json.RawMessage(cut.Value)
	return out, done, err
}

// holds reports whether a file still has the changes.
func (c *Change) holds(data []byte) bool {
	for _, e := range c.edits {
		v, ok, err := splice.Lookup(data, c.format, e.Path)
		if err != nil || ok == e.Remove {
			return false
		}
		if !e.Remove {
			want, _, err := splice.Lookup(c.After, c.format, e.Path)
			if err != nil || !reflect.DeepEqual(v, want) {
				return false
			}
		}
	}
	return true
}

// Apply writes the operation into the journal, then changes the files. If one cannot be changed, those
// before it are put back. The Record has the number for Undo. With an error, the number is 0 if all
// files are as they were.
func (op *Operation) Apply(ctx context.Context) (Record, error) {
	if len(op.changes) == 0 && len(op.record.Steps) == 0 {
		return Record{}, errors.New("the operation changes nothing")
	}
	err := op.j.locked(ctx, func() error {
		n, err := op.j.create()
		if err != nil {
			return err
		}
		op.record.N, op.record.Time = n, op.j.now().UTC()
		if err := op.save(); err != nil {
			return op.forget(err)
		}
		if err := op.write(ctx); err != nil {
			if op.unchanged() {
				return op.forget(err)
			}
			return errors.Join(err, op.save())
		}
		op.record.Done = true
		return errors.Join(op.save(), op.j.prune())
	})
	return op.record, err
}

// forget takes an operation that changed nothing out of the journal. It returns the error that ended
// the operation.
func (op *Operation) forget(err error) error {
	n := op.record.N
	op.record.N = 0
	return errors.Join(err, os.RemoveAll(op.j.folder(n)))
}

// unchanged reports whether all files are as they were.
func (op *Operation) unchanged() bool {
	for _, c := range op.changes {
		if now, err := readFile(c.target); err != nil || now.exists && c.holds(now.data) || now.exists && !c.was.exists {
			return false
		}
	}
	return true
}

// save writes the record of the operation, before and after it is applied.
func (op *Operation) save() error {
	originals := map[string][]byte{}
	op.record.Files = nil
	for i, c := range op.changes {
		if c.record.Existed {
			c.record.Original = fmt.Sprintf("%d.original", i)
			originals[c.record.Original] = c.was.data
		}
		op.record.Files = append(op.record.Files, c.record)
	}
	return op.j.save(op.record, originals)
}

// write changes the files and looks after them.
func (op *Operation) write(ctx context.Context) error {
	for i, c := range op.changes {
		if err := put(c.target, c.was, c.After, false, c.record.Mode); err != nil {
			return errors.Join(err, op.back(op.changes[:i]))
		}
	}
	if len(op.changes) == 0 {
		return nil // An operation of only steps has no file that another program could write back.
	}
	for round := 0; ; round++ {
		lost := false
		for _, wait := range []bool{false, true} {
			if wait {
				if err := pause(ctx, op.j.settle); err != nil {
					return nil // The files are written; the caller does not want to wait.
				}
			}
			for _, c := range op.changes {
				again, err := op.again(c, round)
				if err != nil {
					return err
				}
				lost = lost || again
			}
		}
		if !lost {
			return nil
		}
	}
}

// again reads a written file, and makes the change again if it is lost.
func (op *Operation) again(c *Change, round int) (lost bool, err error) {
	now, err := readFile(c.target)
	if err != nil {
		return false, err
	}
	if c.holds(now.data) {
		if hash(now.data) != hash(c.After) {
			c.record.After = "" // Others have changed more: the original is not the way back.
		}
		return false, nil
	}
	if round >= rewrites {
		return false, fmt.Errorf("%s: %w: the change was made %d times and lost. Quit the program, then try again", c.File, ErrLost, rewrites+1)
	}
	if err := c.plan(now); err != nil {
		return false, fmt.Errorf("%s was changed by another program: %w", c.File, err)
	}
	if err := op.save(); err != nil {
		return false, err
	}
	err = put(c.target, now, c.After, false, c.record.Mode)
	if errors.Is(err, ErrChanged) {
		err = nil // The next round sees it.
	}
	return true, err
}

// back puts the originals of changes back where the files are as they were left.
func (op *Operation) back(changes []*Change) error {
	var errs []error
	for _, c := range changes {
		errs = append(errs, put(c.target, file{c.After, true, nil}, c.was.data, !c.was.exists, c.record.Mode))
	}
	return errors.Join(errs...)
}
