package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// patience bounds every wait for an answer.
const patience = 20 * time.Second

// conn is a keep-alive HTTP/1.1 connection that reads no more of a response than it has to: a
// generator that shares two cores with the measured program must not be measured itself.
type conn struct {
	tcp  net.Conn
	in   *bufio.Reader
	body []byte // of the last response
}

func dial(ctx context.Context, host string) (*conn, error) {
	d := net.Dialer{Timeout: 5 * time.Second}
	tcp, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &conn{tcp: tcp, in: bufio.NewReaderSize(tcp, 16<<10)}, nil
}

func (c *conn) close() { _ = c.tcp.Close() }

// roundTrip sends a request and reads the response into c.body.
func (c *conn) roundTrip(request []byte) (status int, session string, err error) {
	if _, err := c.tcp.Write(request); err != nil {
		return 0, "", err
	}
	line, err := c.in.ReadSlice('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 12 {
		return 0, "", fmt.Errorf("no status line: %q", line)
	}
	if status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return 0, "", fmt.Errorf("no status line: %q", line)
	}
	length, chunked := -1, false
	for {
		if line, err = c.in.ReadSlice('\n'); err != nil {
			return 0, "", err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			break
		}
		switch value, name := line, line[0]|0x20; {
		case name == 'c' && headerIs(&value, "content-length:"):
			if length, err = strconv.Atoi(string(value)); err != nil || length > maxMessage {
				return 0, "", fmt.Errorf("bad header: %q", line)
			}
		case name == 't' && headerIs(&value, "transfer-encoding:"):
			chunked = true
		case name == 'm' && headerIs(&value, "mcp-session-id:"):
			session = string(value)
		}
	}
	c.body = c.body[:0]
	switch {
	case chunked:
		return status, session, c.readChunks()
	case length > 0:
		return status, session, c.readMore(length)
	case length < 0 && status != http.StatusAccepted && status != http.StatusNoContent:
		return 0, "", errors.New("a response of unknown length")
	}
	return status, session, nil
}

// headerIs reports whether a line is of the header with this lower-case name,
// and cuts it down to its value.
func headerIs(line *[]byte, name string) bool {
	if len(*line) < len(name) || !bytes.EqualFold((*line)[:len(name)], []byte(name)) {
		return false
	}
	*line = bytes.TrimSpace((*line)[len(name):])
	return true
}

func (c *conn) readMore(n int) error {
	at := len(c.body)
	if cap(c.body)-at < n {
		c.body = append(make([]byte, 0, 2*(at+n)), c.body...)
	}
	c.body = c.body[:at+n]
	_, err := io.ReadFull(c.in, c.body[at:])
	return err
}

func (c *conn) readChunks() error {
	for {
		line, err := c.in.ReadSlice('\n')
		if err != nil {
			return err
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil || n < 0 || len(c.body)+int(n) > maxMessage {
			return fmt.Errorf("bad chunk size: %q", line)
		}
		if n > 0 {
			if err := c.readMore(int(n)); err != nil {
				return err
			}
		}
		if _, err := c.in.Discard(2); err != nil || n == 0 {
			return err
		}
	}
}

// endpoint is where a system takes calls, and how they look there.
type endpoint struct {
	host, path string
	modern     bool
	session    bool // a legacy handshake comes first
}

// request is the bytes of a POST.
func (e endpoint) request(session string, header []string, body []byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n", e.path, e.host)
	version := legacyVersion
	if e.modern {
		version = modernVersion
	}
	fmt.Fprintf(&b, "Mcp-Protocol-Version: %s\r\n", version)
	if session != "" {
		fmt.Fprintf(&b, "Mcp-Session-Id: %s\r\n", session)
	}
	for _, h := range header {
		b.WriteString(h + "\r\n")
	}
	fmt.Fprintf(&b, "Content-Length: %d\r\n\r\n", len(body))
	b.Write(body)
	return b.Bytes()
}

// firstID has as many digits as the last id that a caller will reach, so that
// requests and answers never change their length.
const firstID = 1_000_000_000

// firstNonce stands in arguments that are to be new in every call. Each caller
// counts from there on, nonceStep apart from the next one.
const (
	firstNonce = 100_000_000_000
	nonceStep  = 100_000_000
)

// call is the bytes of a tools/call.
func (e endpoint) call(session, tool, arguments string) []byte {
	params := fmt.Sprintf(`{"name":%q,"arguments":%s`, tool, arguments)
	var header []string
	if e.modern {
		params += `,"_meta":{"io.modelcontextprotocol/protocolVersion":"` + modernVersion + `","io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}`
		header = []string{"Mcp-Method: tools/call", "Mcp-Name: " + tool}
	}
	return e.request(session, header, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}}`, firstID, params))
}

// handshake makes the session of a connection.
func (e endpoint) handshake(c *conn) (session string, err error) {
	if !e.session {
		return "", nil
	}
	hello := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`, legacyVersion)
	status, session, err := c.roundTrip(e.request("", nil, []byte(hello)))
	if err == nil && (status != http.StatusOK || !bytes.Contains(c.body, []byte(`"result"`))) {
		err = fmt.Errorf("initialize: HTTP %d: %.300s", status, c.body)
	}
	if err != nil {
		return "", err
	}
	status, _, err = c.roundTrip(e.request(session, nil, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)))
	if err == nil && status != http.StatusAccepted {
		err = fmt.Errorf("notifications/initialized: HTTP %d: %.300s", status, c.body)
	}
	return session, err
}

