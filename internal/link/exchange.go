package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/net/hop"
)

// ErrNotSent says that the other node has not run a request and will not, so it may be sent again.
var ErrNotSent = errors.New("the request was not sent")

const (
	maxIdle  = 256
	idleTime = 90 * time.Second
)

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

// isSmall reports whether a request goes as a frame: a POST with a small body that can be read
// at once. A response may be of any kind except an upgrade.
func isSmall(r *http.Request) bool {
	if r.Method != http.MethodPost || r.ContentLength < 0 || r.ContentLength > MaxBody || len(r.TransferEncoding) > 0 || r.Trailer != nil {
		return false
	}
	if r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false // it may come as slowly as its sender likes, and a length of 0 says nothing
	}
	_, upgrades := r.Header["Upgrade"]
	_, expects := r.Header["Expect"]
	return !upgrades && !expects && hop.CanProbe
}

// exchangeClient carries exchanges to one node. It is safe for concurrent use.
type exchangeClient struct {
	dial func(ctx context.Context) (net.Conn, error)

	mu     sync.Mutex // guards below
	idle   []*conn    // the one that became idle last is at the end
	closed bool
	sweep  *time.Timer
	armed  bool // sweep will call expire
}

// newExchangeClient returns an exchangeClient. dial makes a connection that exchangeServer.Serve gets at its other end.
func newExchangeClient(dial func(ctx context.Context) (net.Conn, error)) *exchangeClient {
	return &exchangeClient{dial: dial}
}

// Close closes the idle connections. Those that carry an exchange are closed after it.
func (c *exchangeClient) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.drop(len(c.idle))
	if c.sweep != nil {
		c.sweep.Stop()
	}
}

// drop closes the n connections that were idle for longest. The caller holds mu.
func (c *exchangeClient) drop(n int) {
	for _, old := range c.idle[:n] {
		_ = old.nc.Close()
	}
	rest := copy(c.idle, c.idle[n:])
	clear(c.idle[rest:])
	c.idle = c.idle[:rest]
}

// expire closes the connections that were idle for too long.
func (c *exchangeClient) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for n < len(c.idle) && time.Since(c.idle[n].since) >= idleTime {
		n++
	}
	c.drop(n)
	if c.armed = len(c.idle) > 0; c.armed {
		c.sweep.Reset(idleTime - time.Since(c.idle[0].since))
	}
}

func (c *exchangeClient) put(x *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) >= maxIdle {
		_ = x.nc.Close()
		return
	}
	x.used, x.since = true, time.Now()
	c.idle = append(c.idle, x)
	if c.armed {
		return
	}
	c.armed = true
	if c.sweep == nil {
		c.sweep = time.AfterFunc(idleTime, c.expire)
	} else {
		c.sweep.Reset(idleTime)
	}
}

// get returns the connection that became idle last and that the server has not closed, or a new one.
func (c *exchangeClient) get(ctx context.Context) (*conn, error) {
	for {
		x := c.pop()
		if x == nil {
			break
		}
		if x.probe.Quiet() {
			return x, nil
		}
		_ = x.nc.Close()
	}
	nc, err := c.dial(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	x := &conn{client: c, inbound: inbound{nc: nc}, probe: hop.NewProbe(nc)}
	x.interrupt = func() {
		x.interrupted.Store(true)
		_ = nc.SetDeadline(past)
	}
	return x, nil
}

func (c *exchangeClient) pop() *conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) == 0 {
		return nil
	}
	x := c.idle[len(c.idle)-1]
	c.idle[len(c.idle)-1] = nil
	c.idle = c.idle[:len(c.idle)-1]
	return x
}

var frames = sync.Pool{New: func() any { b := make([]byte, 0, readBuffer); return &b }}

// RoundTrip sends a request for which isSmall says yes. ErrNotSent says that it does not run. After another error it may
// have run. The caller closes the body of the response.
func (c *exchangeClient) RoundTrip(r *http.Request) (*http.Response, error) {
	buf := frames.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= keepBuffer {
			frames.Put(buf)
		}
	}()
	frame, err := encode((*buf)[:0], r)
	*buf = frame
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err)
	}
	ctx := r.Context()
	for {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
		}
		x, err := c.get(ctx)
		if err != nil {
			return nil, err
		}
		again := x.used
		resp, err := x.exchange(ctx, r, frame)
		switch {
		case err == nil:
			return resp, nil
		case ctx.Err() != nil:
			if !errors.Is(err, ErrNotSent) {
				return nil, context.Cause(ctx)
			}
			return nil, fmt.Errorf("%w: %w", ErrNotSent, context.Cause(ctx))
		case !again || !errors.Is(err, ErrNotSent):
			return nil, err
		}
	}
}

// encode appends the frame of a request, and closes its body.
func encode(b []byte, r *http.Request) ([]byte, error) {
	b, lines := appendRequest(b, r)
	if r.Body != nil {
		defer r.Body.Close()
	}
	if r.ContentLength > 0 {
		at := len(b)
		b = append(b, make([]byte, r.ContentLength)...)
		if _, err := io.ReadFull(r.Body, b[at:]); err != nil {
			return b, fmt.Errorf("the request's body: %w", err)
		}
	}
	if len(b) > maxFrame || lines > maxHeaderLines {
		return b, errors.New("the headers of the request are too long for this connection")
	}
	end(b, 0)
	return b, nil
}

