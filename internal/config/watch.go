package config

import (
	"bytes"
	"context"
	"crypto/sha256"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/host/filewatch"
)

// Watch reads the file of a loaded configuration again whenever its contents change, with the same
// options. It calls fn with the result, as from [Load]. It also notices a change between that Load
// and Watch. Ports, and answers to inputs, are kept from the last good reading. Further reasons to
// read are changes of [Options].SecretsFile if the file names secrets, changes of the files of
// ${file:PATH} and of saved programs, and servers named by [Options].Failed that use answers of
// programs. While a program or a file fails, Watch tries again, with growing pauses. If those files
// cannot be watched, fn gets a warning with the current configuration.
//
// Watch blocks until ctx ends, then it returns nil. It returns an error if a folder can no longer
// be watched. Calls of fn do not overlap, and none starts after Watch has returned. A change during
// a call is noticed afterwards. Watch waits for a file that is away for a moment; a removed file is
// not an event.
func Watch(ctx context.Context, current *Config, opts Options, fn func(*Config, []Warning, error)) error {
	w := &watch{current: current, opts: opts, fn: fn, read: readFile, last: current.sum, seen: current.resolved.outside}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	follow := sync.OnceFunc(func() { background.Go(func() { w.secrets(ctx) }) })
	w.start = func(run func(ctx context.Context)) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		background.Go(func() { run(ctx) })
		return cancel
	}
	w.mu.Lock()
	w.follow()
	w.mu.Unlock()
	if opts.Approvals != "" {
		background.Go(func() { w.approvals(ctx) })
	}
	if opts.Failed != nil {
		background.Go(func() { w.failures(ctx) })
	}
	err := filewatch.Watch(ctx, current.path, func() {
		if w.look() {
			follow()
		}
	})
	cancel()
	background.Wait()
	return err
}

// watch compares the contents with the contents of the last reading.
type watch struct {
	current *Config
	opts    Options
	fn      func(*Config, []Warning, error)
	read    func(path string) ([]byte, error)

	// start runs a function in the background until the returned function is called. Nil runs nothing.
	start func(run func(ctx context.Context)) context.CancelFunc

	mu       sync.Mutex        // held while the file is read and fn runs
	last     [sha256.Size]byte // hash of the last contents
	held     bool              // Approve refused the last contents
	seen     *outside          // of the last reading; nil if it looked at nothing else
	followed []string          // the paths of seen.files that are watched
	stop     context.CancelFunc
	retry    context.CancelFunc // of the next attempt after a failed reading; nil if none is due
	pause    time.Duration      // before that attempt
}

// follow watches the files of the last reading in place of those before, and plans another reading
// if it failed. The caller holds mu.
func (w *watch) follow() {
	if w.start == nil || w.seen == nil {
		return
	}
	w.plan(w.seen.failed)
	paths := slices.DeleteFunc(slices.Sorted(maps.Keys(w.seen.files)), func(path string) bool {
		_, err := os.Stat(filepath.Dir(path))
		return err != nil // the next attempt looks again
	})
	if slices.Equal(paths, w.followed) {
		return
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	if w.followed = paths; len(paths) > 0 {
		w.stop = w.start(func(ctx context.Context) { w.files(ctx, paths) })
	}
}

// The pauses between readings while a program or a file fails.
const (
	retryPause    = 5 * time.Second
	maxRetryPause = 10 * time.Minute
)

// plan plans another reading if the last one failed. The caller holds mu.
func (w *watch) plan(failed bool) {
	if w.retry != nil {
		w.retry()
		w.retry = nil
	}
	if !failed {
		w.pause = 0
		return
	}
	w.pause = min(max(2*w.pause, retryPause), maxRetryPause)
	pause := w.pause
	w.retry = w.start(func(ctx context.Context) {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
			w.again("")
		case <-ctx.Done():
		}
	})
}

