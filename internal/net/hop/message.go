package hop

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

const (
	// oneWrite is the size up to which the head and the body of a request are one write, in the
	// goroutine of the caller. The buffers of two sockets hold as much, so the write ends although
	// the server may not read yet. A larger body is written by a second goroutine, because a server
	// may answer before it has read it.
	oneWrite = 32 << 10
	// maxKept is the size of the largest buffer that is reused.
	maxKept = 2 * oneWrite
)

// message is a request as it is written.
type message struct {
	buf        []byte        // the head, and the body if it is small
	rest       io.ReadCloser // the body if it is large
	length     int64         // of rest
	repeatable bool          // the server may see the request twice
}

var messages = sync.Pool{New: func() any { return &message{buf: make([]byte, 0, 4<<10)} }}

func newMessage() *message { return messages.Get().(*message) }

// release makes the message free for another request.
func (m *message) release() {
	if cap(m.buf) <= maxKept {
		*m = message{buf: m.buf[:0]}
		messages.Put(m)
	}
}

// close closes the body of a request that is not sent, or not sent again.
func (m *message) close() {
	if m.rest != nil {
		m.rest.Close()
		m.rest = nil
	}
}

// head appends the request line and the headers as net/http writes them. It returns false for a
// request that net/http changes or refuses.
func (m *message) head(req *http.Request) bool {
	method, uri, host := req.Method, req.URL.RequestURI(), req.Host
	if method == "" {
		method = http.MethodGet
	}
	if host == "" {
		host = req.URL.Host
	}
	if !allOf(method, tokenByte) || !allOf(uri, visibleByte) || !allOf(host, hostByte) || !allOf(req.URL.Host, hostByte) {
		return false
	}
	b := append(append(append(m.buf[:0], method...), ' '), uri...)
	b = append(append(append(b, " HTTP/1.1\r\nHost: "...), host...), "\r\n"...)
	agent := false
	for k, values := range req.Header {
		switch k {
		case "Host", "Content-Length":
			continue
		case "Connection", "Upgrade", "Expect", "Te", "Trailer", "Transfer-Encoding":
			return false
		case "Idempotency-Key", "X-Idempotency-Key":
			m.repeatable = true
		case "User-Agent":
			agent = true
			if len(values) > 1 {
				values = values[:1]
			}
			if len(values) == 0 || values[0] == "" {
				continue
			}
		}
		if !allOf(k, tokenByte) {
			return false
		}
		for _, v := range values {
			if !plainValue(v) {
				return false
			}
			b = append(append(b, k...), ": "...)
			b = append(append(b, strings.Trim(v, " \t")...), "\r\n"...)
		}
	}
	if !agent {
		b = append(b, "User-Agent: Go-http-client/1.1\r\n"...)
	}
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		m.repeatable = true
	}
	if req.ContentLength > 0 || method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch {
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), req.ContentLength, 10), "\r\n"...)
	}
	m.buf = append(b, "\r\n"...)
	return true
}

// take takes the body of a request: a small one is read now.
func (m *message) take(req *http.Request) error {
	if req.ContentLength == 0 {
		return nil
	}
	if int64(len(m.buf))+req.ContentLength > oneWrite {
		m.rest, m.length = req.Body, req.ContentLength
		return nil
	}
	defer req.Body.Close()
	head := len(m.buf)
	m.buf = append(m.buf, make([]byte, req.ContentLength)...)
	if b, ok := req.Body.(inMemory); ok && int64(b.Len()) == req.ContentLength { // it has no more bytes
		_, err := io.ReadFull(req.Body, m.buf[head:])
		return err
	}
	if n, err := io.ReadFull(req.Body, m.buf[head:]); err != nil {
		return shortBody(req.ContentLength, int64(n), err)
	}
	return atEnd(req.Body, req.ContentLength)
}

// rewind makes the message ready to be sent once more, or returns false.
func (m *message) rewind(req *http.Request) bool {
	if m.length == 0 {
		return true
	}
	if req.GetBody == nil {
		return false
	}
	body, err := req.GetBody()
	if err != nil {
		return false
	}
	m.rest = body
	return true
}

// inMemory is a body that need not be copied before it is written. Len returns the bytes that WriteTo
// will write.
type inMemory interface {
	io.WriterTo
	Len() int
}

// write writes the message and closes its body.
func (m *message) write(w io.Writer) written {
	n, err := w.Write(m.buf)
	if m.rest == nil || err != nil {
		m.close()
		return written{n > 0, err}
	}
	defer m.close()
	if body, ok := m.rest.(inMemory); ok && int64(body.Len()) == m.length {
		_, err := body.WriteTo(w)
		return written{true, err}
	}
	buf := newMessage()
	defer buf.release()
	if cap(buf.buf) < oneWrite {
		buf.buf = make([]byte, oneWrite)
	}
	piece := buf.buf[:oneWrite]
	for left := m.length; left > 0; {
		n, err := io.ReadFull(m.rest, piece[:min(left, int64(len(piece)))])
		if err != nil {
			return written{true, shortBody(m.length, m.length-left+int64(n), err)}
		}
		if _, err := w.Write(piece[:n]); err != nil {
			return written{true, err}
		}
		left -= int64(n)
	}
	return written{true, atEnd(m.rest, m.length)}
}

// written is the result of message.write.
type written struct {
	sent bool // at least one byte was written
	err  error
}

func shortBody(want, got int64, err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the request's body has %d bytes, and its ContentLength is %d", got, want)
	}
	return err
}

// atEnd returns an error if a body has more than the bytes that were read.
func atEnd(body io.Reader, length int64) error {
	var one [1]byte
	switch n, err := io.ReadFull(body, one[:]); {
	case n > 0:
		return fmt.Errorf("the request's body has more bytes than its ContentLength of %d", length)
	case err != io.EOF:
		return err
	}
	return nil
}

// Classes of bytes in a head.
const (
	tokenByte   = 1 << iota // names of headers and methods (RFC 9110 §5.6.2)
	visibleByte             // request targets
	hostByte                // names and addresses with a port
)

var classes = func() (table [256]uint8) {
	for c := byte('!'); c <= '~'; c++ {
		table[c] |= visibleByte
		alphanumeric := '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if alphanumeric || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			table[c] |= tokenByte
		}
		if alphanumeric || strings.IndexByte("-._:[]", c) >= 0 {
			table[c] |= hostByte
		}
	}
	return table
}()

// allOf reports whether a text is not empty and has bytes of one class only.
func allOf(s string, class uint8) bool {
	for i := range len(s) {
		if classes[s[i]]&class == 0 {
			return false
		}
	}
	return s != ""
}

// plainValue reports whether a value of a header has no control characters other than tabs.
func plainValue(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
