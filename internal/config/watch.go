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

	"github.com/weir-mcp/weir/internal/host/filewatch"
)

// Watch reads the file of a loaded configuration again whenever its contents change, with the same
// options. It calls fn with the result, as from [Load]. It also notices a change between that Load
// and Watch. Ports, and answers to inputs, are kept from the last good reading. If the file names
// secrets, a change of [Options].SecretsFile counts as well, and so do changes of the files of saved
// programs. If those files cannot be watched, fn gets a warning with the current configuration.
//
// Watch blocks until ctx ends, then it returns nil. It returns an error if a folder can no longer
// be watched. Calls of fn do not overlap, and none starts after Watch has returned. A change during
// a call is noticed afterwards. Watch waits for a file that is away for a moment; a removed file is
// not an event.
func Watch(ctx context.Context, current *Config, opts Options, fn func(*Config, []Warning, error)) error {
	w := &watch{current: current, opts: opts, fn: fn, read: readFile, last: current.sum, programs: current.programFiles()}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var background sync.WaitGroup
	follow := sync.OnceFunc(func() { background.Go(func() { w.secrets(ctx) }) })
	w.start = func(paths []string) context.CancelFunc {
		ctx, cancel := context.WithCancel(ctx)
		background.Go(func() { w.savedPrograms(ctx, paths) })
		return cancel
	}
	w.mu.Lock()
	w.follow()
	w.mu.Unlock()
	if opts.Approvals != "" {
		background.Go(func() { w.approvals(ctx) })
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

	// start watches the files of saved programs until the returned function is called.
	start func(paths []string) context.CancelFunc

	mu       sync.Mutex        // held while the file is read and fn runs
	last     [sha256.Size]byte // hash of the last contents
	held     bool              // Approve refused the last contents
	programs programFiles      // that the last reading has looked at
	followed []string          // the paths of programs that are watched
	stop     context.CancelFunc
}

// follow watches the files of the saved programs in place of those before. The caller holds mu.
func (w *watch) follow() {
	paths := slices.Sorted(maps.Keys(w.programs))
	if w.start == nil || slices.Equal(paths, w.followed) {
		return
	}
	if w.stop != nil {
		w.stop()
		w.stop = nil
	}
	if w.followed = paths; len(paths) > 0 {
		w.stop = w.start(paths)
	}
}

// savedPrograms watches files of saved programs until ctx ends.
func (w *watch) savedPrograms(ctx context.Context, paths []string) {
	err := filewatch.Files(ctx, paths, func() { w.look() })
	if err == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fn(w.current, []Warning{{File: w.current.path, Key: "programs.saved", Message: "changes of saved programs are not seen; restart weir to apply them: " + err.Error()}}, nil)
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
	sum := w.opts.Sum(data)
	if sum == w.last && !w.held && !(w.opts.ReadFile != nil && w.programs.changed(w.opts.ReadFile)) {
		return secrets
	}
	if w.opts.Approve != nil {
		if err := w.opts.Approve(w.current.path, data); err != nil {
			if !w.held || sum != w.last { // each refusal is reported once
				w.fn(nil, nil, err)
			}
			w.held, w.last = true, sum
			return secrets
		}
	}
	w.held, w.last = false, sum
	opts := w.opts
	opts.before, opts.Approve, opts.programs = w.current, nil, programFiles{}
	next, warnings, err := parseFile(w.current.path, data, opts)
	if err == nil {
		w.current = next
	}
	w.programs = opts.programs
	w.follow()
	w.fn(next, warnings, err)
	return secrets
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
