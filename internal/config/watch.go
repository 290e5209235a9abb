package config

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// An editor writes a file in several steps, and replaces it rather than writing
// into it. So the folder is watched, and the file is read when it has been quiet
// for settle, at the latest patience after the first step.
const (
	settle   = 100 * time.Millisecond
	patience = time.Second
)

// Watch reads the file of a loaded configuration again whenever its contents
// change, with the same options, and calls fn with what [Load] would return. A
// change between that Load and Watch is noticed too. Ports, and answers to
// inputs, are kept from the last good reading.
//
// Watch blocks until ctx ends (and returns nil) or the folder can no longer be
// watched; its caller owns it. fn is called from that one goroutine, never after
// Watch returned, and a change that comes while fn runs is seen afterwards. A file
// that is away for a moment is waited for; one that is gone is not an event.
func Watch(ctx context.Context, current *Config, opts Options, fn func(*Config, []Warning, error)) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return fmt.Errorf("watch %s: %w", current.path, err)
	}
	defer watcher.Close()
	path, err := filepath.Abs(current.path)
	if err != nil {
		return fmt.Errorf("watch %s: %w", current.path, err)
	}
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return fmt.Errorf("watch %s: %w", filepath.Dir(path), err)
	}
	w := &watch{current: current, opts: opts, fn: fn, read: readFile, last: current.sum}
	// A symbolic link's target changes without an event for the link's own name.
	target, err := filepath.EvalSymlinks(path)
	w.mine = func(name string) bool {
		return err != nil || target != path || filepath.Base(name) == filepath.Base(path)
	}
	return w.run(ctx, watcher.Events, watcher.Errors)
}

// watch is the part of Watch that needs no file system.
type watch struct {
	current *Config
	opts    Options
	fn      func(*Config, []Warning, error)
	read    func(path string) ([]byte, error)
	mine    func(name string) bool // whether an event can be about the file
	last    [sha256.Size]byte      // hash of what was read last
}

func (w *watch) run(ctx context.Context, events <-chan fsnotify.Event, failures <-chan error) error {
	timer := time.NewTimer(0) // at once: the file may have changed since it was loaded
	defer timer.Stop()
	var first time.Time // of the changes that wait; zero when none do
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
				return fmt.Errorf("watch %s: the watcher ended", w.current.path)
			}
			if w.mine(event.Name) && event.Op != fsnotify.Chmod {
				wait()
			}
		case _, ok := <-failures:
			if !ok {
				return fmt.Errorf("watch %s: the watcher ended", w.current.path)
			}
			wait() // events were lost, so the file may have changed
		case <-timer.C:
			first = time.Time{}
			w.look(ctx)
		}
	}
}

// look reads the file and reports it if it is not what was read last.
func (w *watch) look(ctx context.Context) {
	data, err := w.read(w.current.path)
	if err != nil || ctx.Err() != nil {
		return
	}
	sum := sha256.Sum256(data)
	if sum == w.last {
		return
	}
	w.last = sum
	opts := w.opts
	opts.before = w.current
	next, warnings, err := parseFile(w.current.path, data, opts)
	if err == nil {
		w.current = next
	}
	w.fn(next, warnings, err)
}