// caller is one client that sends a call as soon as it has the answer to the
// one before.
type caller struct {
	*conn
	requests [][]byte // in turns
	idAt     []int    // where the id stands in each
	nonceAt  []int    // where the nonce stands, -1 where there is none
	nonce    int
	id       int
	payload  []byte // the text that each answer has to hold; nil: any answer that is no error
	payAt    int
}

// firstCalls is how many calls a new caller makes at most. A caller of thousands of tools that called
// each of them would let the callers before it wait until the gateway closes their connections.
const firstCalls = 16

// newCaller connects to e and makes first calls, so that everything on the way is there and its
// answer is known. n distinguishes callers of one system.
func newCaller(ctx context.Context, e endpoint, calls []func(session string) []byte, payload []byte, n int) (*caller, error) {
	c, err := dial(ctx, e.host)
	if err != nil {
		return nil, err
	}
	_ = c.tcp.SetDeadline(time.Now().Add(patience))
	session, err := e.handshake(c)
	if err != nil {
		c.close()
		return nil, err
	}
	cl := &caller{conn: c, payload: payload, id: firstID, nonce: firstNonce + n*nonceStep, payAt: -1}
	for _, call := range calls {
		r := call(session)
		cl.requests = append(cl.requests, r)
		cl.idAt = append(cl.idAt, bytes.Index(r, strconv.AppendInt(nil, firstID, 10)))
		cl.nonceAt = append(cl.nonceAt, bytes.Index(r, strconv.AppendInt(nil, firstNonce, 10)))
	}
	for range min(len(cl.requests), firstCalls) {
		if err := cl.call(); err != nil {
			c.close()
			return nil, err
		}
	}
	return cl, nil
}

// call makes one call and checks the answer.
func (c *caller) call() error {
	n := c.id % len(c.requests)
	r := c.requests[n]
	c.id++
	var digits [20]byte
	id := strconv.AppendInt(digits[:0], int64(c.id), 10)
	copy(r[c.idAt[n]:], id)
	if at := c.nonceAt[n]; at >= 0 {
		c.nonce++
		var nonce [20]byte
		copy(r[at:], strconv.AppendInt(nonce[:0], int64(c.nonce), 10))
	}
	status, _, err := c.roundTrip(r)
	if err != nil {
		return err
	}
	if status != http.StatusOK || !bytes.Contains(c.body[:min(len(c.body), 128)], id) && !bytes.Contains(c.body[max(0, len(c.body)-128):], id) {
		return c.wrong(status)
	}
	if c.payload == nil {
		if bytes.Contains(c.body, []byte(`"isError":true`)) || bytes.Contains(c.body, []byte(`"error":`)) {
			return c.wrong(status)
		}
		return nil
	}
	if c.payAt < 0 {
		c.payAt = bytes.Index(c.body, c.payload)
	}
	if c.payAt < 0 || len(c.body) < c.payAt+len(c.payload) || !bytes.Equal(c.body[c.payAt:c.payAt+len(c.payload)], c.payload) {
		return c.wrong(status)
	}
	return nil
}

func (c *caller) wrong(status int) error {
	return fmt.Errorf("wrong answer: HTTP %d: %.400s", status, strings.ToValidUTF8(string(c.body), "?"))
}
