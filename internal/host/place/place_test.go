package place

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"
)

// TestPaths: every system has its folders, whatever system the test runs on.
func TestPaths(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		os            string
		env           map[string]string
		config, state string
	}{
		"linux":          {"linux", map[string]string{"HOME": "/home/ann"}, "/home/ann/.config/weir/weir.yaml", "/home/ann/.local/state/weir"},
		"xdg":            {"linux", map[string]string{"HOME": "/home/ann", "XDG_CONFIG_HOME": "/c/", "XDG_STATE_HOME": "/s"}, "/c/weir/weir.yaml", "/s/weir"},
		"relative xdg":   {"linux", map[string]string{"HOME": "/home/ann", "XDG_CONFIG_HOME": "c", "XDG_STATE_HOME": ""}, "/home/ann/.config/weir/weir.yaml", "/home/ann/.local/state/weir"},
		"macOS":          {"darwin", map[string]string{"HOME": "/Users/ann"}, "/Users/ann/.config/weir/weir.yaml", "/Users/ann/.local/state/weir"},
		"windows":        {"windows", map[string]string{"APPDATA": `C:\Users\ann\AppData\Roaming`, "LOCALAPPDATA": `C:\Users\ann\AppData\Local\`, "XDG_STATE_HOME": "/s"}, `C:\Users\ann\AppData\Roaming\weir\weir.yaml`, `C:\Users\ann\AppData\Local\weir`},
		"windows, share": {"windows", map[string]string{"APPDATA": `\\server\ann`, "USERPROFILE": `C:\Users\ann`}, `\\server\ann\weir\weir.yaml`, `C:\Users\ann\AppData\Local\weir`},
		"no home":        {"linux", map[string]string{"APPDATA": `C:\a`}, "", ""},
		"no profile":     {"windows", map[string]string{"HOME": "/home/ann"}, "", ""},
	} {
		e := Env{OS: c.os, Lookup: func(name string) (string, bool) { v, ok := c.env[name]; return v, ok }}
		for what, side := range map[string]struct {
			get  func() (string, error)
			want string
		}{"config": {e.Config, c.config}, "state": {e.State, c.state}} {
			if got, err := side.get(); got != side.want || (err != nil) != (side.want == "") {
				t.Errorf("%s: %s is %q, %v; want %q", name, what, got, err, side.want)
			}
		}
	}
}

// TestData: servers that are unpacked have a place of their own, apart from the state.
func TestData(t *testing.T) {
	t.Parallel()
	for want, c := range map[string]Env{
		"/home/ann/.local/share/weir":     {OS: "darwin", Lookup: from("HOME", "/home/ann", "XDG_STATE_HOME", "/s")},
		"/d/weir":                         {OS: "linux", Lookup: from("HOME", "/home/ann", "XDG_DATA_HOME", "/d")},
		`C:\Users\ann\AppData\Local\weir`: {OS: "windows", Lookup: from("LOCALAPPDATA", `C:\Users\ann\AppData\Local`)},
		"":                                {OS: "linux", Lookup: from("XDG_DATA_HOME", "d")},
	} {
		if got, err := c.Data(); got != want || (err != nil) != (want == "") {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}

// from returns a Lookup of names and values.
func from(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

// TestFiles: files are their owner's alone, and folders of others are not believed.
func TestFiles(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "weir", "gateways")
	path := filepath.Join(dir, "a.json")
	if err := Write(path, []byte("one")); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 3); string(data) != "one" || err != nil {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := Read(path, 2); err == nil {
		t.Error("a file over the bound was read")
	}
	if _, err := Read(dir, 100); err == nil {
		t.Error("a folder was read")
	}
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no file modes")
	}
	for at, want := range map[string]os.FileMode{path: 0o600, dir: 0o700, filepath.Dir(dir): 0o700} {
		if info, err := os.Stat(at); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v; want %v", at, info.Mode(), err, want)
		}
	}
	if err := os.Chmod(dir, 0o770); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path, 3); err == nil {
		t.Error("a folder in which others may write was believed")
	}
	if err := Write(path, nil); err == nil {
		t.Error("a secret was written where others may write")
	}
}

// TestLockOfTheLate takes a free lock for a caller whose time is over, each time, and no taken one.
func TestLockOfTheLate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "a.lock")
	over, cancel := context.WithCancel(t.Context())
	cancel()
	for range 50 {
		unlock, err := LockIn(over, path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := LockIn(over, path); !errors.Is(err, context.Canceled) {
			t.Fatalf("a taken lock: %v", err)
		}
		unlock()
	}
}

// TestLock: one holder at a time; the wait ends with its context.
func TestLock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "weir", "a.lock")
	held, most := 0, 0
	var mu sync.Mutex
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			unlock, err := Lock(t.Context(), path)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			held++
			most = max(most, held)
			mu.Unlock()
			runtime.Gosched()
			mu.Lock()
			held--
			mu.Unlock()
			unlock()
		})
	}
	all.Wait()
	if most != 1 {
		t.Errorf("%d holders at once", most)
	}
	unlock, err := Lock(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 3*lockPause)
	defer cancel()
	began := time.Now()
	if _, err := Lock(ctx, path); err == nil || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}
