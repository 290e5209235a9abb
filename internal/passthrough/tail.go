package passthrough

import (
	"bytes"

	"github.com/weir-mcp/weir/mcp/streamable"
)

// maxTail bounds the bytes that a streamTail keeps, and thereby the response that it can return.
const maxTail = 64 << 10

// streamTail keeps the end of a stream of events, in which the response stands. It is for requests
// with a span; for others it stays nil and keeps nothing.
type streamTail struct{ kept []byte }

// add takes a piece of the stream.
func (s *streamTail) add(p []byte) {
	if s == nil {
		return
	}
	if s.kept = append(s.kept, p...); len(s.kept) > 2*maxTail {
		s.kept = append(s.kept[:0], s.kept[len(s.kept)-maxTail:]...)
	}
}

// response returns the data of the last event. An event of which the start is lost is none.
func (s *streamTail) response() (data []byte) {
	if s == nil {
		return nil
	}
	in := streamable.NewEventReader(bytes.NewReader(s.kept), 2*maxTail)
	for {
		e, err := in.Next()
		if err != nil {
			return data
		}
		if len(e.Data) > 0 {
			data = append(data[:0], e.Data...)
		}
	}
}
