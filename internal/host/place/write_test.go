package place

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestWriteSyncs replaces a file: its data are on the disk before its name is, and then its name.
func TestWriteSyncs(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "file")
	if err := Write(path, []byte("old")); err != nil {
		t.Fatal(err)
	}
	read := func(name string) string {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Error(err)
		}
		return string(data)
	}
	var synced []string
	err := write(path, []byte("new"), func(f *os.File) error {
		info, err := f.Stat()
		switch {
		case err != nil:
			t.Error(err)
		case info.IsDir():
			synced = append(synced, "the folder, in which the file is "+read(path))
		default:
			synced = append(synced, read(f.Name())+", while the file is "+read(path))
		}
		return f.Sync()
	})
	if want := []string{"new, while the file is old", "the folder, in which the file is new"}; err != nil || !slices.Equal(synced, want) {
		t.Errorf("synced %q, %v", synced, err)
	}
	full := errors.New("no space left on device")
	if err := write(path, []byte("lost"), func(*os.File) error { return full }); !errors.Is(err, full) || read(path) != "new" {
		t.Errorf("data that the disk did not take: %v, and the file is %q", err, read(path))
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "new-*")); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
}
