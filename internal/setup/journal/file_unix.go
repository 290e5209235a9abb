//go:build unix

package journal

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// keepOwner gives a new file the owner of the file that it replaces.
func keepOwner(name string, old fs.FileInfo) error {
	was, ok := old.Sys().(*syscall.Stat_t)
	info, err := os.Stat(name)
	if !ok || err != nil {
		return err
	}
	if is, ok := info.Sys().(*syscall.Stat_t); ok && (is.Uid != was.Uid || is.Gid != was.Gid) {
		return os.Chown(name, int(was.Uid), int(was.Gid))
	}
	return nil
}

// syncFolder makes a rename last.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) {
		return err
	}
	return nil
}
