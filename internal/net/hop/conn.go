package hop

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// earlyWait is how long a response is waited for after the write of the request has failed: a
// server may refuse a request and close the connection while the request is being written.
const earlyWait = 250 * time.Millisecond

// past is a deadline that ends reads and writes at once.
var past = time.Unix(1, 0)

var errHeadTooLong = errors.New("the head of the response is over the bound")

// conn is a connection to one server. It carries one request at a time.
type conn struct {
	t     *Transport
	to    origin
	nc    net.Conn
	under net.Conn      // the socket of nc; nc itself if there is no layer over it, which may hold bytes
	probe *Probe        // of the socket; nil: it cannot be probed, so it is not used again
	in    *bufio.Reader // of conn itself, which bounds heads
	limit int64         // bytes that may still be read from nc
	used  bool          // it has carried a request before
	since time.Time     // when it became idle

	one [1]byte

	interrupt func() // ends the reads and writes of the request
	stop      func() bool
	writer    chan written // of the goroutine that writes a large body, or nil

	mu          sync.Mutex // guards below
	interrupted bool
	begun       bool // the response has, so reads have no time limit
}

func newConn(t *Transport, to origin, nc net.Conn) *conn {
	c := &conn{t: t, to: to, nc: nc, under: Under(nc), probe: NewProbe(nc)}
	c.in = bufio.NewReaderSize(c, cmp.Or(t.base.ReadBufferSize, 4<<10))
	c.interrupt = func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.interrupted = true
		_ = nc.SetDeadline(past)
	}
	return c
}

// Read implements io.Reader for the buffer.
func (c *conn) Read(p []byte) (int, error) {
	if c.limit <= 0 {
		return 0, errHeadTooLong
	}
	n, err := c.nc.Read(p[:min(int64(len(p)), c.limit)])
	c.limit -= int64(n)
	return n, err
}

// readBy sets the time by which the head of the response must have come, unless it has or the request
// was cancelled.
func (c *conn) readBy(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.interrupted && !c.begun {
		_ = c.nc.SetReadDeadline(t)
	}
}

// begin ends the time limit of the head. limited says that there may be one.
func (c *conn) begin(limited bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	if limited && !c.interrupted {
		_ = c.nc.SetReadDeadline(time.Time{})
	}
}

// fresh reports whether an idle connection can carry a request: a server that closes it, or sends
// something that no request asked for, has done so before the request starts.
func (c *conn) fresh() bool {
	if c.under != c.nc && !c.empty() {
		return false
	}
	return c.probe.Quiet()
}

// empty reports whether the layer over the socket holds neither bytes nor an end. It reads nothing from
// the socket, because the time for that is over.
func (c *conn) empty() bool {
	_ = c.nc.SetReadDeadline(past) // if it fails, so does the next one
	n, err := c.nc.Read(c.one[:])
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && c.nc.SetReadDeadline(time.Time{}) == nil
}

// exchange sends a message and reads the head of its response. The body of the response keeps the
// connection until it was read or closed. After an error the connection is closed, and again says
// whether the message may be sent over another one.
func (c *conn) exchange(ctx context.Context, req *http.Request, m *message) (resp *http.Response, again bool, err error) {
	c.begun = false // nothing else runs on the connection yet
	if ctx.Done() != nil {
		c.stop = context.AfterFunc(ctx, c.interrupt)
	}
	var now written
	if m.rest == nil {
		if now = m.write(c.nc); now.err != nil {
			if !now.sent {
				c.finish(false)
				return nil, c.used, now.err
			}
			c.readBy(time.Now().Add(earlyWait))
		}
	} else {
		c.writeAlong(m)
	}
	if d := c.t.headTimeout(); d > 0 && now.err == nil {
		c.readBy(time.Now().Add(d))
	}
	resp, begun, err := c.readHead(req)
	if err != nil {
		along := c.writer != nil
		w := c.finish(false)
		if !along {
			w = now
		}
		if w.err != nil && !errors.Is(w.err, net.ErrClosed) {
			err = w.err
		}
		return nil, c.used && !begun && (!w.sent || m.repeatable), err
	}
	c.begin(now.err != nil || c.writer != nil || c.t.headTimeout() > 0)
	again = now.err == nil && !resp.Close && resp.StatusCode != http.StatusSwitchingProtocols
	if resp.Body == http.NoBody {
		c.finish(again)
		return resp, false, nil
	}
	resp.Body = &body{of: resp.Body, c: c, ctx: ctx, again: again}
	return resp, false, nil
}

// writeAlong writes a message in a goroutine, for which finish waits.
func (c *conn) writeAlong(m *message) {
	done := make(chan written, 1)
	c.writer = done
	// The message of the caller is free before the goroutine ends if the response comes early.
	own := newMessage()
	own.buf, own.rest, own.length = append(own.buf[:0], m.buf...), m.rest, m.length
	m.rest = nil
	go func() {
		w := own.write(c.nc)
		own.release()
		if w.err != nil {
			c.readBy(time.Now().Add(earlyWait))
		}
		done <- w
	}()
}

// readHead reads the head of the response, after the heads of interim responses. begun says whether
// a byte of it has arrived.
func (c *conn) readHead(req *http.Request) (resp *http.Response, begun bool, err error) {
	c.limit = cmp.Or(c.t.base.MaxResponseHeaderBytes, maxHead)
	if _, err := c.in.Peek(1); err != nil {
		return nil, false, fmt.Errorf("no response: %w", err)
	}
	for {
		resp, err := http.ReadResponse(c.in, req)
		if err != nil {
			return nil, true, fmt.Errorf("the response cannot be read: %w", err)
		}
		if code := resp.StatusCode; code < 100 || code > 199 || code == http.StatusSwitchingProtocols {
			c.limit = math.MaxInt64
			return resp, true, nil
		}
	}
}

// finish ends a request. The connection becomes idle if again is set and nothing is left on it; else
// it is closed. finish waits for the goroutine of writeAlong and returns its result.
func (c *conn) finish(again bool) (w written) {
	if c.stop != nil {
		if !c.stop() {
			again = false
			c.under.Close() // first: the end of TLS is a message, and a server that reads nothing holds it up for seconds
		}
		c.stop = nil
	}
	if c.writer != nil {
		select {
		case w = <-c.writer:
		default:
			c.nc.Close()
			w = <-c.writer
			again = false
		}
		again = again && w.err == nil
	}
	if !again || c.probe == nil || c.in.Buffered() > 0 {
		c.nc.Close()
		return w
	}
	c.writer = nil
	c.t.idle.put(c)
	return w
}
