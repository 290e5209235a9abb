package memory

import (
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"
)

// Free is the size up to which a message costs nothing and never waits.
const Free = 64 << 10

// Defaults of Options.
const (
	defaultLimit     = 256 << 20
	defaultSpillAt   = 8 << 20
	defaultDiskBytes = 8 << 30
	defaultWait      = 30 * time.Second
	defaultLinger    = 30 * time.Second
)

// Options configure a Pool. The zero value of each field is ready for use.
type Options struct {
	// Limit bounds the bytes in memory; 0 is defaultLimit.
	Limit int64
	// SpillAt is the size from which a message is received into a file; 0 is
	// defaultSpillAt.
	SpillAt int64
	// Dir is the folder for files, which are of mode 0600. If it is empty, large messages wait for
	// room in memory. MakeDir returns the folder when the first file is made.
	Dir     string
	MakeDir func() (string, error)
	// DiskBytes bounds the bytes in files; 0 is defaultDiskBytes.
	DiskBytes int64
	// Wait is how long a message waits for room while it arrives; 0 is defaultWait.
	Wait time.Duration
	// Turn is how long a message in a file waits for room to be read if it does not block others; 0
	// means four times Wait.
	Turn time.Duration
	// Linger is how long a mapping stays readable after its Scope has ended, so that a late
	// goroutine still reads its own bytes. The pages are returned to the system at once. 0 means
	// defaultLinger; a negative value disables it.
	Linger time.Duration
	// Logger gets failures of files; nil discards them.
	Logger *slog.Logger
}

// Usage is the current use of a Pool, in bytes.
type Usage struct {
	Limit   int64
	Memory  int64 // counted, Kept included
	Kept    int64
	Disk    int64
	Waiting int // messages that wait for room
}

// Pool is one limit for many readers. All methods are safe for concurrent use.
type Pool struct {
	o     Options
	files *files // nil: none

	mu      sync.Mutex // guards below
	used    int64
	kept    int64
	open    int64 // of large blocks
	made    int64 // by calls
	owners  map[string]*owner
	turns   []*owner // with waiters; the first one's turn is next
	waiting int
	queue   []*waiter // all calls that wait, the newest last
	garbage garbage
}

// owner has the bytes that are counted together.
type owner struct {
	name    string
	used    int64 // in reception, or made by calls
	waiters []*waiter
	refs    int // accounts with something held, and waiters
}

