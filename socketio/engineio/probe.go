package engineio

import "context"

// Probe asks the peer for a sign of life and returns nil as soon as anything comes from it. It returns ctx's error where
// nothing has come by then, and ErrClosed where the session has ended. Neither result changes the session: a peer that has not
// answered still has the time that PingTimeout gives it.
func (s *Session) Probe(ctx context.Context) error {
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return ErrClosed
	}
	if s.sign == nil {
		s.sign = make(chan struct{})
		s.listening.Store(true)
	}
	sign := s.sign
	// A pong that no heartbeat waits for counts for nothing, so the next ping is due when it was.
	s.enqueueControlLocked(pingFrame)
	s.mu.Unlock()
	s.Flush()
	if s.delivering.Load() {
		return nil // Our own receiver keeps us from reading: the peer is not silent, we are deaf.
	}
	select {
	case <-sign:
		return nil
	case <-s.Done():
		return ErrClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hear notes that something has come from the peer.
func (s *Session) hear() {
	if !s.listening.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sign != nil {
		close(s.sign)
		s.sign = nil
		s.listening.Store(false)
	}
}
