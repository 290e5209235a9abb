package config

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestWatchSettles drives the watcher's loop with events of its own, in false
// time: how often the file is read, and when.
func TestWatchSettles(t *testing.T) {
	const good, better, bad = "mcpServers: {a: {command: x, args: ['${weir:port}']}}", "mcpServers: {a: {command: y, args: ['${weir:port}']}}", "mcpServers: 5"
	synctest.Test(t, func(t *testing.T) {
		port := 100
		opts := Options{FreePort: func() (int, error) { port++; return port, nil }, Dir: "/dir"}
		current, _, err := Parse("weir.yaml", []byte(good), opts)
		if err != nil {
			t.Fatal(err)
		}
		content, missing, reads := good, false, 0
		var seen []string
		var mu sync.Mutex // guards content, missing, reads and seen
		set := func(text string, away bool) { mu.Lock(); content, missing = text, away; mu.Unlock() }
		w := &watch{
			current: current, opts: opts, last: current.sum,
			mine: func(name string) bool { return name == "weir.yaml" },
			read: func(string) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				reads++
				if missing {
					return nil, fs.ErrNotExist
				}
				return []byte(content), nil
			},
			fn: func(c *Config, _ []Warning, err error) {
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					seen = append(seen, "error")
					return
				}
				a, _ := c.Server("a")
				seen = append(seen, a.Command+" "+a.Args[0])
			},
		}
		events, failures := make(chan fsnotify.Event), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.run(ctx, events, failures) }()
		event := func(name string, op fsnotify.Op) { events <- fsnotify.Event{Name: name, Op: op} }
		expect := func(what string, wantReads int, want ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if reads != wantReads || !slices.Equal(seen, want) {
				t.Fatalf("%s: %d reads, saw %q; want %d reads and %q", what, reads, seen, wantReads, want)
			}
			reads, seen = 0, nil
		}

		expect("at the start, for what changed since the load", 1)
		event("other.txt", fsnotify.Write)
		event("weir.yaml", fsnotify.Chmod)
		time.Sleep(time.Minute)
		expect("events of no concern", 0)

		set(better, false)
		event("weir.yaml", fsnotify.Create)
		time.Sleep(settle / 2)
		event("weir.yaml", fsnotify.Write)
		time.Sleep(settle - time.Millisecond)
		expect("not yet quiet", 0)
		time.Sleep(time.Millisecond)
		expect("quiet; the port stays", 1, "y 101")

		event("weir.yaml", fsnotify.Write)
		time.Sleep(settle)
		expect("written with the same contents", 1)

		set(bad, false)
		for range 25 { // never quiet, longer than patience
			event("weir.yaml", fsnotify.Write)
			time.Sleep(settle / 2)
		}
		time.Sleep(settle)
		expect("never quiet", 2, "error")

		set(bad, true)
		event("weir.yaml", fsnotify.Remove)
		time.Sleep(settle)
		expect("away", 1)
		set(good, false)
		failures <- fsnotify.ErrEventOverflow
		time.Sleep(settle)
		expect("good again after lost events", 1, "x 101")

		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestWatchEndsWithItsSource(t *testing.T) {
	for name, run := range map[string]func(w *watch) error{
		"events":   func(w *watch) error { c := make(chan fsnotify.Event); close(c); return w.run(t.Context(), c, nil) },
		"failures": func(w *watch) error { c := make(chan error); close(c); return w.run(t.Context(), nil, c) },
	} {
		w := &watch{current: &Config{path: "x"}, read: func(string) ([]byte, error) { return nil, fs.ErrNotExist }}
		if err := run(w); err == nil || !strings.Contains(err.Error(), "the watcher ended") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWatch uses a real folder and changes the file in the ways editors and
// orchestrators do.
func TestWatch(t *testing.T) {
	text := func(command string) []byte { return fmt.Appendf(nil, "mcpServers: {a: {command: %s}}", command) }
	for _, tc := range []struct {
		name    string
		prepare func(t *testing.T, dir string) (path string)
		change  func(t *testing.T, dir string, data []byte)
	}{
		{
			"written in place",
			func(t *testing.T, dir string) string { return put(t, filepath.Join(dir, "weir.yaml"), text("one")) },
			func(t *testing.T, dir string, data []byte) { put(t, filepath.Join(dir, "weir.yaml"), data) },
		},
		{
			"replaced by a rename",
			func(t *testing.T, dir string) string { return put(t, filepath.Join(dir, "weir.yaml"), text("one")) },
			func(t *testing.T, dir string, data []byte) {
				put(t, filepath.Join(dir, "weir.yaml~"), data)
				must(t, os.Rename(filepath.Join(dir, "weir.yaml~"), filepath.Join(dir, "weir.yaml")))
			},
		},
		{
			"behind a symbolic link",
			func(t *testing.T, dir string) string {
				must(t, os.Mkdir(filepath.Join(dir, "v1"), 0o700))
				put(t, filepath.Join(dir, "v1", "weir.yaml"), text("one"))
				must(t, os.Symlink("v1", filepath.Join(dir, "data")))
				must(t, os.Symlink("data/weir.yaml", filepath.Join(dir, "weir.yaml")))
				return filepath.Join(dir, "weir.yaml")
			},
			func(t *testing.T, dir string, data []byte) {
				next, err := os.MkdirTemp(dir, "v")
				must(t, err)
				put(t, filepath.Join(next, "weir.yaml"), data)
				must(t, os.Symlink(filepath.Base(next), filepath.Join(dir, "data~")))
				must(t, os.Rename(filepath.Join(dir, "data~"), filepath.Join(dir, "data")))
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := t.TempDir()
			path := tc.prepare(t, dir)
			current, _, err := Load(path, Options{})
			must(t, err)
			if current.sum != sha256.Sum256(text("one")) {
				t.Fatal("the sum is not that of the contents")
			}
			// Changed before the watch begins: must not be missed.
			tc.change(t, dir, text("two"))
			type call struct {
				command string
				err     error
			}
			calls := make(chan call, 16)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- Watch(ctx, current, Options{}, func(c *Config, _ []Warning, err error) {
					got := call{err: err}
					if err == nil {
						a, _ := c.Server("a")
						got.command = a.Command
					}
					calls <- got
				})
			}()
			next := func(what string) call {
				t.Helper()
				select {
				case c := <-calls:
					return c
				case <-time.After(10 * time.Second):
					t.Fatalf("%s: not noticed", what)
					return call{}
				}
			}
			if c := next("before"); c.command != "two" {
				t.Errorf("before: %+v", c)
			}
			tc.change(t, dir, text("three"))
			if c := next("after"); c.command != "three" {
				t.Errorf("after: %+v", c)
			}
			tc.change(t, dir, []byte("mcpServers: 5"))
			var problems *Error
			if c := next("broken"); !errors.As(c.err, &problems) {
				t.Errorf("broken: %+v", c)
			}
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

func TestWatchNeedsAFolder(t *testing.T) {
	c := &Config{path: filepath.Join(t.TempDir(), "gone", "weir.yaml")}
	if err := Watch(t.Context(), c, Options{}, nil); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("err = %v", err)
	}
}

func put(t *testing.T, path string, data []byte) string {
	t.Helper()
	must(t, os.WriteFile(path, data, 0o600))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
