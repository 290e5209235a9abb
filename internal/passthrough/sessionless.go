package passthrough

import (
	"sync"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
)

// maxSessionless bounds the principals with a session for requests without one.
const maxSessionless = 256

// principalSessions are sessions for requests without one, one per principal. So an upstream with a
// connection per session has one handshake, instead of one per request.
type principalSessions struct {
	mu     sync.Mutex // guards below
	byName map[string]*mcp.Session
	names  []string // oldest first
	closed bool
}

func (l *principalSessions) of(principal string) *mcp.Session {
	l.mu.Lock()
	s := l.byName[principal]
	if s != nil {
		l.mu.Unlock()
		return s
	}
	s = mcp.NewSession("", principal)
	upstream.StandsForPrincipal(s)
	var old *mcp.Session
	if l.closed {
		l.mu.Unlock()
		s.Close()
		return s
	}
	if l.byName == nil {
		l.byName = map[string]*mcp.Session{}
	}
	if len(l.names) >= maxSessionless {
		old = l.byName[l.names[0]]
		delete(l.byName, l.names[0])
		l.names = append(l.names[:0], l.names[1:]...)
	}
	l.byName[principal] = s
	l.names = append(l.names, principal)
	l.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return s
}

func (l *principalSessions) close() {
	l.mu.Lock()
	l.closed = true
	all := l.byName
	l.byName, l.names = nil, nil
	l.mu.Unlock()
	for _, s := range all {
		s.Close()
	}
}

// caller returns the session on whose behalf the upstream is called.
func (p *passthrough) caller(r *mcp.Request) *mcp.Session {
	if p.principals || r.Modern() {
		upstream.StandsForPrincipal(r.Session)
	}
	if r.Modern() || r.Method == "initialize" || bridge.Greeted(r.Session) {
		return r.Session
	}
	return p.sessionless.of(r.Session.Principal())
}
