//go:build unix

package journal

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// tryLock takes the lock of a file until the file is closed. It reports whether the lock was free.
func tryLock(f *os.File) (bool, error) {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return err == nil, err
}

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

// busy reports whether another program has the file open in a way that forbids the change for now.
func busy(error) bool { return false }

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
