package place

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// errNotRegular is the error for a file that is not read.
var errNotRegular = errors.New("it is no regular file, and others are not read")

// Open opens a regular file for reading, or one that a symbolic link leads to. Everything else is
// refused: opening a FIFO waits until a program writes to it, and a device may be endless or act on
// being opened. A folder from elsewhere may have either under any name.
func Open(path string) (*os.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	notRegular := &fs.PathError{Op: "open", Path: path, Err: errNotRegular}
	if !info.Mode().IsRegular() {
		return nil, notRegular
	}
	f, err := openOnce(path)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() { // it was replaced
		err = notRegular
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// maxFile bounds the files that ReadFile reads.
const maxFile = 64 << 20

// ReadFile reads a file that a person or a configuration names, of at most 64 MB. It refuses the
// files that Open refuses.
func ReadFile(path string) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, fmt.Errorf("%s has more than %d MB", path, maxFile>>20)
	}
	return data, err
}
