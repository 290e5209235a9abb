package fakemcp

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// junk is the output of a chatty server between its messages: text, the begin of a message, JSON
// that is no message, an empty line, bytes that are no text.
func junk() [][]byte {
	return [][]byte{
		[]byte("Loading model weights… done.\n"),
		[]byte(`{"jsonrpc":"2.0","id":` + "\n"),
		[]byte(`["level","info"]` + "\n"),
		[]byte("\n"),
		[]byte("\x1b[31mwarning\x1b[0m \xff\xfe\n"),
		append(bytes.Repeat([]byte("x"), 70_000), '\n'),
	}
}

// conn is one client over a stream of messages: stdio, or HTTP+SSE.
type conn struct {
	server *Server
	client *client
	gone   chan struct{} // closed when the stream has ended
	work   sync.WaitGroup
	legacy sync.Once // subscribes the first time the client initializes
	unsub  func()

	gate   sync.RWMutex // held to receive a message; guards below
	closed bool

	mu    sync.Mutex                 // guards below
	write func(msgs ...[]byte) error // one call is one write
}

func (s *Server) newConn(write func(msgs ...[]byte) error) *conn {
	return &conn{server: s, client: newClient(), gone: make(chan struct{}), write: write, unsub: func() {}}
}

func (c *conn) send(msgs ...[]byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.write(msgs...)
}

// receive serves one message. It may keep no slice of b unless it is done with it on return.
func (c *conn) receive(ctx context.Context, b []byte) {
	c.gate.RLock()
	defer c.gate.RUnlock()
	if c.closed {
		return
	}
	c.server.messages.Add(1)
	m, ok := c.server.read(b)
	if ok && (m.response() || c.server.waits(&m)) {
		m, ok = c.server.read(bytes.Clone(b)) // it lives on after this line of input
	}
	switch {
	case !ok:
		c.reply(appendError(nil, nil, &rpcError{code: codeParse, message: "not a message"}))
	case m.response():
		c.client.answer(m)
	case m.notification():
		if string(m.method) == "notifications/cancelled" {
			c.client.cancel(m.requestID)
		}
	case !m.request():
		c.reply(appendError(nil, nil, &rpcError{code: codeInvalidRequest, message: "neither request nor response"}))
	case !m.modern() && !c.client.initialized.Load() && !early(&m):
		c.reply(appendError(nil, m.id, &rpcError{code: codeInvalidRequest, message: "not initialized"}))
	case c.server.waits(&m):
		ctx, done, fault := c.client.begin(ctx, m.id)
		if fault != nil {
			c.reply(appendError(nil, m.id, fault))
			return
		}
		c.work.Go(func() {
			release := sync.OnceFunc(done)
			defer release()
			c.answer(ctx, &m, release)
		})
	default:
		c.answer(ctx, &m, func() {})
	}
}

// early reports whether a legacy client may send m before it has initialized.
func early(m *message) bool {
	return string(m.method) == "initialize" || string(m.method) == "ping" || string(m.method) == "server/discover"
}

// answer serves a request and releases its id before the answer is out.
func (c *conn) answer(ctx context.Context, m *message, release func()) {
	response, fault := c.server.serve(ctx, &call{message: m, server: c.server, client: c.client, send: c.send, gone: c.gone}, nil)
	release()
	if len(response) == 0 {
		return
	}
	c.reply(response)
	if fault == nil && string(m.method) == "initialize" {
		c.legacy.Do(func() {
			c.unsub = c.server.subscribe(&subscription{send: func(msg []byte) { c.reply(msg) }})
		})
	}
}

// reply sends a response; it fails silently, because a client that is gone needs none.
func (c *conn) reply(msg []byte) { _ = c.send(msg) }

// close ends the running work of the connection and waits for it.
func (c *conn) close() {
	c.gate.Lock()
	c.closed = true
	c.gate.Unlock()
	close(c.gone)
	c.client.stop()
	c.work.Wait()
	c.unsub()
	c.mu.Lock()
	c.write = func(...[]byte) error { return net.ErrClosed } // an announcement may still be under way
	c.mu.Unlock()
}

// ServeStdio speaks newline-delimited JSON-RPC until in or ctx ends; both give nil. Where in
// is an [io.Closer] it is closed when ctx ends.
func (s *Server) ServeStdio(ctx context.Context, in io.Reader, out io.Writer) error {
	var line []byte
	c := s.newConn(func(msgs ...[]byte) error {
		line = line[:0]
		for _, msg := range msgs {
			if s.cfg.Init == InitJunk {
				line = append(line, bytes.Join(junk(), nil)...)
			}
			line = append(line, msg...)
			if string(msg) != halfMessage {
				line = append(line, '\n')
			}
		}
		_, err := out.Write(line)
		if cap(line) > 1<<20 {
			line = nil
		}
		return err
	})
	defer c.close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(errStopped) })()
	defer context.AfterFunc(ctx, func() {
		if closer, ok := in.(io.Closer); ok {
			_ = closer.Close()
		}
	})()
	lines := bufio.NewScanner(in)
	lines.Buffer(make([]byte, 0, 64<<10), maxMessage)
	for lines.Scan() {
		if b := bytes.TrimSpace(lines.Bytes()); len(b) > 0 {
			c.receive(ctx, b)
		}
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil && !errors.Is(err, io.ErrClosedPipe) {
		return fmt.Errorf("fakemcp: reading: %w", err)
	}
	s.record("input closed")
	return nil
}
