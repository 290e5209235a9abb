package place

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// TestUsable: a folder with files of this user is usable and unchanged. A folder that is not there is not.
func TestUsable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a", "b")
	if err := errors.Join(os.Mkdir(filepath.Dir(file), 0o700), os.WriteFile(file, []byte("text"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Usable(dir); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
		t.Errorf("%q %v", text, err)
	}
	if err := Usable(filepath.Join(dir, "missing")); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
