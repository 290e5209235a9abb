package filewatch

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// An editor writes a file in several steps, and replaces it rather than writing into it. So the
// folder is watched, and a change is reported when the file has been quiet for settle, at the
// latest patience after the first step.
const (
	settle   = 100 * time.Millisecond
	patience = time.Second
)

// Watch calls fn at once, and again whenever the contents of the file may have changed. The caller
// reads the file and compares: a call without a change is possible, a change without a call after
// it is not. The file may be absent, and may be a symbolic link or behind one.
//
// Watch blocks until ctx ends, and then returns nil, or until the folder can no longer be watched.
// It calls fn from its own goroutine, never after it returned. A change that comes while fn runs
// leads to another call.
func Watch(ctx context.Context, path string, fn func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	defer watcher.Close()
	abs, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", path, err)
	}
	if err := watcher.Add(filepath.Dir(abs)); err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(abs), err)
	}
	// A symbolic link's target changes without an event for the link's own name.
	target, err := filepath.EvalSymlinks(abs)
	w := watch{path: path, fn: fn, concerns: func(name string) bool {
		return err != nil || target != abs || filepath.Base(name) == filepath.Base(abs)
	}}
	return w.run(ctx, watcher.Events, watcher.Errors)
}

// watch is the part of Watch that needs no file system.
type watch struct {
	path     string
	concerns func(name string) bool // reports whether an event can be about the file
	fn       func()
}

func (w watch) run(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error) error {
	timer := time.NewTimer(0) // at once: the file may have changed since it was read
	defer timer.Stop()
	var first time.Time // of the changes that wait; zero if none do
	wait := func() {
		if first.IsZero() {
			first = time.Now()
		}
		timer.Reset(max(0, min(settle, patience-time.Since(first))))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case event, ok := <-events:
			if !ok {
				return fmt.Errorf("watch %s: the watcher ended", w.path)
			}
			if w.concerns(event.Name) && event.Op != fsnotify.Chmod {
				wait()
			}
		case _, ok := <-failures:
			if !ok {
				return fmt.Errorf("watch %s: the watcher ended", w.path)
			}
			wait() // events were lost, so the file may have changed
		case <-timer.C:
			first = time.Time{}
			if ctx.Err() == nil {
				w.fn()
			}
		}
	}
}
