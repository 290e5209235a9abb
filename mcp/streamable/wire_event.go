package streamable

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// Event is one server-sent event.
type Event struct {
	// ID is the event's id, "" if it has none.
	ID string
	// Name is the event's type, "" for the default "message".
	Name string
	// Data is the payload. Nil means that the event has no data line. Empty means the priming event
	// of 2025-11-25, which only has an id.
	Data []byte
	// Block replaces Data if the payload is large and the reader counts bytes. The caller of Next
	// releases it.
	Block *memory.Block
	// Retry is how long the client should wait before it connects again. It is valid only if
	// HasRetry is set, because zero is a value.
	Retry    time.Duration
	HasRetry bool
	// Truncated says that the stream ended before the blank line that should end the event. The SSE
	// standard drops such an event. A caller may use it if the data is complete by itself.
	Truncated bool
}

// AppendEvent appends the event in wire format, with the blank line at its end. Every CR, LF and
// CRLF in Data starts a new data line, so raw newlines between a message's tokens cannot break the
// frame. CR, LF and NUL are omitted from ID and Name.
func AppendEvent(dst []byte, e Event) []byte {
	if e.Name != "" {
		dst = appendField(dst, "event: ", e.Name)
	}
	if e.ID != "" {
		dst = appendField(dst, "id: ", e.ID)
	}
	if e.HasRetry {
		dst = append(dst, "retry: "...)
		dst = strconv.AppendInt(dst, max(0, e.Retry.Milliseconds()), 10)
		dst = append(dst, '\n')
	}
	if e.Data != nil {
		dst = appendData(dst, e.Data)
	}
	return append(dst, '\n')
}

func appendData(dst, data []byte) []byte {
	for more := true; more; {
		var line []byte
		line, data, more = cutLine(data)
		dst = append(append(append(dst, "data: "...), line...), '\n')
	}
	return dst
}

// cutLine returns the first line of data, and what is behind its CR, LF or CRLF. more is false if there is none.
func cutLine(data []byte) (line, rest []byte, more bool) {
	n := bytes.IndexByte(data, '\n')
	if cr := bytes.IndexByte(data[:max(n, 0)], '\r'); cr >= 0 {
		n = cr
	} else if n < 0 {
		n = bytes.IndexByte(data, '\r')
	}
	if n < 0 {
		return data, nil, false
	}
	line = data[:n]
	if data[n] == '\r' && n+1 < len(data) && data[n+1] == '\n' {
		n++
	}
	return line, data[n+1:], true
}

func appendField(dst []byte, field, value string) []byte {
	dst = append(dst, field...)
	for i := range len(value) {
		if c := value[i]; c != '\r' && c != '\n' && c != 0 {
			dst = append(dst, c)
		}
	}
	return append(dst, '\n')
}

// AppendComment appends a comment, which keeps a connection alive and which readers ignore.
func AppendComment(dst []byte, text string) []byte {
	dst = appendField(dst, ": ", text)
	return append(dst, '\n')
}

// ErrEventTooLarge is returned for an event over the reader's bound.
var ErrEventTooLarge = errors.New("server-sent event over the bound")

const (
	readBuffer = 4 << 10
	// consecutive reads without data or an error
	maxEmptyReads = 100
)

// EventReader reads server-sent events as the WHATWG standard defines them: lines end in CR, LF or
// CRLF, data lines are joined with LF, comments and unknown fields are skipped, a byte order mark
// at the start is dropped. It is not safe for concurrent use.
type EventReader struct {
	r        io.Reader
	max      int
	buf      []byte // read but not parsed: buf[pos:end]
	pos, end int
	line     []byte // the start of a line that spans reads
	skipLF   bool   // the last line ended in CR
	began    bool   // the byte order mark has been checked
	err      error

	ev   Event
	some bool // ev has a field

	// Fields of a reader that counts:
	room  *memory.Account
	ctx   context.Context
	large *memory.Buffer // the data of ev, if it is large
	into  bool           // the current line is data for large
	skip  int            // skipped bytes of a long line that is not data; 0: there is none
}

// Count makes the reader count large events in room and receive them into files. ctx bounds the
// wait for room. It must be called before the first Next.
func (r *EventReader) Count(ctx context.Context, room *memory.Account) { r.ctx, r.room = ctx, room }

// NewEventReader returns a reader of the events in r. For an event or a line of more than maxEvent
// bytes Next returns ErrEventTooLarge.
func NewEventReader(r io.Reader, maxEvent int) *EventReader {
	return &EventReader{r: r, max: maxEvent, buf: make([]byte, readBuffer)}
}

// Next returns the next event that has an id, a retry time or data. Its Data belongs to the caller.
// At the end of the stream it returns io.EOF. After an error it returns the same error again.
func (r *EventReader) Next() (Event, error) {
	for {
		if r.err != nil {
			return r.ended()
		}
		if r.pos == r.end {
			r.fill()
			continue
		}
		if r.skipLF {
			r.skipLF = false
			if r.buf[r.pos] == '\n' {
				r.pos++
				continue
			}
		}
		chunk := r.buf[r.pos:r.end]
		n := bytes.IndexByte(chunk, '\n')
		upto := chunk
		if n >= 0 {
			upto = chunk[:n]
		}
		if cr := bytes.IndexByte(upto, '\r'); cr >= 0 {
			n = cr
			r.skipLF = true
		}
		if n < 0 {
			r.pos = r.end
			r.more(chunk)
			continue
		}
		r.pos += n + 1
		if r.size()+n > r.max {
			r.err = ErrEventTooLarge
			continue
		}
		if r.into || r.skip > 0 {
			if r.into {
				r.write(chunk[:n])
			}
			r.endLarge()
			continue
		}
		if len(r.line) == 0 {
			r.field(chunk[:n], false)
			if n > 0 {
				continue
			}
		} else {
			line := append(r.line, chunk[:n]...)
			// The bytes may become the event's data, so do not reuse them.
			r.line = nil
			r.field(line, true)
			continue
		}
		if ev, ok := r.take(); ok {
			return ev, nil
		}
	}
}

