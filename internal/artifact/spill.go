package artifact

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// dirPrefix is the prefix of the name of a process's directory of spilled artifacts.
const dirPrefix = "weir-spill-"

// spillDir is the private directory of one store, below Options.Dir:
//
//	DIR/.lock                     held while a directory is made or removed
//	DIR/weir-spill-9f2c…/lock     held as long as its process lives
//	DIR/weir-spill-9f2c…/data-…   the bytes of an artifact, 0600
//	DIR/weir-spill-9f2c…/index-…  the index over a table
type spillDir struct {
	path string
	lock *os.File
}

// openSpill makes the directory and removes those whose process is gone.
func openSpill(parent string) (*spillDir, error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return nil, fmt.Errorf("artifacts.dir: %w", err)
	}
	gate, err := lockFile(filepath.Join(parent, ".lock"), true)
	if err != nil {
		return nil, fmt.Errorf("artifacts.dir: locking %s: %w", parent, err)
	}
	defer unlockFile(gate)
	entries, err := os.ReadDir(parent)
	if err != nil {
		return nil, fmt.Errorf("artifacts.dir: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() || !strings.HasPrefix(e.Name(), dirPrefix) {
			continue
		}
		old := filepath.Join(parent, e.Name())
		lock, err := lockFile(filepath.Join(old, "lock"), false)
		if err != nil {
			continue // its process lives
		}
		unlockFile(lock)
		if err := os.RemoveAll(old); err != nil {
			return nil, fmt.Errorf("artifacts.dir: removing what a process left: %w", err)
		}
	}
	path, err := os.MkdirTemp(parent, dirPrefix) // 0700
	if err != nil {
		return nil, fmt.Errorf("artifacts.dir: %w", err)
	}
	lock, err := lockFile(filepath.Join(path, "lock"), true)
	if err != nil {
		_ = os.RemoveAll(path) // the first error is the one to report
		return nil, fmt.Errorf("artifacts.dir: %w", err)
	}
	return &spillDir{path, lock}, nil
}

func (d *spillDir) close() error {
	unlockFile(d.lock)
	if err := os.RemoveAll(d.path); err != nil {
		return fmt.Errorf("removing spilled artifacts: %w", err)
	}
	return nil
}

// folder is the spillDir of a store, which may be made when it is needed.
type folder struct {
	parent func() (string, error) // where it is to be made

	mu     sync.Mutex // guards below
	dir    *spillDir  // nil: not made yet
	closed bool
}

var errNoFolder = errors.New("there is no folder for results")

// path returns the directory's, and makes it if need be.
func (f *folder) path() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return "", ErrClosed
	}
	if f.dir == nil {
		parent, err := f.parent()
		if err != nil {
			return "", err
		}
		if f.dir, err = openSpill(parent); err != nil {
			return "", err
		}
	}
	return f.dir.path, nil
}

func (f *folder) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	if f.dir == nil {
		return nil
	}
	return f.dir.close()
}

// withoutPath is err without the names of files in it: an agent may read it, which must not learn
// the folders of this machine.
func withoutPath(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return fmt.Errorf("%s: %w", p.Op, p.Err)
	}
	return err
}
