//go:build !unix

package artifact

import (
	"errors"
	"io/fs"
	"os"
)

// mapFile reads a file, where files are not mapped.
func mapFile(name string) ([]byte, error) { return os.ReadFile(name) }

func unmapFile([]byte) {}

// lockFile makes a file and keeps it open. Where files cannot be locked as on Unix, one that is
// open cannot be removed either, which serves the same purpose.
func lockFile(name string, wait bool) (*os.File, error) {
	if !wait {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
}

func unlockFile(f *os.File) { _ = f.Close() } // nothing was written
