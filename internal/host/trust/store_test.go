package trust

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// TestStore: an agreement is about one file with these bytes, also through a link.
func TestStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := New(filepath.Join(dir, "state", "weir", "trusted.json"))
	path := filepath.Join(dir, "weir.yaml")
	if err := os.WriteFile(path, []byte("a"), 0o600); err != nil {
		t.Fatal(err)
	}
	expect := func(what, path, data string, want State) {
		t.Helper()
		if got, err := s.State(path, []byte(data)); got != want || err != nil {
			t.Errorf("%s: %v, %v; want %v", what, got, err, want)
		}
	}
	expect("before", path, "a", Unknown)
	if err := s.Agree(path, []byte("a")); err != nil {
		t.Fatal(err)
	}
	expect("agreed", path, "a", Agreed)
	expect("changed", path, "b", Changed)
	expect("another file", filepath.Join(dir, ".mcp.json"), "a", Unknown)
	if runtime.GOOS != "windows" {
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(dir, link); err != nil {
			t.Fatal(err)
		}
		expect("through a link", filepath.Join(link, "weir.yaml"), "a", Agreed)
		if info, err := os.Stat(s.Path()); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%v, %v", info, err)
		}
	}
	for want := range []int{0, 1} {
		if known, err := s.Forget(path); known != (want == 0) || err != nil {
			t.Errorf("forget %d: %v, %v", want, known, err)
		}
	}
	expect("forgotten", path, "a", Unknown)
}

// TestBounds: agreements of processes at the same time are all kept, up to the bound; a broken file
// is an error and no agreement.
func TestBounds(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := New(filepath.Join(dir, "trusted.json"))
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if err := New(s.Path()).Agree(fmt.Sprintf("/p/%d", i), nil); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	now, err := s.read()
	if err != nil || len(now.Files) != 16 {
		t.Fatalf("%d agreements, %v", len(now.Files), err)
	}
	err = s.change(func(c *contents) {
		for i := range maxFiles {
			c.Files = append(c.Files, agreement{Path: fmt.Sprintf("/q/%d", i)})
		}
	})
	if err == nil {
		err = s.Agree("/last", nil)
	}
	now, readErr := s.read()
	if err != nil || readErr != nil || len(now.Files) != maxFiles || now.Files[maxFiles-1].Path != "/last" {
		t.Errorf("%d agreements, %v, %v", len(now.Files), err, readErr)
	}
	if err := os.WriteFile(s.Path(), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if state, err := s.State("/last", nil); state == Agreed || err == nil || !strings.Contains(err.Error(), s.Path()) {
		t.Errorf("%v, %v", state, err)
	}
}
