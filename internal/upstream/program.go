package upstream

import (
	"context"
	"errors"
	"sync"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// A sharedProgram is the one process of an upstream that weir starts and that serves at a url. The
// first connection that needs it starts it, and all of them share it, because a second process
// could not listen at the same address:
//
//	use ─▶ started, running ─▶ leave by the last user, or condemn ─▶ ending ─▶ ended
//
// A slot remains a user while it reconnects because the server has forgotten a session: the server
// has kept everything else.
type sharedProgram struct {
	srv *server

	started chan struct{} // closed when p or err is set
	p       *stdio.Process
	err     error // of the start
	read    sync.WaitGroup
	ended   chan struct{} // closed when the process has ended

	users     int  // guarded by server.mu
	condemned bool // takes no new users; guarded by server.mu
}

// useProgram starts the program if it is not running, and counts a user. If a previous process is
// ending, useProgram waits for its end.
func (srv *server) useProgram(ctx context.Context, s *slot) (*sharedProgram, error) {
	for {
		srv.mu.Lock()
		g := srv.running
		if g == nil {
			g = &sharedProgram{srv: srv, started: make(chan struct{}), ended: make(chan struct{}), users: 1}
			srv.running = g
			srv.mu.Unlock()
			g.start(ctx, s)
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
		srv.mu.Unlock()
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

// start starts the process and discards its stdout.
func (g *sharedProgram) start(ctx context.Context, s *slot) {
	defer close(g.started)
	if g.p, g.err = g.srv.startProgram(ctx, s, true); g.err != nil {
		return
	}
	untrack := g.srv.track(g.p)
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
			g.srv.log.Debug("stdout", "line", g.srv.opts.Redact(string(line[:min(len(line), 1024)])))
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
	g.srv.mu.Lock()
	g.users--
	last := g.users == 0
	g.condemned = g.condemned || last
	g.srv.mu.Unlock()
	if !last {
		return
	}
	g.end()
	g.srv.mu.Lock()
	if g.srv.running == g {
		g.srv.running = nil
	}
	g.srv.mu.Unlock()
	close(g.ended)
}

// condemn removes a user and ends the process although others use it. Their connections end with
// it.
func (g *sharedProgram) condemn() {
	g.srv.mu.Lock()
	g.condemned = true
	g.srv.mu.Unlock()
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
