package fakemcp

import "net/http"

// The transport of 2024-11-05: one event stream to the client, whose first event names the
// address to which the client posts its messages.
//
//	GET /sse ◀── event: endpoint /messages?session=sse-1
//	         ◀── event: message  {…}
//	POST /messages?session=sse-1 ──▶ 202

func (s *Server) serveSSE(w http.ResponseWriter, r *http.Request) {
	id := s.newID("sse-")
	out := newEvents(w)
	c := s.newConn(out.send)
	defer c.close()
	s.mu.Lock()
	full := len(s.conns) >= maxSessions
	if !full {
		s.conns[id] = c
	}
	s.mu.Unlock()
	if full {
		return
	}
	defer func() {
		s.mu.Lock()
		delete(s.conns, id)
		s.mu.Unlock()
	}()
	// Only now, when messages find their way, may the client know the address.
	if out.event("endpoint", []byte("/messages?session="+id)) != nil {
		return
	}
	select {
	case <-r.Context().Done():
	case <-s.ctx.Done():
	}
}

func (s *Server) postSSE(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	c := s.conns[r.URL.Query().Get("session")]
	s.mu.Unlock()
	if c == nil {
		http.Error(w, "session not found", http.StatusNotFound)
		return
	}
	body, err := readAll(r, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.WriteHeader(http.StatusAccepted)
	c.receive(s.ctx, body)
}
