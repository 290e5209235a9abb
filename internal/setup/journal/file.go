package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
)

// file is the current content of a place.
type file struct {
	data   []byte
	exists bool
	info   fs.FileInfo
}

// resolve follows links, also to a file that does not exist yet.
func resolve(name string) (string, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	for range 40 {
		real, err := filepath.EvalSymlinks(name)
		if err == nil {
			return real, nil
		}
		if !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		link, err := os.Readlink(name)
		if err != nil {
			dir, err := filepath.EvalSymlinks(filepath.Dir(name))
			if errors.Is(err, fs.ErrNotExist) {
				return name, nil // Its folder is made with it.
			}
			return filepath.Join(dir, filepath.Base(name)), err
		}
		if !filepath.IsAbs(link) {
			link = filepath.Join(filepath.Dir(name), link)
		}
		name = link
	}
	return "", fmt.Errorf("%s: too many links", name)
}

// readFile reads a file. A missing file is not an error.
func readFile(name string) (file, error) {
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return file{}, nil
	}
	if err != nil {
		return file{}, err
	}
	info, err := os.Stat(name)
	return file{data, true, info}, err
}

// writable refuses files that a user has made read-only, and files of other tools.
func (f file) writable(name string) error {
	if strings.HasPrefix(filepath.ToSlash(name), "/nix/store/") {
		return fmt.Errorf("%s is in the Nix store and cannot be changed there: change the expression that makes it", name)
	}
	if f.exists && !f.info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", name)
	}
	if f.exists && f.info.Mode().Perm()&0o200 == 0 {
		return fmt.Errorf("%s is read-only: make it writable first", name)
	}
	return nil
}

// replaceFile puts data in the place of a file: a temporary file in the same folder, synced, then
// renamed. Check, if there is one, is asked last; its error keeps the old file.
func replaceFile(name string, data []byte, mode fs.FileMode, check func() (fs.FileInfo, error)) error {
	dir := filepath.Dir(name)
	tmp, err := os.CreateTemp(dir, ".weir-*.tmp")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // after the rename there is none
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Chmod(mode.Perm())
	}
	if err == nil {
		err = tmp.Sync()
	}
	if err := errors.Join(err, tmp.Close()); err != nil {
		return err
	}
	if check != nil {
		old, err := check()
		if err != nil {
			return err
		}
		if old != nil {
			if err := keepOwner(tmp.Name(), old); err != nil {
				return err
			}
		}
	}
	if err := retryBusy(func() error { return os.Rename(tmp.Name(), name) }); err != nil {
		return err
	}
	return syncFolder(dir)
}

// retryBusy tries five times while another program has a file open.
func retryBusy(try func() error) error {
	wait := 20 * time.Millisecond
	for i := 1; ; i++ {
		err := try()
		if err == nil || i == 5 || !place.Busy(err) {
			return err
		}
		time.Sleep(wait)
		wait *= 2
	}
}

// put writes next to a place, or removes the file if gone is set. It fails with [ErrChanged] if the file
// does not have the contents of was.
func put(name string, was file, next []byte, gone bool, mode fs.FileMode) error {
	check := func() (fs.FileInfo, error) {
		now, err := readFile(name)
		if err != nil {
			return nil, err
		}
		if now.exists != was.exists || hash(now.data) != hash(was.data) {
			return nil, fmt.Errorf("%s: %w", name, ErrChanged)
		}
		return now.info, now.writable(name)
	}
	if gone {
		if _, err := check(); err != nil {
			return err
		}
		return retryBusy(func() error { return os.Remove(name) })
	}
	if _, err := check(); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return replaceFile(name, next, mode, check)
}
