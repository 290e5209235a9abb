package place_test

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weir-mcp/weir/internal/host/place"
)

// TestMakeKey: one key for each file, however many processes start at once, and for its owner alone.
func TestMakeKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state", "weir", place.OperatorKey)
	if _, err := place.ReadKey(path); err == nil {
		t.Fatal("a key was read before there was one")
	}
	keys := make([]string, 16)
	var all sync.WaitGroup
	for i := range keys {
		all.Go(func() {
			var err error
			if keys[i], err = place.MakeKey(t.Context(), path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	again, err := place.ReadKey(path)
	for _, key := range keys {
		if err != nil || key != again || len(key) != 43 {
			t.Fatalf("%q and %q, %v", key, again, err)
		}
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	for file, want := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", file, info.Mode(), err)
		}
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if key, err := place.MakeKey(t.Context(), path); err == nil || key != "" || !strings.Contains(err.Error(), "remove it") || strings.Contains(err.Error(), again) {
		t.Errorf("a key that others read: %q, %v", key, err)
	}
}

// TestDamagedKey: a file without a whole key opens nothing.
func TestDamagedKey(t *testing.T) {
	path := filepath.Join(t.TempDir(), place.OperatorKey)
	for _, text := range []string{"", "\n", "short", strings.Repeat("A", 44), strings.Repeat("!", 43), strings.Repeat("A", 2000)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if key, err := place.MakeKey(t.Context(), path); err == nil || key != "" {
			t.Errorf("%q: %q, %v", text, key, err)
		}
	}
}
