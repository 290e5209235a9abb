package streamable

import (
	"encoding/json"

	"github.com/weir-mcp/weir/mcp"
)

// living are the legacy sessions of a Server, for the code by which they outlast it.
type living struct{ s *Server }

// find returns a session, nil if it does not live here.
func (l living) find(id string) *serverSession {
	l.s.mu.Lock()
	sess := l.s.sessions[id]
	l.s.mu.Unlock()
	if sess == nil || sess.kind != legacySession || sess.isClosed() {
		return nil
	}
	return sess
}

// Here reports whether a session lives in the Server.
func (l living) Here(id string) bool { return l.find(id) != nil }

// IDs returns the ids of all sessions.
func (l living) IDs() []string {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	all := make([]string, 0, l.s.legacy)
	for id, sess := range l.s.sessions {
		if sess.kind == legacySession {
			all = append(all, id)
		}
	}
	return all
}

// Count returns the number of sessions.
func (l living) Count() int {
	l.s.mu.Lock()
	defer l.s.mu.Unlock()
	return l.s.legacy
}

// Unsent returns the newest notifications of at most max bytes in the stream of a session that no connection has
// got. It returns nil for a session that is not there.
func (l living) Unsent(id string, max int) (s *mcp.Session, notes []json.RawMessage) {
	sess := l.find(id)
	if sess == nil {
		return nil, nil
	}
	return sess.mcp, sess.own.unsentNotices(max)
}

// Forget ends a session that goes on elsewhere. One that is in use ends if all is set; "" is every
// session.
func (l living) Forget(id string, all bool) {
	s := l.s
	s.mu.Lock()
	var ending []*serverSession
	if one := s.sessions[id]; one != nil {
		ending = append(ending, one)
	}
	if id == "" {
		for _, sess := range s.sessions {
			if sess.kind == legacySession {
				ending = append(ending, sess)
			}
		}
	}
	s.mu.Unlock()
	reason := mcp.Errorf(mcp.KindNodeGone, "the session goes on at another node of this gateway; make the call again if that does no harm")
	for _, sess := range ending {
		sess.closeWhere(reason, !all)
	}
}
