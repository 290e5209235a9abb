package link

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"

	"github.com/weir-mcp/weir/internal/store"
)

// A frame is a kind, its length in three bytes, and the rest. On a connection for exchanges:
//
//	request  method target host lines body
//	whole    status lines body     a response
//	head     status lines body     its start
//	data     body                  more of it
//	last     body                  its end
//	bye                            the server ends the connection and has not run the request
//
// On a connection for messages:
//
//	tell    subject header body
//	ask     number subject header body
//	answer  number header body
//	absent  number                  the subject has no listener
//
// A number is an unsigned varint. A text is its length as a number, and its bytes. A status has two bytes. Lines are
// their count in two bytes, then name and value of each. A header is the number of its names, then name and value of
// each. A body is the rest.
const (
	kindRequest = iota + 1
	kindWhole
	kindHead
	kindData
	kindLast
	kindBye
	kindTell
	kindAsk
	kindAnswer
	kindAbsent
)

const (
	// frameHead is the length of kind and length.
	frameHead = 4
	// MaxBody bounds the body of a request.
	MaxBody = 64 << 10
	// maxFrame bounds a frame of an exchange: a body, and headers of the size that a server of this program takes.
	maxFrame = MaxBody + 256<<10
	// maxMessage bounds a frame of a message: the largest body, and the rest.
	maxMessage = store.MaxMessage + 64<<10
	// maxOut is the size from which the body of a response goes out before its end.
	maxOut = 32 << 10
	// keepBuffer bounds the buffers that are kept for the next exchange.
	keepBuffer = 64 << 10
	// readBuffer is the first size of the buffer of a connection.
	readBuffer = 4 << 10
)

var errFrame = errors.New("a frame of another node cannot be read")

// begin appends the head of a frame, whose length is set by end.
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

// head is the start of a request or of a response.
type head struct {
	method, target, host string
	status               int
	header               http.Header
}

// readHead reads what follows a frameHead, and returns the body.
func readHead(kind byte, b []byte, m *memo) (h head, body []byte, err error) {
	r := reader{b: b, m: m}
	if kind == kindRequest {
		h.method, h.target, h.host = r.known("\x00method"), r.known("\x00target"), r.known("\x00host")
	} else {
		h.status = r.short()
	}
	h.header = r.lines()
	if r.failed || kind == kindRequest && h.method == "" || kind != kindRequest && (h.status < 200 || h.status > 999) {
		return head{}, nil, errFrame
	}
	return h, r.b, nil
}

// inbound reads the frames of a connection.
type inbound struct {
	nc   net.Conn
	in   []byte // the bytes that were read
	r, w int    // in[r:w] is not taken yet
}

// fill reads until n bytes are there that are not taken.
func (x *inbound) fill(n int) error {
	if x.r == x.w {
		x.r, x.w = 0, 0
	}
	if len(x.in)-x.r < n {
		in := x.in
		if len(in) < n {
			in = make([]byte, max(n, readBuffer))
		}
		x.w = copy(in, x.in[x.r:x.w])
		x.in, x.r = in, 0
	}
	for x.w-x.r < n {
		got, err := x.nc.Read(x.in[x.w:])
		x.w += got
		if err != nil && x.w-x.r < n {
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// next takes the head of a frame, and returns its kind and the length of the rest, which is at most limit.
func (x *inbound) next(limit int) (kind byte, n int, err error) {
	if err := x.fill(frameHead); err != nil {
		return 0, 0, err
	}
	b := x.in[x.r:]
	x.r += frameHead
	if n = size(b); n > limit {
		return 0, 0, errFrame
	}
	return b[0], n, nil
}

// take returns a copy of the next n bytes, which belongs to the caller.
func (x *inbound) take(n int) ([]byte, error) {
	b := make([]byte, n)
	had := copy(b, x.in[x.r:x.w])
	x.r += had
	_, err := io.ReadFull(x.nc, b[had:])
	return b, err
}

// reader reads the rest of a frame.
type reader struct {
	b      []byte
	m      *memo // of a connection for exchanges
	failed bool
}

func (r *reader) number() uint64 {
	n, size := binary.Uvarint(r.b)
	if size <= 0 {
		r.failed, r.b = true, nil
		return 0
	}
	r.b = r.b[size:]
	return n
}

func (r *reader) bytes() []byte {
	n := r.number()
	if n > uint64(len(r.b)) {
		r.failed, r.b = true, nil
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

// known reads a text that often is the one under the same name before.
func (r *reader) known(name string) string { return r.m.line([]byte(name)).take(r.bytes()) }

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

func (r *reader) header() store.Header {
	n := r.number()
	if n == 0 {
		return nil
	}
	if n > uint64(len(r.b))/2 {
		r.failed = true
		return nil
	}
	// One copy has all names and values: each of them by itself would be an allocation.
	start := r.b
	for range 2 * n {
		r.bytes()
	}
	if r.failed {
		return nil
	}
	all, left := string(start[:len(start)-len(r.b)]), start
	text := func() string {
		size, bytes := binary.Uvarint(left)
		out := all[bytes : bytes+int(size)]
		left, all = left[bytes+int(size):], all[bytes+int(size):]
		return out
	}
	h := make(store.Header, n)
	for i := range h {
		h[i] = [2]string{text(), text()}
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
