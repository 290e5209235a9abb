package journal

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
	"github.com/weir-mcp/weir/internal/json/splice"
)

// Bounds of a journal.
const (
	maxOperations = 50
	maxBytes      = 100 << 20
)

// Errors of Apply and Undo.
var (
	ErrChanged = errors.New("the file has changed since the plan was made")
	ErrLost    = errors.New("another program keeps writing the file from its memory")
	ErrNothing = errors.New("there is nothing to undo")
)

// Journal is a folder of operations. Its methods may be called concurrently, also by other
// processes.
type Journal struct {
	dir    string
	now    func() time.Time
	settle time.Duration // after it a file is read again
}

// Open returns the journal in a folder, and makes the folder if it is missing.
func Open(dir string) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return &Journal{dir: dir, now: time.Now, settle: 2 * time.Second}, nil
}

// AtOnce returns the journal for a caller that follows the files itself: a change ends when it is
// written. Otherwise the files are read again after two seconds, because clients write theirs from
// memory.
func (j *Journal) AtOnce() *Journal { return &Journal{dir: j.dir, now: j.now} }

// Record is an operation in the journal.
type Record struct {
	N        int          `json:"n"`
	Kind     string       `json:"kind"` // connect, import, …; undo for one that undid another
	Summary  string       `json:"summary"`
	Time     time.Time    `json:"time"`
	Done     bool         `json:"done"` // false if Apply was interrupted
	Undoes   int          `json:"undoes,omitempty"`
	UndoneBy int          `json:"undone_by,omitempty"`
	Files    []FileRecord `json:"files"`
	Steps    []Step       `json:"steps,omitempty"`
}

// FileRecord is the effect of an operation on one file.
type FileRecord struct {
	File     string        `json:"file"` // its path, with links followed
	Format   splice.Format `json:"format"`
	Existed  bool          `json:"existed"`
	Mode     fs.FileMode   `json:"mode"`
	Before   string        `json:"before"`             // SHA-256 of the original
	After    string        `json:"after"`              // of the file as weir left it; "" if the original is not the way back
	Original string        `json:"original,omitempty"` // its name in the folder of the operation
	Gone     bool          `json:"gone,omitempty"`     // the operation removed the file
	Edits    []EditRecord  `json:"edits,omitempty"`
}

// EditRecord is one change of a value.
type EditRecord struct {
	Path  splice.Path     `json:"path"`
	Set   bool            `json:"set"`
	Value json.RawMessage `json:"value,omitempty"` // the new value, as JSON
	Made  int             `json:"made,omitempty"`  // how many parents were made
	Cut   *splice.Cut     `json:"cut,omitempty"`   // the old value
}

// Step is a further task of an undo, as data for the caller: remove a secret, remove a file.
type Step struct {
	Do   string `json:"do"`
	Name string `json:"name"`
}

// hash names the contents of a file.
func hash(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

func (j *Journal) folder(n int) string { return filepath.Join(j.dir, fmt.Sprintf("%04d", n)) }

// List returns the operations, the oldest first.
func (j *Journal) List() ([]Record, error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	var out []Record
	for _, e := range entries {
		n, err := strconv.Atoi(e.Name())
		if err != nil || !e.IsDir() {
			continue
		}
		r, err := j.read(n)
		if errors.Is(err, fs.ErrNotExist) {
			continue // Its process ended before anything was changed.
		} else if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	slices.SortFunc(out, func(a, b Record) int { return cmp.Compare(a.N, b.N) })
	return out, nil
}

func (j *Journal) read(n int) (Record, error) {
	var r Record
	data, err := os.ReadFile(filepath.Join(j.folder(n), "op.json"))
	if err != nil {
		return r, fmt.Errorf("journal: %w", err)
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, fmt.Errorf("journal: operation %d is damaged: %w", n, err)
	}
	r.N = n
	return r, nil
}

// create makes the folder of a new operation.
func (j *Journal) create() (int, error) {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	n := 1
	for _, e := range entries {
		if have, err := strconv.Atoi(e.Name()); err == nil {
			n = max(n, have+1)
		}
	}
	if err := os.Mkdir(j.folder(n), 0o700); err != nil {
		return 0, fmt.Errorf("journal: %w", err)
	}
	return n, nil
}

// save writes the record of an operation. Originals go with it the first time.
func (j *Journal) save(r Record, originals map[string][]byte) error {
	for name, data := range originals {
		if err := replaceFile(filepath.Join(j.folder(r.N), name), data, 0o600, nil); err != nil {
			return fmt.Errorf("journal: %w", err)
		}
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	if err := replaceFile(filepath.Join(j.folder(r.N), "op.json"), data, 0o600, nil); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// prune removes the oldest operations beyond the bounds, but never the newest.
func (j *Journal) prune() error {
	entries, err := os.ReadDir(j.dir)
	if err != nil {
		return err
	}
	var numbers []int
	for _, e := range entries {
		if n, err := strconv.Atoi(e.Name()); err == nil && e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	slices.Reverse(numbers)
	total := int64(0)
	for i, n := range numbers {
		files, err := os.ReadDir(j.folder(n))
		if err != nil {
			return err
		}
		for _, f := range files {
			if info, err := f.Info(); err == nil {
				total += info.Size()
			}
		}
		if i > 0 && (i >= maxOperations || total > maxBytes) {
			if err := os.RemoveAll(j.folder(n)); err != nil {
				return err
			}
		}
	}
	return nil
}

// locked runs fn while no other process uses the journal.
func (j *Journal) locked(ctx context.Context, fn func() error) error {
	unlock, err := place.LockIn(ctx, filepath.Join(j.dir, "lock"))
	if err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	defer unlock()
	return fn()
}

// pause waits, unless the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
