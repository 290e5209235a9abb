package memory

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// files are the files of a Pool.
type files struct {
	dir    func() (string, error)
	limit  int64
	linger time.Duration
	log    *slog.Logger

	mu      sync.Mutex // guards below
	closed  bool
	used    int64
	lasting map[*spill]*time.Timer // mappings that stay readable for a while
}

// errNoFiles says that there is no folder for files.
var errNoFiles = errors.New("there is no folder for files, or it cannot be written to: set artifacts.dir, and see weir's log")

// spill is one file.
type spill struct {
	fs     *files
	f      *os.File // nil once it is mapped
	size   int64
	mapped []byte
}

func (fs *files) size() int64 {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	return fs.used
}

// create makes an empty file that only this user can read.
func (fs *files) create() (*spill, error) {
	if fs == nil {
		return nil, errNoFiles
	}
	dir, err := fs.dir()
	var f *os.File
	if err == nil {
		f, err = os.CreateTemp(dir, "weir-message-*") // 0600
	}
	if err != nil {
		fs.log.Warn("a large message cannot go to a file", "err", err)
		return nil, errNoFiles
	}
	if err := unname(f); err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return &spill{fs: fs, f: f}, nil
}

// Write implements io.Writer.
func (s *spill) Write(p []byte) (int, error) {
	if err := s.fs.reserve(int64(len(p))); err != nil {
		return 0, err
	}
	s.size += int64(len(p)) // also of a partly written file: drop gives it back
	n, err := s.f.Write(p)
	if err != nil {
		s.fs.log.Warn("a large message cannot be written to its file", "file", s.f.Name(), "err", err)
		err = fmt.Errorf("its file cannot be written: %w", withoutPath(err))
	}
	return n, err
}

// withoutPath takes the path off an error: who calls needs not know it.
func withoutPath(err error) error {
	if p := (*os.PathError)(nil); errors.As(err, &p) {
		return p.Err
	}
	return err
}

func (fs *files) reserve(n int64) error {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.used+n > fs.limit {
		return fmt.Errorf("%d of the %d bytes of artifacts.disk_bytes are taken", fs.used, fs.limit)
	}
	fs.used += n
	return nil
}

// open maps the file, of size bytes.
func (s *spill) open(size int64) ([]byte, error) {
	data, err := mapFile(s.f, size)
	if err != nil {
		return nil, withoutPath(err)
	}
	s.mapped = data
	return data, nil
}

// drop gives the file up. Mapped bytes stay readable for Options.Linger.
func (s *spill) drop() {
	fs := s.fs
	closeFile(s.f) // the mapping outlives it
	if s.mapped == nil || fs.linger < 0 || !mapsFiles {
		s.end()
		return
	}
	letPagesGo(s.mapped)
	fs.mu.Lock()
	defer fs.mu.Unlock()
	if fs.closed {
		s.endLocked()
		return
	}
	if fs.lasting == nil {
		fs.lasting = map[*spill]*time.Timer{}
	}
	fs.lasting[s] = time.AfterFunc(fs.linger, func() {
		fs.mu.Lock()
		defer fs.mu.Unlock()
		if _, there := fs.lasting[s]; there {
			s.endLocked()
		}
	})
}

func (s *spill) end() {
	s.fs.mu.Lock()
	defer s.fs.mu.Unlock()
	s.endLocked()
}

func (s *spill) endLocked() {
	delete(s.fs.lasting, s)
	unmapFile(s.mapped)
	s.mapped = nil
	s.fs.used -= s.size
	s.size = 0
}

func (fs *files) close() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.closed = true
	for s, timer := range fs.lasting {
		timer.Stop()
		s.endLocked()
	}
}
