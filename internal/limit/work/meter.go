package work

import (
	"context"
	"errors"
	"runtime"
	"time"
	"unsafe"
)

// Sizes of work, in units.
const (
	// Small is the work that needs no turn: 10 ms at the very most.
	Small = 1_000_000
	// look is the work between two looks at the context and the clock: 1 ms.
	look = 100_000
	// share is the work after which a turn goes to the next in line: 20 ms.
	share = 2_000_000
)

// Errors of Spend, in addition to the error of the context.
var (
	// ErrLimit: the computation exceeds its limit of units.
	ErrLimit = errors.New("too much to compute")
	// ErrTime: the computation exceeds its time.
	ErrTime = errors.New("computing took too long")
)

// Options of a Meter. The zero value bounds nothing.
type Options struct {
	// Turns, if set, gives turns to work beyond Small.
	Turns *Turns
	// Limit is the number of units that may be spent; 0 sets no limit.
	Limit int64
	// Timeout bounds the time of the computation, including waits; 0 sets no limit.
	Timeout time.Duration
	// Room, if set, is asked before the computation holds more memory than 64 KB, with the
	// bytes that it will hold in all. It is called seldom, and its error ends the computation. Who
	// gave Room frees the bytes when the result of the computation is no longer used.
	Room func(bytes int64) error
}

// freeBytes is the memory that a computation holds without asking for room.
const freeBytes = 64 << 10

// Meter counts the work of one computation, and the memory that it holds. A nil Meter counts nothing
// and lets everything pass. It is not safe for concurrent use: a computation has one
// goroutine.
type Meter struct {
	ctx   context.Context
	opts  Options
	begun time.Time

	spent int64
	limit int64 // spent that is too much; 0 is no limit
	last  int64 // spent when context and clock were looked at
	next  int64 // spent at which there is something to look at
	until int64 // spent at which the turn may go to another
	held  bool  // a turn
	bytes int64 // that the computation holds
	room  int64 // bytes that Room has allowed
	err   error // of the first Spend or Take that failed
}

// NewMeter returns a Meter for one computation that ends with ctx. The caller
// closes it at the end of the computation.
func NewMeter(ctx context.Context, opts Options) *Meter {
	m := &Meter{ctx: ctx, opts: opts, limit: opts.Limit} // next is 0: the first Spend looks
	if opts.Timeout > 0 {
		m.begun = time.Now()
	}
	return m
}

// Limit sets how many units may be spent from now on; 0 is no limit. It does not
// take back an error.
func (m *Meter) Limit(units int64) {
	if m == nil {
		return
	}
	m.limit = 0
	if units > 0 {
		m.limit = m.spent + units
	}
	m.plan()
}

// plan sets when the next check is due.
func (m *Meter) plan() {
	if m.err != nil {
		return
	}
	m.next = m.last + look
	if m.limit > 0 {
		m.next = min(m.next, m.limit+1)
	}
}

// Spent returns how many units have been spent.
func (m *Meter) Spent() int64 {
	if m == nil {
		return 0
	}
	return m.spent
}

// Spend counts units of work that is done next, or was done last. Beyond Small it
// waits for a turn. After an error it returns that error again, and the
// computation must end.
func (m *Meter) Spend(units int64) error {
	if m == nil {
		return nil
	}
	m.spent += units
	if m.spent < m.next {
		return nil
	}
	if m.err == nil {
		m.err = m.check()
	}
	if m.err != nil {
		m.next = 0 // every further Spend comes here
	}
	return m.err
}

// Take counts bytes that the computation holds from now on until its end. Call it before they are
// made. After an error it returns that error again, as Spend does.
func (m *Meter) Take(bytes int64) error {
	if m == nil || m.err != nil {
		return m.Err()
	}
	m.bytes += bytes
	if m.opts.Room == nil || m.bytes <= max(m.room, freeBytes) {
		return nil
	}
	m.room = m.bytes + freeBytes
	if m.err = m.opts.Room(m.room); m.err != nil {
		m.next = 0 // every further Spend comes to the error
	}
	return m.err
}

// Taken returns the bytes that the computation holds.
func (m *Meter) Taken() int64 {
	if m == nil {
		return 0
	}
	return m.bytes
}

// Grow returns s with room for n more elements. It takes the bytes of a larger array from m before
// making it.
func Grow[S ~[]E, E any](m *Meter, s S, n int) (S, error) {
	if n <= cap(s)-len(s) {
		return s, nil
	}
	more := max(n, len(s), firstElements) // twice as many, as append does for small slices
	var e E
	if err := m.Take(int64(len(s)+more-cap(s)) * int64(unsafe.Sizeof(e))); err != nil {
		return s, err
	}
	return append(make(S, 0, len(s)+more), s...), nil
}

// firstElements is the room of the first array that Grow makes.
const firstElements = 16

// Append is append with the bytes taken from m.
func Append[S ~[]E, E any](m *Meter, s S, e ...E) (S, error) {
	s, err := Grow(m, s, len(e))
	if err != nil {
		return s, err
	}
	return append(s, e...), nil
}

// Err returns the error of the first Spend or Take that failed, or nil.
func (m *Meter) Err() error {
	if m == nil {
		return nil
	}
	return m.err
}

// Close gives a turn back. It may be called more than once.
func (m *Meter) Close() {
	if m != nil && m.held {
		m.held = false
		m.opts.Turns.give()
	}
}

// check tests everything that may end the computation.
func (m *Meter) check() error {
	if m.limit > 0 && m.spent > m.limit {
		return ErrLimit
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	left := time.Duration(-1)
	if m.opts.Timeout > 0 {
		if left = m.opts.Timeout - time.Since(m.begun); left <= 0 {
			return ErrTime
		}
	}
	m.last = m.spent
	m.plan()
	if m.opts.Turns == nil || m.spent <= Small {
		return nil
	}
	if m.held && m.spent < m.until {
		runtime.Gosched() // a short call may wait for this processor
		return nil
	}
	if m.held && !m.opts.Turns.wanted() {
		m.until = m.spent + share
		return nil
	}
	m.Close()
	if err := m.opts.Turns.take(m.ctx, left); err != nil {
		return err
	}
	m.held, m.until = true, m.spent+share
	return nil
}
