//go:build unix

package place

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// TestOpenRefuses: what is no regular file is refused at once, also behind a link.
func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo, link, file := filepath.Join(dir, "fifo"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("fifo", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{fifo, link, dir, "/dev/zero"} {
		if _, err := ReadFile(path); !errors.Is(err, errNotRegular) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := ReadFile(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if err := errors.Join(os.Remove(link), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link} {
		if data, err := ReadFile(path); err != nil || string(data) != "x" {
			t.Errorf("%s: %q, %v", path, data, err)
		}
	}
	// A FIFO that takes the place of a file after it was looked at.
	f, err := openOnce(fifo)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
}
