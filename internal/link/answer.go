package link

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

const (
	// watchAfter is how long an exchange runs before the server looks whether its client has left.
	watchAfter = 20 * time.Millisecond
	// quietTime is how long a connection may be idle. The deadline is renewed when half of it is over, so that half must be
	// longer than idleTime: the client ends an idle connection first.
	quietTime = 2 * (idleTime + time.Minute)
	// byeTime is how long a connection that ends waits for its client to close it: a request may be on its way, and
	// the client has to read that it does not run.
	byeTime = 500 * time.Millisecond
	// abortTime is how long Shutdown waits for handlers whose context it has canceled.
	abortTime = 2 * time.Second
)

// exchangeServer serves exchanges. It is safe for concurrent use.
type exchangeServer struct {
	handler http.Handler
	log     *slog.Logger
	work    sync.WaitGroup

	mu     sync.Mutex // guards below
	conns  map[*served]struct{}
	ending bool
}

// newExchangeServer returns an exchangeServer. The handler may neither hijack connections nor keep the body of a request.
func newExchangeServer(handler http.Handler, log *slog.Logger) *exchangeServer {
	return &exchangeServer{handler: handler, log: log, conns: map[*served]struct{}{}}
}

// Serve serves a connection that an exchangeClient has made, and returns at once. It owns the connection. During Shutdown, it tells
// the client that nothing runs, which takes half a second at most.
func (s *exchangeServer) Serve(nc net.Conn) {
	c := &served{s: s, inbound: inbound{nc: nc}}
	if !s.begin(c) {
		c.bye()
		_ = nc.Close()
	}
}

// begin serves a connection in the background. It returns false if the server ends.
func (s *exchangeServer) begin(c *served) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ending {
		return false
	}
	s.conns[c] = struct{}{}
	s.work.Go(func() {
		c.serve()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	})
	return true
}

// Shutdown takes no further exchanges, waits for those that run until ctx ends, and closes the rest. It leaves a handler
// behind that does not heed its context, as the server of net/http does: the end of the process must not wait for it.
func (s *exchangeServer) Shutdown(ctx context.Context) {
	s.mu.Lock()
	s.ending = true
	for c := range s.conns {
		c.wake()
	}
	s.mu.Unlock()
	over := make(chan struct{})
	go func() {
		defer close(over)
		s.work.Wait()
	}()
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	s.mu.Lock()
	for c := range s.conns {
		c.abort()
	}
	s.mu.Unlock()
	select {
	case <-over:
	case <-time.After(abortTime):
		s.log.Warn("requests of other nodes do not end: they are left behind", "after", abortTime)
	}
}

func (s *exchangeServer) ends() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

// served is a connection of an exchangeServer.
type served struct {
	inbound
	s     *exchangeServer
	base  context.Context // of all exchanges
	memo  memo
	until time.Time // the read deadline
	out   []byte    // frames of the response that are not written yet

	target string // the last one
	url    *url.URL

	watcher *time.Timer
	watched chan struct{} // gets a value when watch ends
	one     [1]byte

	mu      sync.Mutex // guards below
	idle    bool       // no exchange runs
	over    bool       // the exchange does not want to be watched any more
	cancel  context.CancelFunc
	gone    bool // the client has left, or must
	aborted bool // all deadlines are in the past
	writing bool
	limit   time.Time // of the exchange's writes; zero: none
}

// wake ends the wait for the next request.
func (c *served) wake() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.idle {
		_ = c.nc.SetReadDeadline(past)
	}
}

// abort closes the connection and cancels its exchange.
func (c *served) abort() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone, c.aborted = true, true
	if c.cancel != nil {
		c.cancel()
	}
	_ = c.nc.SetDeadline(past) // with TLS, Close may wait for the other process
}

