package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/json/splice"
)

// Undone is the effect of an undo, with the steps that are left to the caller.
type Undone struct {
	Record Record // the operation that was taken back
	By     int    // the number of the undo itself
	Files  []UndoneFile
	Steps  []Step // for the caller to do
}

// UndoneFile is the effect of an undo on one file.
type UndoneFile struct {
	File  string
	Exact bool          // it has its original bytes, or is gone as before
	Kept  []splice.Path // entries that are not weir's any more and stay
	Taken []splice.Path // entries that could not come back, because their name is taken
}

// undoing is the undo of one file.
type undoing struct {
	record FileRecord
	was    file
	stays  []byte // contents whose entries are not weir's
	next   []byte
	gone   bool // the file is removed
	report UndoneFile
}

// Undo undoes an operation by its number. 0 is the last operation that is neither undone nor an
// undo itself. It plans all files before it changes one.
func (j *Journal) Undo(ctx context.Context, n int) (*Undone, error) {
	var out *Undone
	err := j.locked(ctx, func() error {
		r, err := j.choose(n)
		if err != nil {
			return err
		}
		var files []*undoing
		for _, f := range r.Files {
			u, err := j.unmake(r, f)
			if err != nil {
				return err
			}
			files = append(files, u)
		}
		out = &Undone{Record: r, Steps: r.Steps}
		if out.By, err = j.writeUndo(r, files); err != nil {
			return err
		}
		for _, u := range files {
			out.Files = append(out.Files, u.report)
		}
		return errors.Join(j.keep(ctx, files), j.prune())
	})
	return out, err
}

// choose returns the operation to take back.
func (j *Journal) choose(n int) (Record, error) {
	all, err := j.List()
	if err != nil {
		return Record{}, err
	}
	slices.Reverse(all)
	for _, r := range all {
		switch {
		case n == 0 && r.Kind != "undo" && r.UndoneBy == 0:
			return r, nil
		case n != 0 && r.N == n && r.UndoneBy != 0:
			return r, fmt.Errorf("operation %d is undone already, by %d: %w", n, r.UndoneBy, ErrNothing)
		case n != 0 && r.N == n:
			return r, nil
		}
	}
	if n != 0 {
		return Record{}, fmt.Errorf("there is no operation %d: %w", n, ErrNothing)
	}
	return Record{}, ErrNothing
}

// unmake plans the way back of a file.
func (j *Journal) unmake(r Record, f FileRecord) (*undoing, error) {
	u := &undoing{record: f, report: UndoneFile{File: f.File}}
	var err error
	if u.was, err = readFile(f.File); err != nil {
		return nil, err
	}
	now := hash(u.was.data)
	switch {
	case u.was.exists == f.Existed && now == f.Before:
		u.next, u.report.Exact = u.was.data, true
		u.gone = !f.Existed
		return u, nil
	case f.After != "" && now == f.After && u.was.exists == !f.Gone:
		u.report.Exact = true
		if u.gone = !f.Existed; u.gone {
			return u, nil
		}
		if u.next, err = os.ReadFile(filepath.Join(j.folder(r.N), f.Original)); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
		if hash(u.next) != f.Before {
			return nil, fmt.Errorf("journal: the original of %s in operation %d is damaged", f.File, r.N)
		}
		return u, nil
	case r.Kind == "undo":
		return nil, fmt.Errorf("%s: %w: an undo is only taken back while its files are as it left them", f.File, ErrChanged)
	case !u.was.exists:
		u.gone = true // The user has removed the file since.
		return u, nil
	}
	u.next = u.was.data
	if f.Existed {
		if u.stays, err = os.ReadFile(filepath.Join(j.folder(r.N), f.Original)); err != nil {
			return nil, fmt.Errorf("journal: %w", err)
		}
	}
	for _, e := range slices.Backward(f.Edits) {
		if err := u.takeBack(e); err != nil {
			return nil, fmt.Errorf("%s: %w", f.File, err)
		}
	}
	if !f.Existed {
		if v, err := splice.Decode(u.next, f.Format); err == nil && (v == nil || reflect.DeepEqual(v, splice.Object{})) {
			u.gone = len(u.next) <= len("\uFEFF{}\r\n")
		}
	}
	return u, nil
}