// NewPool returns a Pool. The caller closes it.
func NewPool(o Options) *Pool {
	if o.Limit <= 0 {
		o.Limit = defaultLimit
	}
	if o.SpillAt <= 0 {
		o.SpillAt = defaultSpillAt
	}
	o.SpillAt = max(o.SpillAt, Free)
	if o.DiskBytes <= 0 {
		o.DiskBytes = defaultDiskBytes
	}
	if o.Wait <= 0 {
		o.Wait = defaultWait
	}
	if o.Turn <= 0 {
		o.Turn = 4 * o.Wait
	}
	if o.Linger == 0 {
		o.Linger = defaultLinger
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	p := &Pool{o: o, owners: map[string]*owner{}}
	if o.MakeDir == nil && o.Dir != "" {
		o.MakeDir = func() (string, error) { return o.Dir, nil }
	}
	if o.MakeDir != nil {
		p.files = &files{dir: o.MakeDir, limit: o.DiskBytes, linger: o.Linger, log: o.Logger}
	}
	return p
}

// Limit returns Options.Limit, 0 of a nil Pool.
func (p *Pool) Limit() int64 {
	if p == nil {
		return 0
	}
	return p.o.Limit
}

// Usage returns the current use.
func (p *Pool) Usage() Usage {
	if p == nil {
		return Usage{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	u := Usage{Limit: p.o.Limit, Memory: p.used, Kept: p.kept, Waiting: p.waiting}
	if p.files != nil {
		u.Disk = p.files.size()
	}
	return u
}

// Close removes the remaining files. Nothing that the Pool returned may be used afterwards.
func (p *Pool) Close() {
	if p != nil && p.files != nil {
		p.files.close()
	}
}

// Bounds, as parts of the limit; see the package comment.
func (p *Pool) mostKept() int64     { return p.o.Limit / 2 }
func (p *Pool) mostOpen() int64     { return p.o.Limit / 8 * 3 }
func (p *Pool) mostOwned() int64    { return p.o.Limit / 2 }
func (p *Pool) toCalls() int64      { return p.o.Limit / 8 }
func (p *Pool) mostInQueue() int64  { return p.o.Limit / 8 }
func (p *Pool) arriving() int64     { return p.used - p.kept - p.open - p.made }
func (p *Pool) share(n int64) int64 { return min(n, p.mostOpen()) }

// Error says that there is no room for a message.
type Error struct {
	Size  int64 // the size of the refused bytes; 0 where it is not known
	Limit int64 // of memory
	Disk  error // why it is not in a file; nil where it is, and cannot be opened
	// Unmade says that a call has not made the bytes: no message is lost.
	Unmade bool
	Most   int64 // that one caller may have, if Size is more than that; else 0
}

// Error implements error. It names the keys of weir's configuration.
func (e *Error) Error() string {
	what := "a message"
	if e.Size > 0 {
		what = fmt.Sprintf("%d bytes", e.Size)
	}
	if e.Most > 0 {
		return fmt.Sprintf("the call takes %s, and one caller may have %d at a time, half of limits.memory; ask for less, or raise limits.memory", what, e.Most)
	}
	text := fmt.Sprintf("there is no room for %s: the %d bytes of limits.memory are taken; try again, or raise limits.memory", what, e.Limit)
	if e.Disk != nil {
		text += fmt.Sprintf(" (it cannot go to a file: %v)", e.Disk)
	}
	return text
}

// Unwrap returns why there is no file.
func (e *Error) Unwrap() error { return e.Disk }

// wait takes n bytes for a large block of an owner as soon as they are free. Owners take turns, and
// none overtakes the next. own says that the caller holds another large block, which it cannot
// return before it has this one: then wait does not wait. See resolve for others that hold something.
func (p *Pool) wait(ctx context.Context, name string, size int64, own bool) error {
	n, has := p.share(size), FromContext(ctx).holding()
	p.mu.Lock()
	if own || p.waiting == 0 && p.fits(n) {
		p.take(n)
		p.mu.Unlock()
		return nil
	}
	o := p.enter(name)
	w := &waiter{n: n, lost: true, has: has, ready: make(chan struct{})}
	if len(o.waiters) == 0 {
		p.turns = append(p.turns, o)
	}
	o.waiters = append(o.waiters, w)
	p.waiting++
	p.enqueue(w)
	p.mu.Unlock()

	timer := time.NewTimer(p.o.Turn)
	defer timer.Stop()
	var err error
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-timer.C:
		err = &Error{Size: size, Limit: p.o.Limit}
	case <-w.giveUp:
		err = &Error{Size: size, Limit: p.o.Limit}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-w.ready: // just before
		return nil
	default:
	}
	p.forget(o, w)
	p.serve() // it may have been in the way
	return err
}

func (p *Pool) fits(n int64) bool { return p.open+n <= p.mostOpen() && p.leaves(n, p.toCalls()) }

// leaves reports whether n more bytes that no call makes leave so many to calls. Messages that wait for
// copies of their calls would otherwise take the room of these copies. The caller holds mu.
func (p *Pool) leaves(n, toCalls int64) bool {
	return p.used+n <= p.o.Limit && p.used-p.made+n <= p.o.Limit-toCalls
}

func (p *Pool) take(n int64) {
	p.used += n
	p.open += n
}

// collect frees the copies that a call has made of a block of size bytes, if the block had a turn
// of its own. Without it, the copy of the block before is still on the heap while the next one is
// made: the collector sees one large allocation too late.
func (p *Pool) collect(size int64) {
	if size >= p.mostOpen() {
		debug.FreeOSMemory()
	}
}

// giveOpen returns the bytes that wait took for size bytes.
func (p *Pool) giveOpen(size int64) {
	n := p.share(size)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.used -= n
	p.open -= n
	p.serve()
}

// serve grants waiting requests in turn as far as they fit. The caller holds mu.
func (p *Pool) serve() {
	for len(p.turns) > 0 {
		o := p.turns[0]
		w := o.waiters[0]
		if !p.fits(w.n) {
			return
		}
		p.take(w.n)
		close(w.ready)
		p.turns = p.turns[1:]
		if o.waiters = o.waiters[1:]; len(o.waiters) > 0 {
			p.turns = append(p.turns, o)
		}
		p.waiting--
		p.dequeue(w)
		p.leave(o)
	}
}

// forget removes a waiter that has stopped waiting. The caller holds mu.
func (p *Pool) forget(o *owner, w *waiter) {
	for i := range o.waiters {
		if o.waiters[i] == w {
			o.waiters = append(o.waiters[:i:i], o.waiters[i+1:]...)
			break
		}
	}
	if len(o.waiters) == 0 {
		for i := range p.turns {
			if p.turns[i] == o {
				p.turns = append(p.turns[:i:i], p.turns[i+1:]...)
				break
			}
		}
	}
	p.waiting--
	p.dequeue(w)
	p.leave(o)
}

// enter returns the owner of a name with one reference more. It is called under mu.
func (p *Pool) enter(name string) *owner {
	o := p.owners[name]
	if o == nil {
		o = &owner{name: name}
		p.owners[name] = o
	}
	o.refs++
	return o
}

// leave gives a reference back. It is called under mu.
func (p *Pool) leave(o *owner) {
	if o.refs--; o.refs == 0 {
		delete(p.owners, o.name)
	}
}
