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
func Watch(ctx context.Context, path string, fn func()) error { return Files(ctx, []string{path}, fn) }

// Files is Watch for several files: fn is called when the contents of one of them may have changed.
func Files(ctx context.Context, paths []string, fn func()) error {
	if len(paths) == 0 {
		<-ctx.Done()
		return nil
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", paths[0], err)
	}
	defer watcher.Close()
	names := map[string]bool{}   // of files, which events of their folders name
	linked := map[string]bool{}  // folders with a file that is a symbolic link, or behind one
	folders := map[string]bool{} // that are watched
	for _, path := range paths {
		abs, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		dir := filepath.Dir(abs)
		if !folders[dir] {
			if err := watcher.Add(dir); err != nil {
				return fmt.Errorf("watch %s: %w", dir, err)
			}
			folders[dir] = true
		}
		names[abs] = true
		// A symbolic link's target changes without an event for the link's own name.
		if target, err := filepath.EvalSymlinks(abs); err != nil || target != abs {
			linked[dir] = true
		}
	}
	w := watch{path: paths[0], fn: fn, concerns: func(name string) bool {
		return linked[filepath.Dir(name)] || names[name]
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
