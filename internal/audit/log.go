package audit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/host/place"
)

// Defaults and bounds of a log.
const (
	defaultQueue    = 8192
	defaultMaxBytes = 64 << 20
	segmentsKept    = 4 // at least so many full segments fit in Options.MaxTotal
	maxBatch        = 512
	signEvery       = 1000
	signAfter       = time.Minute
	lookAfter       = time.Hour // for segments that are too old
	lockWait        = 3 * time.Second
	queueWait       = 5 * time.Second
	// gather is how long the writer waits for more records, if none of them must be on disk. A busy
	// gateway then writes once for many.
	gather = 5 * time.Millisecond
)

// Options configure a Log.
type Options struct {
	Dir  string
	Keys Keys
	// Required makes Sync wait until its record is on disk, and Add wait for room in the queue for
	// up to 5 seconds.
	Required bool
	// Keep is how long records are kept; 0 keeps them for ever.
	Keep time.Duration
	// MaxBytes is the size after which a new segment starts; 0 means 64 MB.
	MaxBytes int64
	// MaxTotal bounds the bytes of all segments; 0 sets no bound. Segments are at most a quarter of
	// it, and the oldest ones are removed. The newest one always stays.
	MaxTotal int64
	// Sink gets the lines of the log when they are in its file; nil for none. Close closes it.
	Sink Sink
	// Queue bounds the records that wait for the disk; 0 means 8,192.
	Queue int
	// Logger receives failures of the disk; nil discards them.
	Logger *slog.Logger

	open func(path string) (file, error) // for tests
}

// A Sink takes lines of a log elsewhere.
type Sink interface {
	// Add takes whole lines in their order. It must not keep them, and must not wait. One goroutine calls it.
	Add(lines []byte)
	// Figures returns how many lines were sent, and how many were dropped. It is called concurrently.
	Figures() (sent, dropped int64)
	// Close sends what it can, in a bounded time.
	Close()
}

// errUnavailable is wrapped by the error of Sync if the record could not be written.
var errUnavailable = errors.New("the audit log cannot be written")

// A Log writes an audit log. It is safe for concurrent use. A nil Log discards records.
type Log struct {
	opts    Options
	queue   chan item
	urgent  chan struct{} // stops the writer from waiting for more
	dropped atomic.Int64  // since the last record that said so
	lost    atomic.Int64  // since the start
	done    chan struct{}
	unlock  func()

	mu     sync.RWMutex // guards closed; held while an item is queued
	closed bool
}

type item struct {
	record *Record
	synced chan<- error // nil: no caller waits
}

// Open opens the log of a folder, or starts one. One process at a time may have it open. With an error, the Sink is
// still the caller's.
func Open(o Options) (*Log, error) {
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.MaxTotal > 0 {
		o.MaxBytes = min(o.MaxBytes, max(1, o.MaxTotal/segmentsKept))
	}
	if o.Queue <= 0 {
		o.Queue = defaultQueue
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.open == nil {
		o.open = openFile
	}
	if err := place.MakeFolder(o.Dir); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), lockWait)
	defer cancel()
	unlock, err := place.LockIn(ctx, filepath.Join(o.Dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("%w; give each gateway an audit.dir of its own", err)
	}
	l := &Log{opts: o, queue: make(chan item, o.Queue), urgent: make(chan struct{}, 1), done: make(chan struct{}), unlock: unlock}
	w := &writer{opts: o, dropped: &l.dropped, lost: &l.lost}
	if err := w.begin(); err != nil {
		unlock()
		return nil, fmt.Errorf("the audit log in %s: %w", o.Dir, err)
	}
	go func() {
		defer close(l.done)
		w.run(l.queue, l.urgent)
	}()
	return l, nil
}

// Required reports whether calls must wait for Sync. A nil Log requires nothing.
func (l *Log) Required() bool { return l != nil && l.opts.Required }

// Keys returns the keys of the log.
func (l *Log) Keys() Keys { return l.opts.Keys }

// Lost returns how many records could not be written since the start.
func (l *Log) Lost() int64 {
	if l == nil {
		return 0
	}
	return l.lost.Load()
}

// SinkFigures returns the figures of the Sink, nil without one.
func (l *Log) SinkFigures() func() (sent, dropped int64) {
	if l == nil || l.opts.Sink == nil {
		return nil
	}
	return l.opts.Sink.Figures
}

// Add hands a record to the log. It does not wait, except in a required log whose queue is full.
func (l *Log) Add(r *Record) {
	if l == nil {
		return
	}
	ctx := context.Background()
	if !l.put(ctx, item{record: r}) {
		l.drop()
	}
}

// Sync hands a record to the log. If the log is required, it returns when the record is on disk, or
// with an error that wraps errUnavailable, or with the error of ctx.
func (l *Log) Sync(ctx context.Context, r *Record) error {
	if !l.Required() {
		l.Add(r)
		return nil
	}
	synced := make(chan error, 1)
	if !l.put(ctx, item{r, synced}) {
		l.drop()
		if err := ctx.Err(); err != nil {
			return err
		}
		return fmt.Errorf("%w: too many records wait for the disk", errUnavailable)
	}
	l.hurry()
	select {
	case err := <-synced:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *Log) drop() {
	l.dropped.Add(1)
	l.lost.Add(1)
}

// hurry makes the writer write the queued records.
func (l *Log) hurry() {
	select {
	case l.urgent <- struct{}{}:
	default: // it was reported already
	}
}

// put queues an item. It reports whether there was room.
func (l *Log) put(ctx context.Context, i item) bool {
	if i.record.Time.IsZero() {
		i.record.Time = time.Now()
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return false
	}
	select {
	case l.queue <- i:
		return true
	default:
	}
	l.hurry()
	if !l.opts.Required {
		return false
	}
	wait := time.NewTimer(queueWait)
	defer wait.Stop()
	select {
	case l.queue <- i:
		return true
	case <-wait.C:
	case <-ctx.Done():
	}
	return false
}

// Close writes the queued records and a last signature, closes the Sink and frees the folder. Records
// that are added later are lost.
func (l *Log) Close() {
	if l == nil {
		return
	}
	l.mu.Lock()
	was := l.closed
	l.closed = true
	l.mu.Unlock()
	if !was {
		close(l.queue)
		l.hurry()
		defer l.unlock()
	}
	<-l.done
	if !was && l.opts.Sink != nil {
		l.opts.Sink.Close()
	}
}

// file is the part of a segment that a writer needs.
type file interface {
	WriteAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	Sync() error
	Close() error
}

func openFile(path string) (file, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
}
