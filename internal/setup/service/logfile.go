package service

import (
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/weir-mcp/weir/internal/host/place"
)

// maxLog bounds a log file. A full one is set aside as FILE.old, so that both have twice that.
const maxLog = 4 << 20

// Log is a log file with a bound. It is open until the process ends. Write may be called at the same
// time.
type Log struct {
	path string

	mu   sync.Mutex // guards below
	file *os.File
	size int64
}

// OpenLog opens the log at path, which only its owner may read, to append to it.
func OpenLog(path string) (*Log, error) {
	l := &Log{path: path}
	return l, l.open()
}

// open opens the file at the path. The caller holds mu, or owns l.
func (l *Log) open() error {
	info, err := os.Stat(l.path)
	if errors.Is(err, fs.ErrNotExist) {
		if err := place.Write(l.path, nil); err != nil {
			return err
		}
		l.size = 0
	} else if err != nil {
		return err
	} else {
		l.size = info.Size()
	}
	l.file, err = os.OpenFile(l.path, os.O_APPEND|os.O_WRONLY, 0o600)
	return err
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil { // setting a full log aside has failed
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	if l.size > 0 && l.size+int64(len(p)) > maxLog {
		err := l.file.Close()
		l.file = nil
		if err = errors.Join(err, os.Rename(l.path, l.path+".old")); err != nil {
			return 0, err
		}
		if err := l.open(); err != nil {
			return 0, err
		}
	}
	n, err := l.file.Write(p)
	l.size += int64(n)
	return n, err
}
