package engineio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// errorBody bounds how much of an error response is read.
const errorBody = 64 << 10

func (c *client) dialPolling(ctx context.Context, accept func(*Session) Receiver) (*Session, error) {
	room := c.config.Memory.Hold()
	packets, err := c.get(ctx, "", &room)
	if err != nil {
		room.Release()
		c.close()
		return nil, fmt.Errorf("engineio: handshake: %w", err)
	}
	if packets[0].kind != packetOpen {
		room.Release()
		c.close()
		return nil, fmt.Errorf("engineio: the server began with packet %q", packets[0].kind)
	}
	s, upgrades, err := c.session(packets[0].data)
	if err != nil {
		room.Release()
		c.close()
		return nil, err
	}
	p := &clientPolling{
		client: c, session: s,
		post: make(chan struct{}, 1), resign: make(chan struct{}), posted: make(chan struct{}), rested: make(chan struct{}, 2),
	}
	c.start(s, p, accept)
	s.env.tasks.Go(func() {
		s.deliver(packets[1:])
		room.Release()
		p.run(c.mayUpgrade(upgrades))
	})
	return s, nil
}

// clientPolling carries a client's session by GETs and POSTs until an upgrade replaces it with a
// wsConn.
type clientPolling struct {
	client  *client
	session *Session

	post   chan struct{} // capacity 1: the queue is not empty
	resign chan struct{} // closed when polling must stop for an upgrade
	posted chan struct{} // closed when postLoop has ended
	rested chan struct{} // gets one value from each of the two loops when it has stopped
}

var _ carrier = (*clientPolling)(nil)

func (p *clientPolling) transport() Transport { return Polling }

func (p *clientPolling) flushLocked() {
	p.session.mu.Unlock()
	p.wakePost()
}

// endLocked makes postLoop send the queue and the close packet, or aborts all requests.
func (p *clientPolling) endLocked(how manner) {
	s := p.session
	if how != graceful {
		s.mu.Unlock()
		p.client.cancel()
		return
	}
	s.heart.timer = time.AfterFunc(closeTimeout, p.client.cancel)
	s.mu.Unlock()
	p.wakePost()
}

// run runs the session while it polls.
func (p *clientPolling) run(upgrade bool) {
	s := p.session
	both := make(chan struct{}, 2)
	s.env.tasks.Go(func() {
		p.getLoop()
		both <- struct{}{}
	})
	s.env.tasks.Go(func() {
		p.postLoop()
		both <- struct{}{}
	})
	if upgrade {
		p.upgrade()
	}
	<-both
	<-both
	if s.Transport() == Polling {
		p.client.close()
	}
}

// get polls for packets. It returns at least one. room counts them; the caller releases it after their use.
func (c *client) get(ctx context.Context, sid string, room *memory.Hold) ([]packet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(Polling, sid).String(), nil)
	if err != nil {
		return nil, err
	}
	body, err := c.do(request, int64(c.config.MaxMessage), room)
	if err != nil {
		return nil, err
	}
	return decodePayload(body, room)
}

// do sends a request and reads its response, which room counts.
func (c *client) do(request *http.Request, limit int64, room *memory.Hold) ([]byte, error) {
	for name, values := range c.config.Header {
		request.Header[name] = values
		if name == "Host" && len(values) > 0 {
			request.Host = values[0]
		}
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		body, _ := io.ReadAll(io.LimitReader(response.Body, errorBody)) // only the status matters
		return nil, &HandshakeError{Status: response.StatusCode, Header: response.Header, Body: body}
	}
	body, err := readAll(io.LimitReader(response.Body, limit+1), nil, room)
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("the response is larger than %d bytes", limit)
	}
	return body, err
}