// takeBack undoes one edit in a file that other programs have changed since.
func (u *undoing) takeBack(e EditRecord) error {
	f := u.record.Format
	if e.Set {
		path, err := u.ours(e)
		if err != nil {
			return err
		}
		if path == nil {
			if _, ok, err := splice.Lookup(u.next, f, e.Path); err != nil {
				return err
			} else if ok {
				u.report.Kept = append(u.report.Kept, e.Path)
			}
		} else {
			if u.next, _, err = splice.Remove(u.next, f, path); err != nil {
				return err
			}
			if err := u.removeParents(e); err != nil {
				return err
			}
		}
	}
	if e.Cut == nil {
		return nil
	}
	next, err := splice.Restore(u.next, f, *e.Cut)
	if errors.Is(err, splice.ErrTaken) {
		u.report.Taken = append(u.report.Taken, e.Path)
		return nil
	}
	if err == nil {
		u.next = next
	}
	return err
}

// removeParents removes the parents that came with an entry, if they are empty by now.
func (u *undoing) removeParents(e EditRecord) error {
	for i := len(e.Path) - 1; i >= len(e.Path)-e.Made; i-- {
		v, ok, err := splice.Lookup(u.next, u.record.Format, e.Path[:i])
		if err != nil {
			return err
		}
		o, isObject := v.(splice.Object)
		l, isList := v.([]any)
		if !ok || !isObject && !isList || len(o)+len(l) > 0 {
			return nil
		}
		if u.next, _, err = splice.Remove(u.next, u.record.Format, e.Path[:i]); err != nil {
			return err
		}
	}
	return nil
}

// ours returns the current place of the entry that an edit set, or nil if the entry is gone. It
// knows an entry by its URL or command. So it finds a renamed entry, and keeps another server that
// has the name. Servers of before the operation are not its own, even with the same URL or command.
func (u *undoing) ours(e EditRecord) (splice.Path, error) {
	want, err := splice.Decode(e.Value, splice.JSON)
	if err != nil {
		return nil, fmt.Errorf("journal: the record of %s is damaged: %w", e.Path, err)
	}
	f, parent := u.record.Format, e.Path[:len(e.Path)-1]
	v, ok, err := splice.Lookup(u.next, f, e.Path)
	if err != nil {
		return nil, err
	}
	if ok && same(v, want) {
		return e.Path, nil
	}
	if len(parent) == 0 {
		return nil, nil
	}
	if v, _, err = splice.Lookup(u.next, f, parent); err != nil {
		return nil, err
	}
	o, _ := v.(splice.Object)
	if v, _, err = splice.Lookup(u.stays, f, parent); err != nil {
		return nil, err
	}
	before, _ := v.(splice.Object)
	for _, m := range o {
		if slices.ContainsFunc(before, func(b splice.Member) bool { return b.Key == m.Key }) {
			continue
		}
		if _, isEntry := want.(splice.Object); isEntry && same(m.Value, want) {
			return append(slices.Clone(parent), m.Key), nil
		}
	}
	return nil, nil
}

// same reports whether a value is the entry that weir wrote: the same value, the same URL, or the same
// command with the same arguments.
func same(v, want any) bool {
	o, ok := v.(splice.Object)
	w, ok2 := want.(splice.Object)
	if !ok || !ok2 {
		return reflect.DeepEqual(v, want)
	}
	for _, key := range []string{"url", "httpUrl", "serverUrl", "uri"} {
		if is := w.Get(key); is != nil {
			return reflect.DeepEqual(o.Get(key), is)
		}
	}
	for _, key := range []string{"command", "cmd"} {
		if is := w.Get(key); is != nil {
			return reflect.DeepEqual(o.Get(key), is) && reflect.DeepEqual(o.Get("args"), w.Get("args"))
		}
	}
	return reflect.DeepEqual(v, want)
}

