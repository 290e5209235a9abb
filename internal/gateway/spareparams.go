package gateway

import (
	"encoding/json"
	"sync"
	"weak"
)

const (
	// spareFrom is the size from which a buffer for params is used again. A smaller one costs less to
	// make than to keep.
	spareFrom = 16 << 10
	// maxSpare is the size of the largest buffer that is used again.
	maxSpare = 1 << 20
)

// spareParams lends the buffer for the params of large calls, one after another. Without it, these
// buffers are half of the garbage that large calls make. A session has its own: a Peer that read
// params after its call would read those of a later call of the same caller, never of another one.
//
// The garbage collector may take the buffer between two calls, so an idle session has none. All
// methods may be called concurrently. The zero value is ready for use.
type spareParams struct {
	mu   sync.Mutex // guards below
	last weak.Pointer[paramBuffer]
}

// paramBuffer is an empty buffer.
type paramBuffer struct{ buf []byte }

// take returns an empty buffer for size bytes.
func (s *spareParams) take(size int) []byte {
	if size >= spareFrom && size <= maxSpare {
		s.mu.Lock()
		last := s.last.Value()
		s.last = weak.Pointer[paramBuffer]{}
		s.mu.Unlock()
		if last != nil && cap(last.buf) >= size {
			return last.buf
		}
	}
	return make([]byte, 0, size)
}

// give takes back the memory of params, which the caller must not read any more.
func (s *spareParams) give(params json.RawMessage) {
	if cap(params) < spareFrom || cap(params) > maxSpare {
		return
	}
	last := weak.Make(&paramBuffer{params[:0]})
	s.mu.Lock()
	s.last = last
	s.mu.Unlock()
}
