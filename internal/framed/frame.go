package framed

import (
	"encoding/binary"
	"errors"
	"net/http"
)

// A frame is a kind, its length in three bytes, and what follows:
//
//	request  method target host header body
//	whole    status header body    a response
//	head     status header body    its begin
//	data     body                  more of it
//	last     body                  its end
//	bye                            the server ends the connection and has not run the request
//
// A text is its length as an unsigned varint, and its bytes. A status has two bytes. A header is the number of
// its lines in two bytes, then name and value of each. A body is the rest.
const (
	kindRequest = iota + 1
	kindWhole
	kindHead
	kindData
	kindLast
	kindBye
)

const (
	// frameHead is the length of kind and length.
	frameHead = 4
	// MaxBody bounds the body of a request.
	MaxBody = 64 << 10
	// maxFrame bounds a frame: a body, and headers of the size that a server of this program takes.
	maxFrame = MaxBody + 256<<10
	// maxOut is the size from which the body of a response goes out before its end.
	maxOut = 32 << 10
	// keepBuffer bounds the buffers that are kept for the next exchange.
	keepBuffer = 64 << 10
)

var errFrame = errors.New("framed: a frame cannot be read")

// begin appends the begin of a frame, whose length is set by end.
func begin(b []byte, kind byte) []byte { return append(b, kind, 0, 0, 0) }

// end sets the length of the frame that starts at a place of b.
func end(b []byte, at int) {
	size := len(b) - at - frameHead
	b[at+1], b[at+2], b[at+3] = byte(size>>16), byte(size>>8), byte(size)
}

// size returns the length of a frame behind its frameHead.
func size(b []byte) int { return int(b[1])<<16 | int(b[2])<<8 | int(b[3]) }

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendLines appends the lines of a header, and returns their number.
func appendLines(b []byte, h http.Header) ([]byte, int) {
	n := 0
	for name, values := range h {
		for _, v := range values {
			b = appendText(appendText(b, name), v)
			n++
		}
	}
	return b, n
}

// maxHeaderLines is the largest number of lines that a frame can say.
const maxHeaderLines = 1<<16 - 1

// appendRequest appends a request without its body, whose frame is not ended. It returns the number of lines of its
// header, which must be at most maxHeaderLines.
func appendRequest(b []byte, r *http.Request) (out []byte, lines int) {
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	b = appendText(appendText(appendText(begin(b, kindRequest), r.Method), r.URL.RequestURI()), host)
	at := len(b)
	b, n := appendLines(append(b, 0, 0), r.Header)
	binary.BigEndian.PutUint16(b[at:], uint16(n))
	return b, n
}

// head is the begin of a request or of a response.
type head struct {
	method, target, host string
	status               int
	header               http.Header
}

// readHead reads what follows a frameHead, and returns the body.
func readHead(kind byte, b []byte, m *memo) (h head, body []byte, err error) {
	r := reader{b: b, m: m}
	if kind == kindRequest {
		h.method, h.target, h.host = r.text("\x00method"), r.text("\x00target"), r.text("\x00host")
	} else {
		h.status = r.short()
	}
	h.header = r.lines()
	if r.failed || kind == kindRequest && h.method == "" || kind != kindRequest && (h.status < 200 || h.status > 999) {
		return head{}, nil, errFrame
	}
	return h, r.b, nil
}

// reader reads a frame.
type reader struct {
	b      []byte
	m      *memo
	failed bool
}

func (r *reader) bytes() []byte {
	n, size := binary.Uvarint(r.b)
	if size <= 0 || n > uint64(len(r.b)-size) {
		r.failed, r.b = true, nil
		return nil
	}
	out := r.b[size : size+int(n)]
	r.b = r.b[size+int(n):]
	return out
}

// text reads a text that often is the one under the same name before.
func (r *reader) text(name string) string { return r.m.line([]byte(name)).take(r.bytes()) }

func (r *reader) short() int {
	if len(r.b) < 2 {
		r.failed, r.b = true, nil
		return 0
	}
	n := int(binary.BigEndian.Uint16(r.b))
	r.b = r.b[2:]
	return n
}

func (r *reader) lines() http.Header {
	n := r.short()
	if n > len(r.b)/2 { // each has two lengths
		r.failed = true
		return nil
	}
	h := make(http.Header, n)
	all := make([]string, n)
	for i := range n {
		l := r.m.line(r.bytes())
		all[i] = l.take(r.bytes())
		if before, more := h[l.name]; more {
			h[l.name] = append(before, all[i])
			continue
		}
		h[l.name] = all[i : i+1 : i+1]
	}
	return h
}

// Bounds of a memo.
const (
	maxLines = 48
	maxValue = 1 << 10
)

// memo has the texts of the last exchange of a connection. The next one has most of them as well, so they
// need not be allocated again.
type memo struct{ lines map[string]*line }

// line is a name of a header with its last value.
type line struct {
	name, value string
	kept        bool
}

// line returns the line of a name.
func (m *memo) line(name []byte) *line {
	if l := m.lines[string(name)]; l != nil {
		return l
	}
	l := &line{name: string(name)}
	if len(m.lines) < maxLines && len(name) <= maxValue {
		if m.lines == nil {
			m.lines = map[string]*line{}
		}
		m.lines[l.name], l.kept = l, true
	}
	return l
}

// take returns a value as a string.
func (l *line) take(b []byte) string {
	if l.value == string(b) {
		return l.value
	}
	v := string(b)
	if l.kept && len(v) <= maxValue {
		l.value = v
	}
	return v
}
