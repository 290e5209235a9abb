package engineio

import (
	"errors"
	"net/http"
	"time"
)

// serveUpgrade takes a WebSocket for a session that polls.
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
	if s.config.NoUpgrade || !session.beginUpgrade() {
		_ = conn.writeDirect(closeFrame(closeNormal), closeTimeout) // It is upgraded already, or about to be.
		conn.abort()
		return
	}
	s.env.tasks.Go(func() {
		in := takeReading(session, conn)
		if err := session.upgrade(in, s.config); err != nil {
			in.giveBack()
			session.failUpgrade(conn, err)
			return
		}
		session.readLoop(in)
	})
}

func (s *Session) beginUpgrade() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state != open || s.ws != nil || s.upgrading {
		return false
	}
	s.upgrading = true
	return true
}

var errUpgrade = errors.New("unexpected packet during an upgrade")

// upgrade waits for the probe and for the packet that ends the upgrade. Until then nothing but the answer to the probe is
// written to the WebSocket; messages go on by polling.
func (s *Session) upgrade(in *reading, config Config) error {
	conn := in.conn
	conn.setReadLimit(config.UpgradeTimeout)
	stop := make(chan struct{})
	defer close(stop)
	s.env.tasks.Go(func() {
		select {
		case <-s.Done(): // The session ended meanwhile: the reader below must not wait.
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
	s.probed = true
	s.poll.wake()
	s.mu.Unlock()
	if err := conn.writeDirect(probeFrame, config.UpgradeTimeout); err != nil {
		return err
	}
	for {
		p, err := in.next()
		switch {
		case err != nil:
			return err
		case p.kind == packetNoop:
		case p.kind == packetUpgrade:
			return s.endUpgrade(conn)
		default:
			return errUpgrade
		}
	}
}

func (s *Session) endUpgrade(conn *wsConn) error {
	conn.clearReadLimit()
	s.mu.Lock()
	if s.state != open {
		s.mu.Unlock()
		return ErrClosed
	}
	s.ws, s.upgrading, s.probed = conn, false, false
	s.poll.wake()
	s.writeLocked() // unlocks
	return nil
}

// failUpgrade lets the session go on polling.
func (s *Session) failUpgrade(conn *wsConn, err error) {
	conn.abort()
	s.env.logger.Debug("engineio: upgrade failed", "error", err)
	s.mu.Lock()
	s.upgrading, s.probed = false, false
	s.poll.wake()
	if s.state == ending { // The client may have stopped to poll already.
		s.timer.Stop()
		s.timer = time.AfterFunc(closeTimeout, s.retire)
	}
	s.mu.Unlock()
}
