package passthrough

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

const (
	// wholeResponse is the size up to which a response is read completely before any of it is sent.
	// If it breaks off, the agent can still get the reason.
	wholeResponse = 256 << 10
	// copyBuffer is the size of the pieces in which longer ones are copied.
	copyBuffer = 64 << 10
	// slowWrite is the size from which a write has a deadline. Smaller ones fit the socket's
	// buffer.
	slowWrite = 64 << 10
)

// resultHead is the number of bytes of a response that are searched for the content of a result.
const resultHead = 1 << 10

// respond gives the agent the upstream's response.
func (x *exchange) respond(resp *http.Response) {
	if mediaType(resp.Header) == streamable.ContentSSE && resp.StatusCode == http.StatusOK {
		x.respondStream(resp)
		return
	}
	if resp.ContentLength > x.fw.o.MaxResponse {
		x.fail(mcp.Errorf(mcp.KindUpstreamProtocol, "the response of upstream %q has %d bytes, more than the bound of %d", x.f.name, resp.ContentLength, x.fw.o.MaxResponse))
		return
	}
	buf := getBody()
	defer buf.release()
	asText(resp)
	whole, err := readStart(resp, buf)
	if err != nil {
		x.fail(err)
		return
	}
	if whole && x.e.id != "" {
		if len(buf.buf) == 0 {
			x.refuse(resp, x.noAnswer(resp))
			return
		}
		if err := x.mend(resp, buf); err != nil {
			x.refuse(resp, err)
			return
		}
		x.trace.Read(buf.buf)
	}
	x.heard(resp, buf.buf, whole)
	h := x.w.Header()
	copyResponseHeader(h, resp.Header)
	switch {
	case !whole: // the rest may be longer as UTF-8
		delete(h, "Content-Length")
	case resp.ContentLength != int64(len(buf.buf)) && len(buf.buf) > 0:
		h["Content-Length"] = []string{strconv.Itoa(len(buf.buf))}
	}
	rc := http.NewResponseController(x.w)
	if !whole || len(buf.buf) >= slowWrite {
		_ = rc.SetWriteDeadline(time.Now().Add(x.fw.o.WriteTimeout))
		defer func() { _ = rc.SetWriteDeadline(time.Time{}) }()
	}
	if resp.StatusCode != http.StatusOK || len(buf.buf) == 0 {
		x.w.WriteHeader(resp.StatusCode)
	}
	if len(buf.buf) > 0 {
		if _, err := x.w.Write(buf.buf); err != nil {
			x.agentGone = true
			return
		}
	}
	if !whole {
		x.copyRest(resp, buf, rc)
	}
}

// heard shows the records the response, or its start if it is long.
func (x *exchange) heard(resp *http.Response, data []byte, whole bool) {
	switch a := &x.handed.answers; {
	case !a.waits():
	case whole:
		a.message(data)
	default:
		a.add(data)
	}
}

// checkEncoding refuses a response that is compressed although weir has asked for none. weir could
// neither read nor bound it, and a client might unpack more than it can hold.
func (x *exchange) checkEncoding(resp *http.Response) error {
	encoding := resp.Header.Get("Content-Encoding")
	delete(resp.Header, "Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") || resp.ContentLength == 0 {
		return nil
	}
	return mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with the encoding %.80q, and weir asked for none (it sends no Accept-Encoding); its owner should look into that, or a proxy before it", x.who(), clip(x.method()), encoding)
}

// asText makes a response be read as UTF-8: a single invalid byte of an upstream makes many clients
// fail.
func asText(resp *http.Response) {
	resp.Body = struct {
		io.Reader
		io.Closer
	}{streamable.NewTextReader(resp.Body), resp.Body}
}

