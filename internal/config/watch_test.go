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
	"testing"
	"time"
)

// TestWatchLooks calls what reads the file after each change: it reports what is new, once.
func TestWatchLooks(t *testing.T) {
	const good, better, bad = "mcpServers: {a: {command: x, args: ['${weir:port}']}}", "mcpServers: {a: {command: y, args: ['${weir:port}']}}", "mcpServers: 5"
	port := 100
	opts := Options{FreePort: func() (int, error) { port++; return port, nil }, Dir: "/dir"}
	current, _, err := Parse("weir.yaml", []byte(good), opts)
	if err != nil {
		t.Fatal(err)
	}
	content := good
	var seen []string
	w := &watch{
		current: current, opts: opts, last: current.sum,
		read: func(string) ([]byte, error) {
			if content == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(content), nil
		},
		fn: func(c *Config, _ []Warning, err error) {
			if err != nil {
				seen = append(seen, "error")
				return
			}
			a, _ := c.Server("a")
			seen = append(seen, a.Command+" "+a.Args[0])
		},
	}
	for _, step := range []struct {
		what, content string
		want          []string
	}{
		{"as it was loaded", good, nil},
		{"changed; the port stays", better, []string{"y 101"}},
		{"written with the same contents", better, nil},
		{"broken", bad, []string{"error"}},
		{"away", "", nil},
		{"good again", good, []string{"x 101"}},
	} {
		content, seen = step.content, nil
		w.look()
		if !slices.Equal(seen, step.want) {
			t.Fatalf("%s: saw %q, want %q", step.what, seen, step.want)
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
				case <-time.After(30 * time.Second):
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
