package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// A node that drains leaves what it has of a session beyond the session's id: ids of tools that were offered, counts
// of calls, notifications that no stream has carried. It writes them into the document that says who has the session:
//
//	a request comes here, or to the next node, which asks for it ─▶ leave ─▶ s.HASH {inc, state}
//	the process ends ─▶ leaveAll ─▶ s.HASH {inc, state} of each session that no other node has
//	the next node: Take ─▶ inherit ─▶ Handed ─▶ Next, which makes the session anew
//
// A session without such state costs no write.

const (
	// pathLeave is where a node is asked to hand a session over, over the peer link.
	pathLeave = "/peer/v1/session/leave"
	// partTime bounds how long the next node of a session waits for that, no shorter than the other node may take.
	// Without an answer the session goes on without what the other node knows of it.
	partTime = 2 * time.Second
	// leaveTime bounds the writes of one request, and endTime those at the end of the process.
	leaveTime = 2 * time.Second
	endTime   = 3 * time.Second
	// leaving is how many sessions are handed over at a time when the process ends.
	leaving = 16
	// leaveTries bounds how often a document is read again after another change of it.
	leaveTries = 3
	// maxLeft bounds the bytes that wait for their sessions to be made again. Beyond it, sessions
	// go on without them.
	maxLeft = 16 << 20
)

// leave writes what the next node of a session needs, and ends the session here unless it is in use.
func (s *sessions) leave(ctx context.Context, id string) {
	if s.e.Leave != nil {
		if key, state := s.e.Leave(id); state != "" {
			ctx, cancel := context.WithTimeout(ctx, leaveTime)
			defer cancel()
			if err := s.hand(ctx, key, state); err != nil {
				s.n.log.Warn("a session goes on at another node without what this one knows of it: the store did not take that", "err", err)
			}
		}
	}
	s.e.Forget(id)
}

// hand writes the state of a session, unless another node has the session.
func (s *sessions) hand(ctx context.Context, key, state string) error {
	value, err := json.Marshal(owner{V: 1, Inc: s.n.Inc(), State: state})
	if err != nil {
		return err
	}
	rev := uint64(0)
	for range leaveTries {
		if _, err = s.n.docs.Set(ctx, key, value, rev, takenTTL); !errors.Is(err, store.ErrConflict) {
			return err
		}
		doc, failed := s.n.docs.Get(ctx, key)
		if failed != nil {
			return failed
		}
		var held owner
		if doc.Rev != 0 && json.Unmarshal(doc.Value, &held) == nil && held.Inc != s.n.Inc() {
			return nil
		}
		rev = doc.Rev
	}
	return err
}

// leaveAll leaves the sessions that are here when the process ends, within endTime.
func (s *sessions) leaveAll(ctx context.Context) {
	if s.e.IDs == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
	defer cancel()
	ids := make(chan string)
	var work sync.WaitGroup
	for range leaving {
		work.Go(func() {
			for id := range ids {
				s.leave(ctx, id)
			}
		})
	}
	for _, id := range s.e.IDs() {
		if ctx.Err() != nil {
			s.n.log.Warn("the process ends before it has handed over all sessions: the others begin anew what calls and lists have told them", "path", s.e.Path)
			break
		}
		ids <- id
	}
	close(ids)
	work.Wait()
}

// serveLeave hands a session over to the node that asks.
func serveLeave(n *Node, w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	n.mu.Lock()
	s := n.sessions[q.Get("path")]
	n.mu.Unlock()
	if id := q.Get("id"); s != nil && n.Draining() && s.e.Here(id) {
		s.leave(context.WithoutCancel(r.Context()), id)
	}
	w.WriteHeader(http.StatusNoContent)
}

// part asks a node that drains to hand the session over. Its answer changes nothing but what the document says.
func (x *exchange) part(inc string) {
	n := x.s.n
	x.parted = inc
	if x.s.e.Handed == nil {
		return
	}
	ctx, cancel := context.WithTimeout(x.r.Context(), partTime)
	defer cancel()
	q := url.Values{"path": {x.s.e.Path}, "id": {x.id}}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://node"+pathLeave+"?"+q.Encode(), nil)
	if err != nil {
		return
	}
	resp, err := n.link.Direct(inc, r)
	if err != nil {
		n.log.Debug("a node that drains was not asked for a session", "inc", inc, "err", err)
		return
	}
	_ = resp.Body.Close()
}

// partOf is part for the owner in a document, if that node drains and was not asked. It reports whether it has asked.
func (x *exchange) partOf(doc store.Doc) bool {
	var at owner
	if doc.Rev == 0 || json.Unmarshal(doc.Value, &at) != nil || at.Inc == "" || at.Inc == x.s.n.Inc() || at.Inc == x.parted {
		return false
	}
	if p, there := x.s.n.nodes.of(at.Inc); !there || p.State != stateDraining {
		return false
	}
	x.part(at.Inc)
	return true
}

// inherit keeps what another node has left of the session, from the document that said so, until the session is made
// again here. Requests that come at one time do not know which of them makes it, and a client may give its request
// up.
func (x *exchange) inherit(was store.Doc) {
	var left owner
	if x.s.e.Handed == nil || was.Rev == 0 || json.Unmarshal(was.Value, &left) != nil || left.State == "" {
		return
	}
	s := x.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.size+len(left.State) > maxLeft {
		clear(s.left)
		s.size = 0
	}
	s.size += len(left.State) - len(s.left[x.id])
	s.left[x.id] = left.State
}

// hold puts what another node has left of the session into the request. Call end after the request.
func (x *exchange) hold() (end func()) {
	s := x.s
	s.mu.Lock()
	state := s.left[x.id]
	s.mu.Unlock()
	if state == "" {
		return func() {}
	}
	x.r = x.r.WithContext(s.e.Handed(x.r.Context(), state))
	return func() {
		if !s.e.Here(x.id) {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.size -= len(s.left[x.id])
		delete(s.left, x.id)
	}
}
