package engineio

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// errorBody bounds what is read of a refusal.
const errorBody = 64 << 10

func (c *client) dialPolling(ctx context.Context, accept func(*Session) Receiver) (*Session, error) {
	packets, err := c.get(ctx, "")
	if err != nil {
		c.close()
		return nil, fmt.Errorf("engineio: handshake: %w", err)
	}
	if packets[0].kind != packetOpen {
		c.close()
		return nil, fmt.Errorf("engineio: the server began with packet %q", packets[0].kind)
	}
	s, upgrades, err := c.session(packets[0].data)
	if err != nil {
		c.close()
		return nil, err
	}
	s.begin(accept)
	s.env.tasks.Go(func() { s.pollLoops(packets[1:], c.mayUpgrade(upgrades)) })
	return s, nil
}

// pollLoops runs the session as long as it polls.
func (s *Session) pollLoops(first []packet, upgrade bool) {
	s.deliver(first)
	both := make(chan struct{}, 2)
	s.env.tasks.Go(func() {
		s.getLoop()
		both <- struct{}{}
	})
	s.env.tasks.Go(func() {
		s.postLoop()
		both <- struct{}{}
	})
	if upgrade {
		s.upgradeToWebSocket()
	}
	<-both
	<-both
	if s.Transport() == Polling {
		s.client.close()
	}
}

// get asks for packets. There is at least one.
func (c *client) get(ctx context.Context, sid string) ([]packet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url(Polling, sid).String(), nil)
	if err != nil {
		return nil, err
	}
	body, err := c.do(request, int64(c.config.MaxMessage))
	if err != nil {
		return nil, err
	}
	return decodePayload(body)
}

// do sends a request and reads its response.
func (c *client) do(request *http.Request, limit int64) ([]byte, error) {
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
		body, _ := io.ReadAll(io.LimitReader(response.Body, errorBody)) // The status is the news.
		return nil, &HandshakeError{Status: response.StatusCode, Header: response.Header, Body: body}
	}
	room := c.config.Memory.Hold()
	defer room.Release()
	body, err := readAll(io.LimitReader(response.Body, limit+1), nil, &room)
	if err == nil && int64(len(body)) > limit {
		err = fmt.Errorf("the response is larger than %d bytes", limit)
	}
	return body, err
}

// getLoop polls until the session ends or an upgrade wants polling to rest.
func (s *Session) getLoop() {
	c := s.client
	for s.isOpen() {
		packets, err := c.get(c.ctx, s.id)
		switch {
		case err != nil && errors.Is(err, errPacket):
			s.end(ReasonParseError, err, graceful)
			return
		case err != nil:
			s.end(ReasonTransportError, err, aborted)
			return
		}
		s.deliver(packets)
		select {
		case <-c.resign:
			c.rested <- struct{}{}
			return
		default:
		}
	}
}

// postLoop sends what is queued.
func (s *Session) postLoop() {
	c := s.client
	defer close(c.posted)
	for {
		select {
		case <-c.post:
		case <-c.resign:
			c.rested <- struct{}{}
			return
		case <-c.ctx.Done():
			return
		}
		if over := s.postQueue(); over {
			return
		}
	}
}

// farewell sends what is queued by an ended session, and the close packet.
func (s *Session) farewell() {
	<-s.client.posted // It has come to rest, or is about to.
	s.postQueue()
	s.client.cancel()
}

// postQueue sends what is queued. It reports whether the session is over.
func (s *Session) postQueue() (over bool) {
	c := s.client
	for {
		s.mu.Lock()
		over := s.state != open
		var body []byte
		if len(s.queue) > 0 {
			body = s.takePayloadLocked()
		}
		s.mu.Unlock()
		if body == nil && over {
			_ = s.postPayload([]byte{packetClose}) // The server finds out by itself if this does not reach it.
			c.cancel()
			return true
		}
		if body == nil {
			return false
		}
		if err := s.postPayload(body); err != nil {
			s.end(ReasonTransportError, err, aborted)
			c.cancel()
			return true
		}
	}
}

func (s *Session) postPayload(body []byte) error {
	request, err := http.NewRequestWithContext(s.client.ctx, http.MethodPost, s.client.url(Polling, s.id).String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "text/plain; charset=UTF-8")
	_, err = s.client.do(request, errorBody)
	return err
}

func (c *client) wakePost() {
	select {
	case c.post <- struct{}{}:
	default:
	}
}

// endLocked says goodbye to the server. It unlocks s.mu.
func (c *client) endLocked(s *Session, how manner) {
	switch {
	case s.ws != nil && how == aborted:
		s.mu.Unlock()
		s.ws.abort()
	case s.ws != nil:
		s.ws.setWriteLimit(closeTimeout)
		s.writeLocked() // unlocks
	case how == graceful:
		s.timer = time.AfterFunc(closeTimeout, c.cancel)
		s.mu.Unlock()
		c.wakePost()
	default:
		s.mu.Unlock()
		c.cancel()
	}
}
