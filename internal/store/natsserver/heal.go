package natsserver

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A server takes no more writes once one of them has failed, such as on a full disk, also when the disk has room again:
// it expects to be started anew. heal does that as soon as the disk takes writes. Until then, reads are answered.

const (
	// firstHeal is the wait before the disk is looked at again. It doubles up to longestHeal while starts of the server
	// are of no use: its own files cannot be written, although another one can.
	firstHeal, longestHeal = time.Second, 16 * time.Second
	// healedFor is how long writes have to work before the wait is the first one again.
	healedFor = time.Minute
	// probeBytes is the room that the server must find.
	probeBytes = 256 << 10
)

// errClosed ends the writes of a server that has ended.
var errClosed = errors.New("the store has ended")

// Writes returns a context that ends when the server takes no writes, with the reason as its cause. It is another one
// when the server takes writes again. It is about this server alone: in a cluster the others go on.
func (s *Server) Writes() context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.writes
}

// tell notes why the server takes no writes, "" if it does.
func (s *Server) tell(why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	broken := s.writes.Err() != nil
	switch {
	case why == "" && broken:
		s.writes, s.breaks = context.WithCancelCause(context.Background())
		s.o.Logger.Warn("the store takes writes again", "folder", s.o.Dir)
	case why != "" && !broken:
		s.breaks(errors.New(why))
		s.o.Logger.Error("the store takes no writes until its disk does: make room there", "folder", s.o.Dir, "why", why)
	}
}

// heal starts the server anew when it takes no writes and the disk does, until ctx ends.
func (s *Server) heal(ctx context.Context) {
	wait, healed := firstHeal, time.Time{}
	for {
		select {
		case <-s.look:
		case <-ctx.Done():
			return
		}
		if time.Since(healed) > healedFor {
			wait = firstHeal
		}
		for {
			why := s.trouble()
			s.tell(why)
			if why == "" {
				break
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
			if s.probe() != nil {
				continue
			}
			last := s.current()
			last.Shutdown()
			last.WaitForShutdown()
			if err := s.run(); err != nil {
				s.o.Logger.Warn("the store was not started again", "folder", s.o.Dir, "err", err)
			}
			wait, healed = min(2*wait, longestHeal), time.Now()
		}
	}
}

// trouble returns why the server takes no writes, "" if it does.
func (s *Server) trouble() string {
	now := s.current()
	if !now.JetStreamEnabled() {
		return "it has stopped after an error"
	}
	if _, why, failed := strings.Cut(now.Healthz(nil).Error, "write error: "); failed {
		return why
	}
	return ""
}

// probe returns an error if the disk takes no writes.
func (s *Server) probe() error {
	path := filepath.Join(s.o.Dir, "probe")
	defer func() { _ = os.Remove(path) }()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	if _, err = f.Write(make([]byte, probeBytes)); err == nil {
		err = f.Sync()
	}
	if failed := f.Close(); err == nil {
		err = failed
	}
	return err
}
