package trust

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
)

// Bounds of a Store. The oldest agreements go first.
const (
	maxFiles = 1000
	maxStore = 4 << 20
)

// lockWait bounds the wait for other processes that change the Store.
const lockWait = 5 * time.Second

// Store is a file of agreements. Several processes may use it at once.
type Store struct{ path string }

// New returns the Store in a file, which may not exist yet.
func New(path string) *Store { return &Store{path} }

// Path returns the path of the file. It changes with each agreement.
func (s *Store) Path() string { return s.path }

// agreement is one entry of the file.
type agreement struct {
	Path   string    `json:"path"`
	SHA256 string    `json:"sha256"`
	At     time.Time `json:"at"`
}

// contents is the whole file.
type contents struct {
	Files []agreement `json:"files"` // the newest one last
}

// State is a Store's knowledge of a file.
type State int

// The states of a file.
const (
	Unknown State = iota // the person has never agreed to the file
	Changed              // the person has agreed to other contents
	Agreed
)

// State returns the state of a file with these contents. An error means that the Store cannot be
// read; the file must not be used then.
func (s *Store) State(path string, data []byte) (State, error) {
	name, err := real(path)
	if err != nil {
		return Unknown, err
	}
	all, err := s.read()
	if err != nil {
		return Unknown, err
	}
	i := slices.IndexFunc(all.Files, func(f agreement) bool { return f.Path == name })
	switch {
	case i < 0:
		return Unknown, nil
	case all.Files[i].SHA256 != sum(data):
		return Changed, nil
	}
	return Agreed, nil
}

// Agree records that the person has agreed to a file with these contents.
func (s *Store) Agree(path string, data []byte) error {
	name, err := real(path)
	if err != nil {
		return err
	}
	return s.change(func(all *contents) {
		all.forget(name)
		all.Files = append(all.Files, agreement{name, sum(data), time.Now().UTC()})
		all.Files = all.Files[max(0, len(all.Files)-maxFiles):]
	})
}

// Forget removes the agreement to a file. known reports whether there was one.
func (s *Store) Forget(path string) (known bool, err error) {
	name, err := real(path)
	if err != nil {
		return false, err
	}
	err = s.change(func(all *contents) { known = all.forget(name) })
	return known, err
}

// forget removes the entry of a path.
func (c *contents) forget(path string) (known bool) {
	before := len(c.Files)
	c.Files = slices.DeleteFunc(c.Files, func(f agreement) bool { return f.Path == path })
	return len(c.Files) < before
}

// change reads the file, applies fn and writes it, while no other process does.
func (s *Store) change(fn func(*contents)) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	unlock, err := place.Lock(ctx, s.path+".lock")
	if err != nil {
		return err
	}
	defer unlock()
	all, err := s.read()
	if err != nil {
		return err
	}
	fn(&all)
	data, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	return place.Write(s.path, append(data, '\n'))
}

// read returns the contents of the file. A missing file is empty.
func (s *Store) read() (all contents, err error) {
	data, err := place.Read(s.path, maxStore)
	if errors.Is(err, fs.ErrNotExist) {
		return contents{}, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	if err != nil {
		return contents{}, fmt.Errorf("%s cannot be read (%w); after removing it, weir asks again about each configuration", s.path, err)
	}
	return all, nil
}

// real returns the absolute path of a file without symbolic links.
func real(path string) (string, error) {
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	if linked, err := filepath.EvalSymlinks(abs); err == nil {
		return linked, nil
	}
	return abs, nil // a missing file can be forgotten
}

func sum(data []byte) string {
	hash := sha256.Sum256(data)
	return hex.EncodeToString(hash[:])
}
