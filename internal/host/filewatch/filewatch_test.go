package filewatch

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"
)

// TestSettles drives the loop with events of its own, in false time.
func TestSettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan struct{}, 100)
		w := watch{fn: func() { calls <- struct{}{} }, concerns: func(name string) bool { return name == "weir.yaml" }}
		events, failures := make(chan fsnotify.Event), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- w.run(ctx, events, failures) }()
		event := func(name string, op fsnotify.Op) { events <- fsnotify.Event{Name: name, Op: op} }
		expect := func(what string, want int) {
			t.Helper()
			synctest.Wait()
			if got := len(calls); got != want {
				t.Fatalf("%s: %d calls, want %d", what, got, want)
			}
			for range want {
				<-calls
			}
		}

		expect("at the start, for what changed before", 1)
		event("other.txt", fsnotify.Write)
		event("weir.yaml", fsnotify.Chmod)
		time.Sleep(time.Minute)
		expect("events of no concern", 0)

		event("weir.yaml", fsnotify.Create)
		time.Sleep(settle / 2)
		event("weir.yaml", fsnotify.Write)
		time.Sleep(settle - time.Millisecond)
		expect("not yet quiet", 0)
		time.Sleep(time.Millisecond)
		expect("quiet", 1)

		for range 25 { // never quiet, longer than patience
			event("weir.yaml", fsnotify.Write)
			time.Sleep(settle / 2)
		}
		time.Sleep(settle)
		expect("never quiet", 2)

		failures <- fsnotify.ErrEventOverflow
		time.Sleep(settle)
		expect("events were lost", 1)

		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestEndsWithItsSource(t *testing.T) {
	for name, run := range map[string]func(w watch) error{
		"events":   func(w watch) error { c := make(chan fsnotify.Event); close(c); return w.run(t.Context(), c, nil) },
		"failures": func(w watch) error { c := make(chan error); close(c); return w.run(t.Context(), nil, c) },
	} {
		if err := run(watch{path: "x", fn: func() {}}); err == nil || !strings.Contains(err.Error(), "x: the watcher ended") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFile watches a file that is not there yet, is written, replaced and removed.
func TestFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "file")
	contents := make(chan string, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Watch(ctx, path, func() {
			data, err := os.ReadFile(path)
			if err != nil {
				data = []byte("none")
			}
			contents <- string(data)
		})
	}()
	expect := func(want string) {
		t.Helper()
		for timeout := time.After(30 * time.Second); ; {
			select {
			case got := <-contents:
				if got == want {
					return
				}
			case <-timeout:
				t.Fatalf("%q was not noticed", want)
			}
		}
	}
	write := func(name, data string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	expect("none")
	write("file", "one")
	expect("one")
	write("file~", "two")
	if err := os.Rename(filepath.Join(dir, "file~"), path); err != nil {
		t.Fatal(err)
	}
	expect("two")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	expect("none")
	write("file", "three")
	expect("three")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := Watch(t.Context(), filepath.Join(dir, "gone", "file"), nil); err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("without a folder: %v", err)
	}
}