// conn is a connection of an exchangeClient. It carries one exchange at a time.
type conn struct {
	inbound
	client *exchangeClient
	probe  *hop.Probe
	memo   memo
	used   bool      // it has carried an exchange before
	since  time.Time // when it became idle

	interrupt   func() // ends the reads and writes of the exchange
	interrupted atomic.Bool
	stop        func() bool
}

// exchange sends a request and reads the head of the response. After an error the connection is closed.
func (x *conn) exchange(ctx context.Context, r *http.Request, frame []byte) (*http.Response, error) {
	if ctx.Done() != nil {
		x.stop = context.AfterFunc(ctx, x.interrupt)
	}
	if _, err := x.nc.Write(frame); err != nil {
		x.finish(false)
		return nil, fmt.Errorf("%w: %w", ErrNotSent, err) // a part of a frame does not run
	}
	kind, n, err := x.next(maxFrame)
	if err != nil {
		x.finish(false)
		return nil, fmt.Errorf("no response: %w", err)
	}
	if kind == kindBye {
		x.finish(false)
		return nil, fmt.Errorf("%w: the server ends", ErrNotSent)
	}
	if kind != kindWhole && kind != kindHead {
		x.finish(false)
		return nil, errFrame
	}
	if err := x.fill(n); err != nil {
		x.finish(false)
		return nil, fmt.Errorf("the response broke off: %w", err)
	}
	h, rest, err := readHead(kind, x.in[x.r:x.r+n], &x.memo)
	if err != nil {
		x.finish(false)
		return nil, err
	}
	x.r += n - len(rest)
	resp := &http.Response{
		StatusCode: h.status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h.header, ContentLength: -1, Request: r,
	}
	if kind == kindWhole {
		resp.ContentLength = int64(len(rest))
		if _, set := h.header["Content-Length"]; !set && len(rest) > 0 {
			h.header["Content-Length"] = []string{strconv.Itoa(len(rest))}
		}
		if len(rest) == 0 {
			resp.Body = http.NoBody
			x.finish(true)
			return resp, nil
		}
	}
	resp.Body = &body{x: x, ctx: ctx, left: len(rest), last: kind == kindWhole}
	return resp, nil
}

// finish ends an exchange. The connection becomes idle if again is set and nothing is left on it; else it is closed.
func (x *conn) finish(again bool) {
	if x.stop != nil {
		if !x.stop() {
			again = false
		}
		x.stop = nil
	}
	if !again || x.r < x.w || x.probe == nil {
		if x.interrupted.Load() {
			hop.Under(x.nc).Close() // first: the end of TLS is a message, and a server that reads nothing holds it up
		}
		_ = x.nc.Close()
		return
	}
	if len(x.in) > keepBuffer {
		x.in, x.r, x.w = nil, 0, 0
	}
	x.client.put(x)
}

// body is the body of a response. Close may be called while Read waits.
type body struct {
	x    *conn
	ctx  context.Context
	left int  // bytes of the frame that are not read yet
	last bool // the frame is the last one
	err  error

	over atomic.Bool // the connection is no longer the body's
	mu   sync.Mutex  // held while Read runs
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err != nil {
		return 0, b.err
	}
	if b.over.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if len(p) == 0 {
		return 0, nil
	}
	n, err = b.read(p)
	if err == nil && b.left == 0 && b.last {
		err = io.EOF
	}
	if err == nil {
		return n, nil
	}
	b.err = err
	if !b.over.CompareAndSwap(false, true) {
		b.err = http.ErrBodyReadAfterClose
		return n, b.err
	}
	b.x.finish(err == io.EOF)
	if err != io.EOF && b.ctx.Err() != nil {
		b.err = context.Cause(b.ctx)
	}
	return n, b.err
}

func (b *body) read(p []byte) (int, error) {
	x := b.x
	for b.left == 0 {
		if b.last {
			return 0, io.EOF
		}
		kind, n, err := x.next(maxFrame)
		if err != nil {
			return 0, err
		}
		if kind != kindData && kind != kindLast {
			return 0, errFrame
		}
		b.left, b.last = n, kind == kindLast
	}
	if x.r == x.w {
		if err := x.fill(1); err != nil {
			return 0, err
		}
	}
	n := copy(p, x.in[x.r:min(x.w, x.r+b.left)])
	x.r += n
	b.left -= n
	return n, nil
}

// Close implements io.Closer. Before the end of the body it closes the connection, so that the server knows.
func (b *body) Close() error {
	if !b.over.CompareAndSwap(false, true) {
		return nil
	}
	_ = b.x.nc.SetReadDeadline(past) // a Read that waits ends
	b.mu.Lock()
	defer b.mu.Unlock()
	b.x.finish(false)
	return nil
}
