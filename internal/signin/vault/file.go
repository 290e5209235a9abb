package vault

import (
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
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
)

const (
	suffix = ".json"
	// maxFile bounds a file: data in base64, and three texts that JSON may escape.
	maxFile = 2*maxData + 8*6*maxText
	// swapWait is how long a Swap waits for other processes.
	swapWait = 10 * time.Second
)

// File is a [Store] in a folder that processes may share. Each record is a file of its own, which is
// replaced as a whole.
type File struct {
	dir    string
	source func(create bool) (*Keys, error)

	mu   sync.Mutex // guards below
	keys *Keys      // nil until they were needed
}

var _ Store = (*File)(nil)

// NewFile returns the store of a folder. The first Swap makes the folder. keys returns the keys and is
// called when they are needed: with create for the first record that is sealed, while no other process
// changes the folder. Without create it may return nil if there are none.
func NewFile(dir string, keys func(create bool) (*Keys, error)) *File {
	return &File{dir: dir, source: keys}
}

// unlocked returns the keys.
func (f *File) unlocked(create bool) (*Keys, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.keys != nil {
		return f.keys, nil
	}
	keys, err := f.source(create)
	if err == nil && keys == nil {
		err = fmt.Errorf("%w: there is no key", ErrClosed)
	}
	if err != nil {
		return nil, err
	}
	f.keys = keys
	return keys, nil
}

// path returns the file of a record. The name reveals neither principal nor server.
func (f *File) path(id ID) string {
	text, _ := json.Marshal(id)
	sum := sha256.Sum256(text)
	return filepath.Join(f.dir, hex.EncodeToString(sum[:16])+suffix)
}

func (f *File) read(path string) (envelope, error) {
	data, err := place.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return envelope{}, ErrMissing
	}
	if err != nil {
		return envelope{}, err
	}
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return envelope{}, fmt.Errorf("%w: %s is not a record", ErrClosed, path)
	}
	return e, nil
}

// Get implements Store.
func (f *File) Get(_ context.Context, id ID) (Record, error) {
	e, err := f.read(f.path(id))
	if err != nil {
		return Record{}, err
	}
	keys, err := f.unlocked(false)
	if err != nil {
		return Record{}, err
	}
	return keys.open(id, e)
}

// Swap implements Store.
func (f *File) Swap(ctx context.Context, id ID, old, new Record) error {
	if err := check(id, new); err != nil {
		return err
	}
	unlock, err := f.alone(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	is, err := f.Get(ctx, id)
	switch {
	case errors.Is(err, ErrMissing):
		paths, err := f.files()
		if err != nil {
			return err
		}
		if len(paths) >= maxRecords {
			return full()
		}
	case err != nil:
		return err
	}
	if !is.equal(old) {
		return ErrChanged
	}
	return f.write(id, new)
}

// write stores a record. The caller holds the lock of the folder.
func (f *File) write(id ID, r Record) error {
	keys, err := f.unlocked(true)
	if err != nil {
		return err
	}
	data, err := json.Marshal(keys.seal(id, r))
	if err != nil {
		return err
	}
	return place.Write(f.path(id), data)
}

// alone locks the folder against changes by other processes.
func (f *File) alone(ctx context.Context) (unlock func(), err error) {
	ctx, cancel := context.WithTimeout(ctx, swapWait)
	defer cancel()
	return place.Lock(ctx, filepath.Join(f.dir, "store.lock"))
}

// Delete implements Store.
func (f *File) Delete(ctx context.Context, id ID) error {
	unlock, err := f.alone(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	err = os.Remove(f.path(id))
	if errors.Is(err, fs.ErrNotExist) {
		return ErrMissing
	}
	return err
}

// files returns the paths of all records.
func (f *File) files() ([]string, error) {
	found, err := os.ReadDir(f.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var paths []string
	for _, entry := range found {
		if strings.HasSuffix(entry.Name(), suffix) {
			paths = append(paths, filepath.Join(f.dir, entry.Name()))
		}
	}
	return paths, err
}

// List implements Store. It leaves out files that are not records.
func (f *File) List(context.Context) ([]Entry, error) {
	paths, err := f.files()
	if err != nil {
		return nil, err
	}
	var all []Entry
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			continue // removed meanwhile
		}
		if e, err := f.read(path); err == nil && f.path(e.ID) == path {
			all = append(all, Entry{ID: e.ID, IssuedBy: e.IssuedBy, Changed: info.ModTime()})
		}
	}
	slices.SortFunc(all, compare)
	return all, nil
}

// Lock implements Store.
func (f *File) Lock(ctx context.Context, id ID) (func(), error) {
	return place.Lock(ctx, strings.TrimSuffix(f.path(id), suffix)+".lock")
}

// Rekey seals all records with the first key and returns how many it changed. A record that no key
// opens stays as it is, and is in the error.
func (f *File) Rekey(ctx context.Context) (changed int, err error) {
	entries, err := f.List(ctx)
	if err != nil {
		return 0, err
	}
	var failed []error
	for _, entry := range entries {
		switch ok, err := f.rekey(ctx, entry.ID); {
		case err != nil:
			failed = append(failed, fmt.Errorf("the credential of %q at %q: %w", entry.Principal, entry.Server+entry.Issuer, err))
		case ok:
			changed++
		}
	}
	return changed, errors.Join(failed...)
}

func (f *File) rekey(ctx context.Context, id ID) (changed bool, err error) {
	unlock, err := f.alone(ctx)
	if err != nil {
		return false, err
	}
	defer unlock()
	keys, err := f.unlocked(false)
	if err != nil {
		return false, err
	}
	e, err := f.read(f.path(id))
	if errors.Is(err, ErrMissing) || err == nil && e.Key == keys.first {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	r, err := keys.open(id, e)
	if err != nil {
		return false, err
	}
	return true, f.write(id, r)
}