// getLoop polls until the session ends or an upgrade stops polling.
func (p *clientPolling) getLoop() {
	s, c := p.session, p.client
	for s.isOpen() {
		room := c.config.Memory.Hold()
		packets, err := c.get(c.ctx, s.id, &room)
		switch {
		case err != nil && errors.Is(err, errPacket):
			room.Release()
			s.end(ReasonParseError, err, graceful)
			return
		case err != nil:
			room.Release()
			s.end(ReasonTransportError, err, aborted)
			return
		}
		s.deliver(packets)
		room.Release()
		select {
		case <-p.resign:
			p.rested <- struct{}{}
			return
		default:
		}
	}
}

// postLoop sends the queue.
func (p *clientPolling) postLoop() {
	c := p.client
	defer close(p.posted)
	for {
		select {
		case <-p.post:
		case <-p.resign:
			p.rested <- struct{}{}
			return
		case <-c.ctx.Done():
			return
		}
		if over := p.postQueue(); over {
			return
		}
	}
}

// farewell sends the queue of an ended session, and the close packet.
func (p *clientPolling) farewell() {
	<-p.posted // it has stopped, or is about to
	p.postQueue()
	p.client.cancel()
}

// postQueue sends the queue. It reports whether the session has ended.
func (p *clientPolling) postQueue() (over bool) {
	s, c := p.session, p.client
	for {
		s.mu.Lock()
		over := s.state != open
		var body []byte
		var frames int
		var err error
		if len(s.queue.items) > 0 {
			body, frames, err = s.queue.takePayload(s.env.maxPayload, s.env.memory)
		}
		s.mu.Unlock()
		if err != nil {
			s.end(ReasonTransportError, err, aborted)
			c.cancel()
			return true
		}
		if body == nil && over {
			_ = p.postPayload([]byte{packetClose}) // otherwise the server notices by its heartbeat
			c.cancel()
			return true
		}
		if body == nil {
			return false
		}
		err = p.postPayload(body)
		s.wrote(frames, len(body))
		if err != nil {
			s.end(ReasonTransportError, err, aborted)
			c.cancel()
			return true
		}
	}
}

func (p *clientPolling) postPayload(body []byte) error {
	request, err := http.NewRequestWithContext(p.client.ctx, http.MethodPost, p.client.url(Polling, p.session.id).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/plain; charset=UTF-8")
	_, err = p.client.do(request, errorBody, nil)
	return err
}

func (p *clientPolling) wakePost() {
	select {
	case p.post <- struct{}{}:
	default:
	}
}

// --- upgrade ---

// upgrade moves a polling session to WebSocket if the server allows it.
func (p *clientPolling) upgrade() {
	s, c := p.session, p.client
	ctx, cancel := context.WithTimeout(c.ctx, c.config.HandshakeTimeout)
	defer cancel()
	conn, err := c.openWS(ctx, s.id)
	if err != nil {
		s.env.logger.Debug("engineio: no upgrade", "error", err)
		return
	}
	stop := context.AfterFunc(ctx, conn.abort)
	if err := conn.probe(); err != nil {
		stop()
		conn.abort()
		s.env.logger.Debug("engineio: no upgrade", "error", err)
		return
	}
	// From here on the upgrade cannot be undone. Polling stops first, so that no packet overtakes
	// another.
	close(p.resign)
	for range 2 {
		select {
		case <-p.rested:
		case <-s.Done():
			stop()
			conn.abort()
			p.farewell() // the stopped polling loops cannot
			return
		case <-ctx.Done():
			conn.abort()
			s.end(ReasonTransportError, fmt.Errorf("upgrade: %w", ctx.Err()), aborted)
			return
		}
	}
	err = conn.writeDirect(controlFrame(packetUpgrade, ""), c.config.HandshakeTimeout)
	if !stop() || err != nil {
		conn.abort()
		s.end(ReasonTransportError, err, aborted)
		return
	}
	conn.session = s
	s.env.tasks.Go(conn.clientLoop)
	s.mu.Lock()
	s.carrier = conn
	conn.flushLocked() // sends the queue, and the close frame if the session has ended; unlocks
}