// write writes a frame, within the deadline of the exchange.
func (c *served) write(b []byte) error {
	c.mu.Lock()
	bounded := !c.limit.IsZero()
	if c.writing = true; bounded && !c.aborted {
		_ = c.nc.SetWriteDeadline(c.limit)
	}
	c.mu.Unlock()
	_, err := c.nc.Write(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	bounded = bounded || !c.limit.IsZero() // it may have got a deadline meanwhile
	if c.writing = false; bounded && !c.aborted {
		_ = c.nc.SetWriteDeadline(time.Time{})
	}
	return err
}

// bound sets the deadline of the exchange's writes, and the deadline of one under way.
func (c *served) bound(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limit = t; c.writing && !c.aborted {
		_ = c.nc.SetWriteDeadline(t)
	}
}

func (c *served) serve() {
	defer c.nc.Close()
	c.base = context.WithValue(context.Background(), http.LocalAddrContextKey, c.nc.LocalAddr()) // handle cancels each exchange
	c.watched = make(chan struct{}, 1)
	c.watcher = time.AfterFunc(time.Hour, c.watch)
	c.watcher.Stop()
	for {
		n, err := c.request()
		if err != nil {
			if c.s.ends() || errors.Is(err, os.ErrDeadlineExceeded) {
				c.bye()
			}
			return
		}
		h, rest, err := readHead(kindRequest, c.in[c.r:c.r+n], &c.memo)
		if err != nil {
			c.s.log.Debug("a connection between nodes ends", "err", err)
			return
		}
		c.r += n
		if !c.handle(h, rest) {
			return
		}
	}
}

// bye tells a client whose request may be on its way that it does not run.
func (c *served) bye() {
	_ = c.nc.SetDeadline(time.Now().Add(byeTime))
	if _, err := c.nc.Write([]byte{kindBye, 0, 0, 0}); err != nil {
		return
	}
	_, _ = io.Copy(io.Discard, c.nc)
}

// request waits for the next request and returns its length.
func (c *served) request() (int, error) {
	if !c.rest() {
		return 0, net.ErrClosed
	}
	kind, n, err := c.next(maxFrame)
	if err != nil {
		return 0, err
	}
	if kind != kindRequest {
		return 0, errFrame
	}
	return n, c.fill(n)
}

// rest makes the connection idle. It returns false if the server ends.
func (c *served) rest() bool {
	now := time.Now()
	c.mu.Lock()
	if c.until.Sub(now) < quietTime/2 {
		c.until = now.Add(quietTime)
		_ = c.nc.SetReadDeadline(c.until)
	}
	c.idle = true
	gone := c.gone
	c.mu.Unlock()
	return !gone && !c.s.ends()
}

// handle runs an exchange, and reports whether the connection can carry another one.
func (c *served) handle(h head, rest []byte) (again bool) {
	ctx, cancel := context.WithCancel(c.base)
	defer cancel()
	r, err := c.decode(ctx, h, rest)
	if err != nil {
		c.s.log.Debug("a connection between nodes ends", "err", err)
		return false
	}
	c.mu.Lock()
	c.idle, c.over, c.cancel, c.limit = false, false, cancel, time.Time{}
	c.mu.Unlock()
	w := &writer{c: c, header: http.Header{}}
	if c.out == nil {
		c.out = make([]byte, 0, readBuffer)
	}
	c.watcher.Reset(watchAfter)
	sent, _ := r.Body.(*content)
	again = c.run(w, r)
	if sent != nil {
		_ = sent.Close()
	}
	c.unwatch()
	again = again && w.finish() == nil
	c.mu.Lock()
	c.cancel = nil
	again = again && !c.gone
	c.mu.Unlock()
	if cap(c.out) > keepBuffer {
		c.out = nil
	}
	if cap(c.in) > keepBuffer {
		c.in = append([]byte(nil), c.in[c.r:c.w]...)
		c.r, c.w = 0, len(c.in)
	}
	return again
}

// content is the body of a request. It ends with Close: the next request uses its bytes then.
type content struct {
	mu   sync.Mutex // guards below
	left []byte
	over bool
}

// Read implements io.Reader.
func (b *content) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.over {
		return 0, http.ErrBodyReadAfterClose
	}
	if n = copy(p, b.left); n == 0 && len(b.left) == 0 {
		return 0, io.EOF
	}
	b.left = b.left[n:]
	return n, nil
}

// Close implements io.Closer.
func (b *content) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left, b.over = nil, true
	return nil
}

// decode returns the request of an exchange.
func (c *served) decode(ctx context.Context, h head, sent []byte) (*http.Request, error) {
	if c.url == nil || c.target != h.target {
		u, err := url.ParseRequestURI(h.target)
		if err != nil {
			return nil, err
		}
		c.target, c.url = h.target, u
	}
	at := *c.url
	r := &http.Request{
		Method: h.method, URL: &at, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h.header, Host: h.host,
		RequestURI: h.target, ContentLength: int64(len(sent)), Body: http.NoBody,
	}
	if len(sent) > 0 {
		r.Body = &content{left: sent}
	}
	return r.WithContext(ctx), nil
}

