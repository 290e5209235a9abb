//go:build !unix

package taskqueue

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// lockFolder keeps other processes out of a folder until the result is closed.
// After a crash the file has to be removed by hand.
func lockFolder(dir string) (io.Closer, error) {
	name := filepath.Join(dir, "lock")
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, fmt.Errorf("another process uses this folder, or did when it crashed (then remove %s): %w", name, err)
	}
	return removing{f}, nil
}

type removing struct{ *os.File }

func (r removing) Close() error {
	_ = r.File.Close()
	return os.Remove(r.Name())
}
