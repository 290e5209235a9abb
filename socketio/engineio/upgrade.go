package engineio

import (
	"errors"
	"net/http"
	"time"
)

// serveUpgrade accepts a WebSocket for a polling session.
func (s *Server) serveUpgrade(w http.ResponseWriter, r *http.Request, sid string) {
	session := s.session(sid)
	if session == nil {
		refuse(w, codeSessionUnknown)
		return
	}
	g, err := s.upgrader.Upgrade(hijacker{w}, r, s.upgradeHeader(w))
	if err != nil {
		s.config.Logger.Debug("engineio: WebSocket handshake failed", "remote", r.RemoteAddr, "error", err)
		return
	}
	conn := serverConn(g.NetConn(), s.config.MaxPayload)
	conn.session = session
	p := session.beginUpgrade()
	if s.config.NoUpgrade || p == nil {
		_ = conn.writeDirect(closeFrame(closeNormal), closeTimeout) // the session has upgraded already, or is about to
		conn.abort()
		return
	}
	s.env.tasks.Go(func() {
		in := takeReading(session, conn)
		if err := p.upgrade(in, s.config); err != nil {
			in.giveBack()
			p.failUpgrade(conn, err)
			return
		}
		in.loop()
	})
}

// beginUpgrade returns the polling carrier of the session, or nil if the session cannot be upgraded
// now.
func (s *Session) beginUpgrade() *polling {
	s.mu.Lock()
	defer s.mu.Unlock()
	p, polls := s.carrier.(*polling)
	if s.state != open || !polls || p.upgrading {
		return nil
	}
	p.upgrading = true
	return p
}

var errUpgrade = errors.New("unexpected packet during an upgrade")

// upgrade waits for the probe and for the packet that completes the upgrade. Until then it writes
// only the answer to the probe to the WebSocket; messages travel by polling.
func (p *polling) upgrade(in *reading, config Config) error {
	s, conn := p.session, in.conn
	conn.setReadLimit(config.UpgradeTimeout)
	stop := make(chan struct{})
	defer close(stop)
	s.env.tasks.Go(func() {
		select {
		case <-s.Done(): // the session has ended: the reader below must not wait
			conn.abort()
		case <-stop:
		}
	})
	first, err := in.next()
	if err != nil {
		return err
	}
	if first.kind != packetPing || string(first.data) != probe {
		return errUpgrade
	}
	s.mu.Lock()
	p.probed = true
	p.poll.wake()
	s.mu.Unlock()
	if err := conn.writeDirect(probeFrame, config.UpgradeTimeout); err != nil {
		return err
	}
	for {
		next, err := in.next()
		switch {
		case err != nil:
			return err
		case next.kind == packetNoop:
		case next.kind == packetUpgrade:
			return p.endUpgrade(conn)
		default:
			return errUpgrade
		}
	}
}

// endUpgrade makes the WebSocket carry the session.
func (p *polling) endUpgrade(conn *wsConn) error {
	s := p.session
	conn.clearReadLimit()
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return ErrClosed
	}
	s.carrier = conn
	p.upgrading, p.probed = false, false
	p.poll.wake()
	conn.flushLocked() // unlocks
	return nil
}

// failUpgrade keeps the session on polling.
func (p *polling) failUpgrade(conn *wsConn, err error) {
	s := p.session
	conn.abort()
	s.env.logger.Debug("engineio: upgrade failed", "error", err)
	s.mu.Lock()
	p.upgrading, p.probed = false, false
	p.poll.wake()
	if s.state == ending { // the client may have stopped polling already
		s.heart.timer.Stop()
		s.heart.timer = time.AfterFunc(closeTimeout, p.retire)
	}
	s.mu.Unlock()
}