// mend checks a whole response as far as that is nearly free. Half a message is an error. A tool's
// result that does not start with its content is parsed, and gets an empty content if it has none:
// clients depend on it.
func (x *exchange) mend(resp *http.Response, b *body) error {
	text := bytes.TrimSpace(b.buf)
	if n := len(text); n < 2 || text[0] != '{' && text[0] != '[' || text[n-1] != text[0]+2 { // } and ] in ASCII
		return mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered %s with a message that cannot be read: it breaks off, or is no JSON object", x.who(), clip(x.method()))
	}
	head := text[:min(len(text), resultHead)]
	if x.e.method != "tools/call" || bytes.Contains(head, []byte(`"content"`)) || !bytes.Contains(head, []byte(`"result"`)) {
		return nil
	}
	m, err := jsonrpc.Parse(text)
	if err != nil || m.Result == nil {
		return nil
	}
	if result := mcp.WithContent(m.Result); len(result) != len(m.Result) {
		if mended, err := rawjson.Set(text, "result", result); err == nil {
			b.buf = append(b.buf[:0], mended...)
		}
	}
	return nil
}

// readStart reads a response to its end, or only its start if it is long.
func readStart(resp *http.Response, b *body) (whole bool, err error) {
	want := 2 << 10
	if n := resp.ContentLength; n >= 0 {
		want = int(min(n, wholeResponse)) + 1 // one more, to detect the end
	}
	b.buf = b.buf[:0]
	if cap(b.buf) < want {
		b.buf = make([]byte, 0, want)
	}
	for len(b.buf) < wholeResponse {
		if len(b.buf) == cap(b.buf) {
			b.buf = append(make([]byte, 0, 2*cap(b.buf)), b.buf...)
		}
		n, err := resp.Body.Read(b.buf[len(b.buf):cap(b.buf)])
		b.buf = b.buf[:len(b.buf)+n]
		if err == io.EOF {
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

// copyRest copies the remainder of a long response. If the response breaks off, copyRest breaks the
// agent's connection, because there is no other way to report that.
func (x *exchange) copyRest(resp *http.Response, b *body, rc *http.ResponseController) {
	sent, tooLong := int64(len(b.buf)), false
	buf := b.buf[:min(cap(b.buf), copyBuffer)]
	for {
		n, err := resp.Body.Read(buf)
		if sent += int64(n); sent > x.fw.o.MaxResponse {
			tooLong = true
			err = mcp.Errorf(mcp.KindUpstreamProtocol, "the response of upstream %q has more bytes than the bound of %d", x.f.name, x.fw.o.MaxResponse)
		}
		if n > 0 && !tooLong {
			x.handed.answers.add(buf[:n])
			_ = rc.SetWriteDeadline(time.Now().Add(x.fw.o.WriteTimeout))
			if _, err := x.w.Write(buf[:n]); err != nil {
				x.agentGone = true
				return
			}
		}
		if err == io.EOF {
			x.handed.answers.finish()
			return
		}
		if err != nil {
			if reason := x.ended(err); reason != nil {
				x.fw.o.Logger.Warn("a response broke off", "upstream", x.f.name, "method", x.e.method, "bytes", sent, "err", reason)
			}
			panic(http.ErrAbortHandler)
		}
	}
}

// respondStream copies server-sent events as they arrive. It adds comments during silence. To a
// broken stream that cannot be resumed it adds an error as the response.
func (x *exchange) respondStream(resp *http.Response) {
	asText(resp)
	h := x.w.Header()
	copyResponseHeader(h, resp.Header)
	delete(h, "Content-Length")
	h["X-Accel-Buffering"] = []string{"no"}
	if len(h["Cache-Control"]) == 0 {
		h["Cache-Control"] = []string{"no-cache, no-transform"}
	}
	out := &eventCopier{w: x.w, rc: http.NewResponseController(x.w), timeout: x.fw.o.WriteTimeout, boundary: true}
	// A stream lasts longer than any timeout of the HTTP server for requests.
	_ = out.rc.SetReadDeadline(time.Time{})
	x.w.WriteHeader(resp.StatusCode)
	if !out.write(nil) {
		x.agentGone = true
		return
	}
	out.keepAlive(x.fw.o.KeepAlive)
	defer out.end()
	b := getBody()
	defer b.release()
	if cap(b.buf) < copyBuffer/2 {
		b.buf = make([]byte, copyBuffer/2)
	}
	buf := b.buf[:cap(b.buf)]
	var tail *streamTail
	if x.trace.Traceparent() != "" {
		tail = &streamTail{}
		defer func() { x.trace.Read(tail.response()) }()
	}
	heard := eventData{add: x.handed.answers.add, finish: x.handed.answers.finish}
	reads := x.handed.answers.waits()
	for {
		n, err := resp.Body.Read(buf)
		tail.add(buf[:n])
		if reads {
			heard.feed(buf[:n])
		}
		if n > 0 && !out.write(buf[:n]) {
			x.agentGone = true
			return
		}
		if err == io.EOF {
			return
		}
		if err != nil {
			x.broke(out, err)
			return
		}
	}
}

// broke ends a stream that broke off. A client with event ids can resume the stream (2025-11-25 and
// before), so it must not get an error.
func (x *exchange) broke(out *eventCopier, err error) {
	reason := x.ended(err)
	if reason == nil {
		x.err = nil // the agent is gone, as many are once they have their response
		return
	}
	timedOut := mcp.KindUpstreamTimeout
	k, _ := mcp.KindOf(reason)
	if x.endless && k == mcp.KindShuttingDown && x.r.Method == http.MethodGet {
		return
	}
	if x.e.id == "" || out.ids() && k != timedOut && k != mcp.KindShuttingDown || !out.say(x.e.id, reason) {
		out.end()
		panic(http.ErrAbortHandler)
	}
}

// eventCopier writes a stream of events to an agent.
type eventCopier struct {
	w       http.ResponseWriter
	rc      *http.ResponseController
	timeout time.Duration
	silence time.Duration

	mu       sync.Mutex // guards below
	timer    *time.Timer
	lines    lineScanner
	boundary bool // the last byte sent ended an event
	over     bool
}

// write sends a piece of the stream at once and reports whether the agent is still there.
func (c *eventCopier) write(p []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) > 0 {
		c.lines.scan(p)
		c.boundary = c.lines.blank
	}
	if c.timer != nil {
		c.timer.Reset(c.silence)
	}
	return c.send(p)
}

// send writes p. The caller holds mu.
func (c *eventCopier) send(p []byte) bool {
	if c.over {
		return false
	}
	_ = c.rc.SetWriteDeadline(time.Now().Add(c.timeout))
	if len(p) > 0 {
		if _, err := c.w.Write(p); err != nil {
			return false
		}
	}
	return c.rc.Flush() == nil
}

// keepAlive sends a comment after each silence, between two events only.
func (c *eventCopier) keepAlive(silence time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.silence = silence
	c.timer = time.AfterFunc(silence, c.breathe)
}

func (c *eventCopier) breathe() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	if c.boundary {
		// The copying goroutine notices an agent that is gone.
		_ = c.send(streamable.AppendComment(nil, "keep-alive"))
	}
	c.timer.Reset(c.silence)
}

// end stops the comments. Nothing is written afterwards.
func (c *eventCopier) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over = true
	if c.timer != nil {
		c.timer.Stop()
	}
	_ = c.rc.SetWriteDeadline(time.Time{})
}

// ids reports whether an event so far had an id.
func (c *eventCopier) ids() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines.ids
}

// say sends an error response as an event. It returns false if the stream broke off within an
// event, or the agent is gone.
func (c *eventCopier) say(id jsonrpc.ID, err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	msg := jsonrpc.AppendError(nil, id, mcp.WireError(err, ""))
	return c.boundary && c.send(streamable.AppendEvent(nil, streamable.Event{Name: "message", Data: msg}))
}
