package upstream

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// programs are the running programs of one server. The zero value is ready to use; it is safe for concurrent use.
type programs struct {
	mu     sync.Mutex // guards below
	all    map[process]struct{}
	shared *sharedProgram // serves a url; nil while none runs
}

// process is a program apart from its streams.
type process interface{ Kill() }

// track makes kill reach p until untrack is called.
func (ps *programs) track(p process) (untrack func()) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.all == nil {
		ps.all = map[process]struct{}{}
	}
	ps.all[p] = struct{}{}
	return func() {
		ps.mu.Lock()
		defer ps.mu.Unlock()
		delete(ps.all, p)
	}
}

// kill ends all programs at once. It does not wait for their end.
func (ps *programs) kill() {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for p := range ps.all {
		p.Kill()
	}
}

// A sharedProgram is the one process of an upstream that weir starts and that serves at a url. The
// first connection that needs it starts it, and all of them share it, because a second process
// could not listen at the same address:
//
//	use ─▶ started, running ─▶ leave by the last user, or condemn ─▶ ending ─▶ ended
//
// A slot remains a user while it reconnects because the server has forgotten a session: the server
// has kept everything else.
type sharedProgram struct {
	of *programs

	started chan struct{} // closed when p or err is set
	p       *stdio.Process
	err     error // of the start
	read    sync.WaitGroup
	ended   chan struct{} // closed when the process has ended

	users     int  // guarded by programs.mu
	condemned bool // takes no new users; guarded by programs.mu
}

// use starts the shared program with start if it is not running, and counts a user. If a previous process is
// ending, use waits for its end. printed gets each line of its standard output.
func (ps *programs) use(ctx context.Context, start func() (*stdio.Process, error), printed func(line []byte)) (*sharedProgram, error) {
	for {
		ps.mu.Lock()
		g := ps.shared
		if g == nil {
			g = &sharedProgram{of: ps, started: make(chan struct{}), ended: make(chan struct{}), users: 1}
			ps.shared = g
			ps.mu.Unlock()
			g.start(start, printed)
			if g.err != nil {
				g.leave()
				return nil, g.err
			}
			return g, nil
		}
		joined := !g.condemned && !g.exited()
		if joined {
			g.users++
		}
		ps.mu.Unlock()
		if !joined {
			select {
			case <-g.ended:
				continue
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		<-g.started
		if g.err != nil {
			g.leave()
			return nil, g.err
		}
		return g, nil
	}
}

// start starts the process and reads its stdout.
func (g *sharedProgram) start(start func() (*stdio.Process, error), printed func(line []byte)) {
	defer close(g.started)
	if g.p, g.err = start(); g.err != nil {
		return
	}
	untrack := g.of.track(g.p)
	g.read.Go(func() {
		defer untrack()
		for {
			line, err := g.p.Read()
			if errors.As(err, new(*mcp.LostMessage)) {
				continue
			}
			if err != nil {
				<-g.p.Exited()
				return
			}
			printed(line)
		}
	})
}

// exited reports whether the process has ended by itself.
func (g *sharedProgram) exited() bool {
	select {
	case <-g.started:
	default:
		return false
	}
	if g.p == nil {
		return true
	}
	select {
	case <-g.p.Exited():
		return true
	default:
		return false
	}
}

// leave removes a user. The last one ends the process and waits for its end.
func (g *sharedProgram) leave() {
	g.of.mu.Lock()
	g.users--
	last := g.users == 0
	g.condemned = g.condemned || last
	g.of.mu.Unlock()
	if !last {
		return
	}
	g.end()
	g.of.mu.Lock()
	if g.of.shared == g {
		g.of.shared = nil
	}
	g.of.mu.Unlock()
	close(g.ended)
}

// condemn removes a user and ends the process although others use it. Their connections end with
// it.
func (g *sharedProgram) condemn() {
	g.of.mu.Lock()
	g.condemned = true
	g.of.mu.Unlock()
	g.end()
	g.leave()
}

func (g *sharedProgram) end() {
	if g.p != nil {
		_ = g.p.Close()
		g.read.Wait()
	}
}

// leaveProgram releases the slot's program. If the slot is the shared one and its connection has
// failed, the program is restarted, because it is faulty.
func (s *slot) leaveProgram(failed bool) {
	g := s.program
	s.program = nil
	switch {
	case g == nil:
	case failed && s.isShared():
		g.condemn()
	default:
		g.leave()
	}
}

// outlives reports whether to keep the program after a connection was lost: the server has only
// forgotten its session.
func outlives(err error) bool { return errors.Is(err, streamable.ErrSessionLost) }
