package place

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// MakeFolder makes a folder that only its owner may read, with its parents. It refuses a folder in
// which other users may write. They could redirect this user's commands, and tokens, to their own
// gateway.
func MakeFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return checkFolder(dir)
}

// checkFolder returns an error if a folder is missing or other users may write in it.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case err != nil:
		return err
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("other users may write in %s; take that right away with: chmod 700 %s", dir, dir)
	}
	return nil
}

// Write replaces a file of the state folder with one that only its owner may read. Readers see the
// old contents or the new ones, never a part, also after a crash of the machine. The new ones are on
// the disk when Write returns. It makes the file's folder.
func Write(path string, data []byte) error { return write(path, data, (*os.File).Sync) }

// write is Write with the function that makes the disk confirm a file or a folder.
func write(path string, data []byte, sync func(*os.File) error) error {
	dir := filepath.Dir(path)
	if err := MakeFolder(dir); err != nil {
		return err
	}
	temp, err := os.CreateTemp(dir, "new-*") // 0600
	if err != nil {
		return err
	}
	if _, err = temp.Write(data); err == nil {
		err = sync(temp) // otherwise the name could outlive the data
	}
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp.Name()))
	}
	syncFolder(dir, sync)
	return nil
}

// SyncFolder makes the disk confirm the names in a folder, where the system can.
func SyncFolder(dir string) { syncFolder(dir, (*os.File).Sync) }

func syncFolder(dir string, sync func(*os.File) error) {
	if f, err := os.Open(dir); err == nil {
		_ = sync(f) // not every system can
		_ = f.Close()
	}
}

// Read reads a file of the state folder with at most max bytes. It refuses files in folders in which
// other users may write, and everything that is not a regular file.
func Read(path string, max int64) ([]byte, error) {
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		return nil, fmt.Errorf("%s has more than %d bytes", path, max)
	}
	return data, err
}

// lockPause is the time between two attempts to take a lock.
const lockPause = 20 * time.Millisecond

// Lock takes the lock at path and waits for it until ctx ends. Other processes respect the lock.
// unlock or the end of the process frees it. The file stays: if it were removed, two processes
// could hold locks of two files. Lock makes the file's folder, as [MakeFolder] does.
func Lock(ctx context.Context, path string) (unlock func(), err error) {
	if err := MakeFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return LockIn(ctx, path)
}

// LockIn is Lock for a file in an existing folder, which may be one that other users can write to. It
// takes a free lock even if ctx has ended.
func LockIn(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	var timer *time.Timer
	for {
		switch ok, err := tryLock(f); {
		case err != nil:
			return nil, errors.Join(fmt.Errorf("locking %s: %w", path, err), f.Close())
		case ok:
			return func() { _ = f.Close() }, nil // closing frees the lock
		}
		if timer == nil {
			timer = time.NewTimer(lockPause)
			defer timer.Stop()
		} else {
			timer.Reset(lockPause)
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("another weir holds %s: %w", path, ctx.Err()), f.Close())
		case <-timer.C:
		}
	}
}
