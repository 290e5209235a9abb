package program

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/host/child"
)

// Options configure a Pool.
type Options struct {
	// Command starts a worker: an executable and its arguments. See Self.
	Command []string
	// Workers are kept warm while programs run; 0: 2. The first worker is started for the first program.
	Workers int
	// Running bounds the programs that run at once, each in a process; others wait in line. 0: eight times Workers.
	Running int
	// Idle is the time after the last program for which workers are kept warm; 0: 5 minutes.
	Idle time.Duration
	// Limits are of programs that state none. Zero values: 100 calls, 8 in parallel, 64 MB, 64 KB, one minute.
	Limits Limits
	// Log gets the reasons why workers fail; nil: none.
	Log *slog.Logger
}

func (o Options) withDefaults() Options {
	if o.Workers <= 0 {
		o.Workers = 2
	}
	if o.Running <= 0 {
		o.Running = 8 * o.Workers
	}
	if o.Idle <= 0 {
		o.Idle = 5 * time.Minute
	}
	o.Limits = o.Limits.or(Limits{Calls: 100, Parallel: 8, Memory: 64 << 20, Output: 64 << 10, Timeout: time.Minute})
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// or returns l with the values of others where l has none.
func (l Limits) or(others Limits) Limits {
	for _, n := range []struct{ of, or *int64 }{{&l.Memory, &others.Memory}, {&l.Output, &others.Output}} {
		if *n.of <= 0 {
			*n.of = *n.or
		}
	}
	if l.Calls <= 0 {
		l.Calls = others.Calls
	}
	if l.Parallel <= 0 {
		l.Parallel = others.Parallel
	}
	if l.Timeout <= 0 {
		l.Timeout = others.Timeout
	}
	return l
}

// A Pool runs programs in workers. It is safe for concurrent use. The owner calls Close.
type Pool struct {
	o      Options
	keeper child.Keeper
	slots  chan struct{} // one for each program that runs
	tasks  sync.WaitGroup
	tell   sync.Once       // the log of the walls
	life   context.Context // ends with Close
	end    context.CancelFunc
	empty  chan struct{} // closed when all that Close ends has ended

	mu     sync.Mutex // guards below
	warm   []*process
	making int         // warm workers that are about to be ready
	idle   *time.Timer // ends the warm workers
	closed bool
}

// NewPool returns a Pool without a worker.
func NewPool(o Options) *Pool {
	o = o.withDefaults()
	p := &Pool{o: o, slots: make(chan struct{}, o.Running), empty: make(chan struct{})}
	p.life, p.end = context.WithCancel(context.Background())
	return p
}

// ErrClosed is the error of a Pool that is closed.
var ErrClosed = errors.New("programs end: the gateway stops")

// Run runs a program to its end. The error is an *Error, the error of ctx, or an error of a Stop of the
// Host; the Outcome has the log then as well. When Run returns, no method of the Host runs.
//
// Bytes of requests and of the result over 64 KB are counted for the call of ctx. The result is valid as
// long as its memory.Scope, if it has one.
func (p *Pool) Run(ctx context.Context, program Program, host Host) (Outcome, error) {
	limits := program.Limits.or(p.o.Limits)
	ctx, cancel := context.WithTimeoutCause(ctx, limits.Timeout+grace, errTimeout)
	defer cancel()
	defer context.AfterFunc(p.life, cancel)()
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	case <-ctx.Done():
		return Outcome{}, p.ended(ctx, "waited for other programs to end")
	}
	for again := false; ; again = true {
		w, err := p.take(ctx)
		if err != nil {
			if ctx.Err() != nil {
				return Outcome{}, p.ended(ctx, "waited for a worker")
			}
			p.o.Log.Warn("a program cannot run: its worker does not start", "error", err)
			return Outcome{}, &Error{Code: Unavailable, Message: fmt.Sprintf("the program did not run: its worker cannot be started: %v", err)}
		}
		r := &run{pool: p, worker: w, program: program, limits: limits, host: host}
		out, err := r.serve(ctx)
		// A worker can end while it waits, as when the system has no memory. The program has done nothing then.
		if e := (*Error)(nil); again || r.started || !errors.As(err, &e) || e.Code != Crashed {
			return out, err
		}
	}
}

// errTimeout is the cause of a context of which Limits.Timeout is over.
var errTimeout = errors.New("the time of the program is over")

// ended is the error of a run whose context has ended.
func (p *Pool) ended(ctx context.Context, doing string) error {
	switch {
	case p.life.Err() != nil:
		return ErrClosed
	case errors.Is(context.Cause(ctx), errTimeout):
		return &Error{Code: Timeout, Message: errTimeout.Error() + ": it " + doing}
	}
	return context.Cause(ctx)
}

// take returns a worker that is ready: a warm one if there is one.
func (p *Pool) take(ctx context.Context) (*process, error) {
	for {
		w, err := p.pop()
		if err != nil {
			return nil, err
		}
		if w == nil {
			if w, err = p.start(ctx); err != nil {
				return nil, err
			}
		} else if w.hasEnded() {
			p.bury(w)
			continue
		}
		return w, nil
	}
}

func (p *Pool) pop() (*process, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, ErrClosed
	}
	n := len(p.warm)
	if n == 0 {
		return nil, nil
	}
	w := p.warm[n-1]
	p.warm = p.warm[:n-1]
	return w, nil
}

// refill starts workers in the background until there are enough, and the time of idle workers again.
func (p *Pool) refill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	if p.idle == nil {
		p.idle = time.AfterFunc(p.o.Idle, p.cool)
	} else {
		p.idle.Reset(p.o.Idle)
	}
	for len(p.warm)+p.making < p.o.Workers {
		p.making++
		p.tasks.Go(p.warmUp)
	}
}

func (p *Pool) warmUp() {
	w, err := p.start(p.life)
	p.mu.Lock()
	p.making--
	keep := err == nil && !p.closed
	if keep {
		p.warm = append(p.warm, w)
	}
	p.mu.Unlock()
	switch {
	case err != nil && p.life.Err() == nil:
		p.o.Log.Warn("no worker for the next program: it is started with it", "error", err)
	case err == nil && !keep:
		w.kill()
		w.wait()
	}
}

// cool ends the workers that wait.
func (p *Pool) cool() {
	p.mu.Lock()
	warm := p.warm
	p.warm = nil
	p.mu.Unlock()
	for _, w := range warm {
		w.kill()
		w.wait()
	}
}

// bury ends a worker in the background.
func (p *Pool) bury(w *process) {
	w.kill()
	p.tasks.Go(w.wait)
}

// Close ends all programs and their workers. It returns the error of ctx if they have not ended by then. It may be
// called again.
func (p *Pool) Close(ctx context.Context) error {
	p.mu.Lock()
	first := !p.closed
	p.closed = true
	if p.idle != nil {
		p.idle.Stop()
	}
	p.mu.Unlock()
	p.end()
	if first {
		go func() {
			defer close(p.empty)
			p.cool()
			for range cap(p.slots) {
				p.slots <- struct{}{} // the programs have ended
			}
			p.tasks.Wait()
			p.keeper.Close()
		}()
	}
	select {
	case <-p.empty:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