// size returns the number of bytes of the current event.
func (r *EventReader) size() int {
	n := len(r.line) + len(r.ev.Data) + r.skip
	if r.large != nil {
		n += int(r.large.Len())
	}
	return n
}

// more handles a piece of a line whose end has not arrived.
func (r *EventReader) more(piece []byte) {
	switch {
	case r.size()+len(piece) > r.max:
		r.err = ErrEventTooLarge
	case r.into:
		r.write(piece)
	case r.skip > 0:
		r.skip += len(piece)
	default:
		if r.line = append(r.line, piece...); r.room != nil && len(r.line) > memory.Free {
			r.beginLarge()
		}
	}
}

// beginLarge redirects the rest of a long line to a Buffer.
func (r *EventReader) beginLarge() {
	line := r.line
	r.line = nil
	value, isData := bytes.CutPrefix(line, []byte("data:"))
	if !isData { // a comment, or a field that cannot be that long
		r.skip = len(line)
		return
	}
	r.into = true
	r.join()
	r.write(bytes.TrimPrefix(value, []byte{' '}))
}

// join sends the next data to large, after the data of earlier lines.
func (r *EventReader) join() {
	if r.large == nil {
		r.large = r.room.NewBuffer(r.ctx, int64(r.max))
		if r.ev.Data == nil {
			return
		}
		r.write(r.ev.Data)
		r.ev.Data = nil
	}
	r.write([]byte{'\n'})
}

func (r *EventReader) write(p []byte) {
	if r.err != nil {
		return
	}
	if _, err := r.large.Write(p); errors.Is(err, memory.ErrTooLarge) {
		r.err = ErrEventTooLarge
	} else if err != nil {
		r.err = err
	}
}

// endLarge ends a long line.
func (r *EventReader) endLarge() {
	r.some = r.some || r.into
	r.into, r.skip = false, 0
}

// ended handles the end of the stream. An event that lacks only its blank line is returned as
// Truncated.
func (r *EventReader) ended() (Event, error) {
	if r.err == io.EOF && (r.into || r.skip > 0) {
		r.endLarge()
	}
	if r.err == io.EOF && len(r.line) == 0 && r.some {
		if ev, ok := r.take(); ok {
			ev.Truncated = true
			return ev, nil
		}
	}
	if r.err == io.EOF && len(r.line) > 0 {
		line := r.line
		r.line = nil
		r.field(line, true)
		return r.ended()
	}
	r.line, r.ev, r.some = nil, Event{}, false
	if r.large != nil {
		r.large.Drop()
		r.large = nil
	}
	return Event{}, r.err
}

func (r *EventReader) take() (Event, bool) {
	ev, some := r.ev, r.some
	r.ev, r.some = Event{}, false
	if r.large != nil {
		var err error
		ev.Block, err = r.large.Block()
		if r.large = nil; err != nil {
			r.err = err
			return Event{}, false
		}
	}
	return ev, some
}

func (r *EventReader) fill() {
	r.pos, r.end = 0, 0
	for range maxEmptyReads {
		n, err := r.r.Read(r.buf[r.end:])
		r.end += n
		if err != nil {
			// Parse the bytes first. The next Read returns the error again; otherwise store it
			// here.
			if n == 0 {
				r.err = err
			} else {
				r.r = failed{err}
			}
		}
		if !r.began && err == nil && r.end < 3 && bytes.HasPrefix(bom, r.buf[:r.end]) {
			continue
		}
		if r.end > 0 || err != nil {
			if !r.began {
				r.began = true
				r.pos = len(r.buf[:r.end]) - len(bytes.TrimPrefix(r.buf[:r.end], bom))
			}
			return
		}
	}
	if r.end == 0 {
		r.err = io.ErrNoProgress
	}
}

var bom = []byte("\xef\xbb\xbf")

type failed struct{ err error }

func (f failed) Read([]byte) (int, error) { return 0, f.err }

// field handles one line without its end. owned says that the line is not part of the buffer and
// may be kept.
func (r *EventReader) field(line []byte, owned bool) {
	name, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(name) {
	case "data":
		switch {
		case r.large != nil:
			r.join()
			r.write(value)
		case r.ev.Data != nil:
			r.ev.Data = append(append(r.ev.Data, '\n'), value...)
		case owned:
			r.ev.Data = value[:len(value):len(value)]
			if r.ev.Data == nil {
				r.ev.Data = []byte{}
			}
		default:
			r.ev.Data = append(make([]byte, 0, len(value)), value...)
		}
		r.some = true
	case "id":
		if bytes.IndexByte(value, 0) < 0 && len(value) > 0 {
			r.ev.ID = string(value)
			r.some = true
		}
	case "event":
		r.ev.Name = string(value)
	case "retry":
		if ms, ok := digits(value); ok {
			r.ev.Retry, r.ev.HasRetry = time.Duration(ms)*time.Millisecond, true
			r.some = true
		}
	}
}

// maxRetry bounds a retry time, so that it fits a Duration and a server cannot stop its client for
// good.
const maxRetry = int64(time.Hour / time.Millisecond)

func digits(b []byte) (int64, bool) {
	if len(b) == 0 || strings.Trim(string(b), "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(string(b), 10, 64)
	if err != nil {
		n = maxRetry
	}
	return min(n, maxRetry), true
}
