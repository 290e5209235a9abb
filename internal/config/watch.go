package config

import (
	"context"
	"crypto/sha256"

	"github.com/weir-mcp/weir/internal/filewatch"
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
	w := &watch{current: current, opts: opts, fn: fn, read: readFile, last: current.sum}
	return filewatch.Watch(ctx, current.path, w.look)
}

// watch compares what is read with what was read before.
type watch struct {
	current *Config
	opts    Options
	fn      func(*Config, []Warning, error)
	read    func(path string) ([]byte, error)
	last    [sha256.Size]byte // hash of what was read last
}

// look reads the file and reports it if it is not what was read last.
func (w *watch) look() {
	data, err := w.read(w.current.path)
	if err != nil {
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
