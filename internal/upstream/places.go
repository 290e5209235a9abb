package upstream

import (
	"context"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/mcp"
)

// A principal whose clients have no sessions has one program of a server with per_session in a cluster, whichever
// nodes it asks:
//
//	call of the principal ─▶ slot of the principal ─▶ Places ─┬▶ this node: the program
//	                                                          └▶ another one: its peer link ─▶ slot of the principal there ─▶ the program

// Places says at which nodes of a cluster the programs of principals run. Its method is called concurrently.
type Places interface {
	// Place returns the place of the program of a principal, which may be this node from then on.
	Place(ctx context.Context, server, principal string) (Place, error)
}

// Place is where the program of a principal runs.
type Place struct {
	// URL is where another node offers the program, and Way the transport to it. Way is nil if this node has
	// the program.
	URL string
	Way http.RoundTripper
	// Moved reports, of another node that could not be reached, whether to ask Places again.
	Moved func(ctx context.Context) bool
	// Lost is closed when this node must end the program at once, Leave when it is to end the program as soon
	// as no call uses it.
	Lost, Leave <-chan struct{}
	// Release says that the program at this node has ended. It is called once.
	Release func()
}

// placeTries bounds the nodes that one attempt to connect tries.
const placeTries = 3

// principalKey is where a session keeps that it stands for its principal.
type principalKey struct{}

// StandsForPrincipal notes that a session has the calls of all clients of its principal, as a session of the modern
// era has. Where Options.Places is set, all such sessions of a principal have one program of a server with
// per_session.
func StandsForPrincipal(session *mcp.Session) {
	if session != nil {
		session.Value(principalKey{}, func() any { return true })
	}
}

// placedBy reports whether the program of a principal has one place in the cluster.
func placedBy(srv *server) bool {
	c := srv.cfg
	return srv.opts.Places != nil && srv.open == nil && c.PerSession && c.Command != "" && c.URL == "" && !c.PerPrincipal() && c.Scope != mcpserver.ScopeCluster
}

// ofPrincipal reports whether the calls of a session go to the program of its principal.
func ofPrincipal(srv *server, session *mcp.Session) bool {
	return session != nil && placedBy(srv) && session.Principal() != "" && session.Value(principalKey{}, nil) != nil
}

// connectPlaced connects to the program of a principal, where that is.
func connectPlaced(ctx context.Context, srv *server, s *slot, version string) (*link, error) {
	for try := 1; ; try++ {
		p, err := srv.opts.Places.Place(ctx, srv.name, s.key.principal)
		if err != nil {
			return nil, &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Err: err, Message: srv.who + ": it is not known which node of the cluster has the program of this caller: " + err.Error()}
		}
		if p.Way == nil {
			return connectHere(ctx, srv, s, version, p)
		}
		l, err := dial(ctx, srv, s, version, p.URL, func(http.RoundTripper) http.RoundTripper { return p.Way })
		if err == nil || try == placeTries || ctx.Err() != nil || !p.Moved(ctx) {
			return l, err
		}
	}
}

// leavePause is the time between two looks whether a call uses a program that is to end.
const leavePause = 50 * time.Millisecond

// connectHere starts the program of a principal at this node.
func connectHere(ctx context.Context, srv *server, s *slot, version string, p Place) (*link, error) {
	l, err := srv.connectProgram(ctx, s, version)
	if err != nil {
		p.Release()
		return nil, err
	}
	end, over, watched := l.close, make(chan struct{}), make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.Lost:
			srv.log.Warn("this node has lost the program of a principal")
			end()
		case <-p.Leave:
			for !s.leave() {
				select {
				case <-time.After(leavePause):
				case <-p.Lost:
					end()
					return
				case <-over:
					return
				}
			}
		case <-over:
		}
	}()
	l.close = func() { // one goroutine closes a link, once
		close(over)
		end()
		<-watched
		p.Release()
	}
	return l, nil
}

// leave ends the slot if no call uses its connection, and reports whether it did. Subscriptions do not keep it.
func (s *slot) leave() bool {
	if !s.calls.endUncalled() {
		return false
	}
	s.conns.drop(s)
	s.cancel()
	return true
}

// endUncalled ends the connection if no call uses it or waits for it, and reports whether it did.
func (a *admission) endUncalled() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.calls > 0 || a.waiting > 0 || a.state == StateStarting {
		return false
	}
	a.link = nil
	a.set(StateStopped)
	return true
}