// files watches files outside of the configuration until ctx ends.
func (w *watch) files(ctx context.Context, paths []string) {
	err := filewatch.Files(ctx, paths, func() { w.look() })
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fn(w.current, []Warning{{File: w.current.path, Message: "changes of files that it names are not seen; restart weir to apply them: " + err.Error()}}, nil)
}

// failures fetches answers of programs again for failed servers until ctx ends.
func (w *watch) failures(ctx context.Context) {
	for {
		select {
		case server := <-w.opts.Failed:
			w.mu.Lock()
			due := w.current.resolved.anyDue(server)
			w.mu.Unlock()
			if due {
				w.again(server)
			}
		case <-ctx.Done():
			return
		}
	}
}

// approvals watches the file of approvals until ctx ends, and reads refused contents again.
func (w *watch) approvals(ctx context.Context) {
	err := filewatch.Watch(ctx, w.opts.Approvals, func() {
		w.mu.Lock()
		held := w.held
		w.mu.Unlock()
		if held {
			w.look()
		}
	})
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fn(w.current, []Warning{{File: w.opts.Approvals, Message: "agreements to a changed configuration are not seen; restart weir to apply them: " + err.Error()}}, nil)
}

// secrets watches the file of the secrets until ctx ends. Its folder is made, because the first
// secret may be stored later.
func (w *watch) secrets(ctx context.Context) {
	err := os.MkdirAll(filepath.Dir(w.opts.SecretsFile), 0o700)
	if err == nil {
		err = filewatch.Watch(ctx, w.opts.SecretsFile, func() { w.look() })
	}
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fn(w.current, []Warning{{File: w.opts.SecretsFile, Message: "changes of secrets are not seen; restart weir to apply them: " + err.Error()}}, nil)
}

// look reads the file and reports changed contents. It returns whether changes of secrets matter.
func (w *watch) look() (secrets bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	data, err := w.read(w.current.path)
	if err != nil {
		return false
	}
	secrets = w.opts.SecretsFile != "" && namesSecret(data)
	changed := w.seen != nil && w.opts.ReadFile != nil && w.seen.files.changed(w.opts.ReadFile)
	if w.held || changed || w.opts.Sum(data) != w.last {
		w.reread(data, "")
	}
	return secrets
}

// again reads the file although it may be unchanged: programs that failed are run again, and those
// whose answers a failed server uses.
func (w *watch) again(server string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if data, err := w.read(w.current.path); err == nil {
		w.reread(data, server)
	}
}

// reread reads contents of the file and reports them. The caller holds mu.
func (w *watch) reread(data []byte, renew string) {
	sum := w.opts.Sum(data)
	if w.opts.Approve != nil {
		if err := w.opts.Approve(w.current.path, data); err != nil {
			if !w.held || sum != w.last { // each refusal is reported once
				w.fn(nil, nil, err)
			}
			w.held, w.last = true, sum
			return
		}
	}
	w.held, w.last = false, sum
	opts := w.opts
	opts.Approve, opts.again = nil, again{w.current, &outside{files: watchedFiles{}}, renew}
	next, warnings, err := parseFile(w.current.path, data, opts)
	if err == nil {
		w.current = next
	}
	w.seen = opts.again.seen
	w.follow()
	w.fn(next, warnings, err)
}

// namesSecret reports whether a file may hold a reference to a secret.
func namesSecret(data []byte) bool { return bytes.Contains(data, []byte("${secret:")) }

// Sum returns a hash of the sources of a configuration: the file, and the file of the secrets if
// the former names one.
func (o Options) Sum(data []byte) [sha256.Size]byte {
	sum := sha256.Sum256(data)
	if o.SecretsFile == "" || o.ReadFile == nil || !namesSecret(data) {
		return sum
	}
	secrets, err := o.ReadFile(o.SecretsFile)
	if err != nil {
		secrets = nil
	}
	more := sha256.Sum256(secrets)
	return sha256.Sum256(append(sum[:], more[:]...))
}