// run calls the handler.
func (c *served) run(w *writer, r *http.Request) (ok bool) {
	defer func() {
		if failed := recover(); failed != nil && failed != http.ErrAbortHandler {
			c.s.log.Error("a request of another node panicked", "panic", fmt.Sprint(failed), "stack", string(debug.Stack()))
		}
	}()
	c.s.handler.ServeHTTP(w, r)
	return true
}

// watch cancels the exchange if the client leaves.
func (c *served) watch() {
	defer func() { c.watched <- struct{}{} }()
	c.mu.Lock()
	if c.over || c.gone {
		c.mu.Unlock()
		return
	}
	_ = c.nc.SetReadDeadline(time.Time{})
	c.until = time.Time{}
	c.mu.Unlock()
	n, err := c.nc.Read(c.one[:])
	c.mu.Lock()
	defer c.mu.Unlock()
	if timeout, ok := err.(net.Error); n == 0 && ok && timeout.Timeout() && c.over {
		return
	}
	c.gone = true // it has closed the connection, or sends what it must not
	if c.cancel != nil {
		c.cancel()
	}
}

// unwatch ends the watch.
func (c *served) unwatch() {
	if c.watcher.Stop() {
		return
	}
	c.mu.Lock()
	c.over = true
	_ = c.nc.SetReadDeadline(past)
	c.until = time.Time{}
	c.mu.Unlock()
	<-c.watched
}

// writer is the http.ResponseWriter of an exchange. One goroutine uses it; SetWriteDeadline may be called at the same
// time, before the handler returns.
type writer struct {
	c      *served
	header http.Header
	status int // 0 before WriteHeader
	lines  int // in the frame of the head
	sent   bool
	opened bool // the body has started
	err    error
}

// Header implements http.ResponseWriter.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *writer) WriteHeader(status int) {
	if w.status != 0 || status < 200 {
		return
	}
	w.status = status
	b := begin(w.c.out[:0], kindHead)
	b = append(b, byte(status>>8), byte(status), 0, 0)
	w.c.out, w.lines = appendLines(b, w.header)
}

// bodyless reports whether responses of a status have no body.
func bodyless(status int) bool {
	return status == http.StatusNoContent || status == http.StatusNotModified
}

// open starts the body, of which the first bytes are given.
func (w *writer) open(p string) {
	w.opened = true
	_, typed := w.header["Content-Type"]
	if !typed && p != "" && w.header.Get("Content-Encoding") == "" {
		w.c.out = appendText(appendText(w.c.out, "Content-Type"), http.DetectContentType([]byte(p)))
		w.lines++
	}
	binary.BigEndian.PutUint16(w.c.out[frameHead+2:], uint16(w.lines))
}

// Write implements http.ResponseWriter.
func (w *writer) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if bodyless(w.status) {
		return 0, http.ErrBodyNotAllowed
	}
	if !w.opened {
		w.open(string(p[:min(len(p), 512)]))
	}
	n := 0
	for n < len(p) {
		if w.err != nil {
			return n, w.err
		}
		if len(w.c.out) == 0 {
			w.c.out = begin(w.c.out, kindData)
		}
		count := min(len(p)-n, max(0, maxOut-len(w.c.out)))
		w.c.out = append(w.c.out, p[n:n+count]...)
		n += count
		if n < len(p) {
			w.flush(false)
		}
	}
	return n, w.err
}

// flush writes what is there as a frame.
func (w *writer) flush(last bool) {
	b := w.c.out
	if len(b) == 0 {
		if !last {
			return
		}
		b = begin(b, kindLast)
	}
	switch {
	case last && !w.sent:
		b[0] = kindWhole
	case last:
		b[0] = kindLast
	}
	end(b, 0)
	w.sent = true
	w.c.out = b[:0]
	if w.err != nil {
		return
	}
	w.err = w.c.write(b)
}

// FlushError is for http.ResponseController.
func (w *writer) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.opened {
		w.open("")
	}
	w.flush(false)
	return w.err
}

// Flush implements http.Flusher.
func (w *writer) Flush() { _ = w.FlushError() }

// SetWriteDeadline is for http.ResponseController. It bounds the writes of the exchange, one under way too.
func (w *writer) SetWriteDeadline(t time.Time) error {
	w.c.bound(t)
	return nil
}

// SetReadDeadline is for http.ResponseController. The body is in memory, so there is nothing to wait for.
func (w *writer) SetReadDeadline(time.Time) error { return nil }

// EnableFullDuplex is for http.ResponseController.
func (w *writer) EnableFullDuplex() error { return nil }

// finish ends the response.
func (w *writer) finish() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.opened {
		w.open("")
	}
	w.flush(true)
	return w.err
}