// writeUndo records an undo and changes the files.
func (j *Journal) writeUndo(r Record, files []*undoing) (int, error) {
	n, err := j.create()
	if err != nil {
		return 0, err
	}
	record := Record{N: n, Kind: "undo", Summary: fmt.Sprintf("undo %d: %s", r.N, r.Summary), Time: j.now().UTC(), Undoes: r.N}
	originals := map[string][]byte{}
	for i, u := range files {
		f := FileRecord{File: u.record.File, Format: u.record.Format, Existed: u.was.exists, Mode: u.record.Mode,
			Before: hash(u.was.data), After: hash(u.next), Gone: u.gone}
		if u.gone {
			f.After = hash(nil)
		}
		if u.was.exists {
			f.Mode = u.was.info.Mode().Perm()
			f.Original = fmt.Sprintf("%d.original", i)
			originals[f.Original] = u.was.data
		}
		record.Files = append(record.Files, f)
	}
	if err := j.save(record, originals); err != nil {
		return 0, err
	}
	for i, u := range files {
		err := u.write(record.Files[i].Mode)
		if err == nil {
			continue
		}
		for k, done := range files[:i] { // Restore the files changed so far.
			err = errors.Join(err, put(done.record.File, file{done.next, !done.gone, nil}, done.was.data, !done.was.exists, record.Files[k].Mode))
		}
		return 0, errors.Join(err, os.RemoveAll(j.folder(n)))
	}
	record.Done = true
	if err := j.save(record, nil); err != nil {
		return n, err
	}
	r.UndoneBy = n
	if err := j.save(r, nil); err != nil {
		return n, err
	}
	if r.Kind == "undo" { // An undo was undone: its operation stands again.
		if again, err := j.read(r.Undoes); err == nil {
			again.UndoneBy = 0
			return n, j.save(again, nil)
		}
	}
	return n, nil
}

// write changes the file, unless it needs no change.
func (u *undoing) write(mode os.FileMode) error {
	if u.gone == !u.was.exists && (u.gone || hash(u.next) == hash(u.was.data)) {
		return nil
	}
	return put(u.record.File, u.was, u.next, u.gone, mode)
}

// keep reads the files again, at once and later. It removes entries that another program has
// restored from its memory. It gives up after three times.
func (j *Journal) keep(ctx context.Context, files []*undoing) error {
	if len(files) == 0 {
		return nil
	}
	for round := 0; ; round++ {
		var lost error
		for _, wait := range []time.Duration{0, j.settle} {
			if pause(ctx, wait) != nil {
				return nil // The files are written; the caller does not want to wait.
			}
			for _, u := range files {
				back, err := u.again(round < rewrites)
				if err != nil {
					return err
				}
				if back {
					lost = fmt.Errorf("%s: %w: entries came back %d times. Quit the program, then remove them", u.record.File, ErrLost, rewrites+1)
				}
			}
		}
		if lost == nil || round >= rewrites {
			return lost
		}
	}
}

// again reports whether entries that weir had added are in the file again. With mend it removes them.
func (u *undoing) again(mend bool) (bool, error) {
	now, err := readFile(u.record.File)
	if err != nil || !now.exists {
		return false, err
	}
	next := &undoing{record: u.record, was: now, next: now.data, stays: u.next}
	for _, e := range slices.Backward(u.record.Edits) {
		if !e.Set || e.Cut != nil {
			continue
		}
		if err := next.takeBack(e); err != nil {
			return false, nil // It is being written; the next look sees it.
		}
	}
	if hash(next.next) == hash(now.data) {
		return false, nil
	}
	if hash(now.data) == hash(u.was.data) {
		next.next, next.gone = u.next, u.gone // the very file from before
	}
	if mend {
		err = put(u.record.File, now, next.next, next.gone, u.record.Mode)
	}
	if errors.Is(err, ErrChanged) {
		err = nil // The next look sees it.
	}
	return true, err
}
