package streamable

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

const (
	// pooledBody is the size from which the buffer of a request is used again. A smaller one is cheaper
	// to make than to keep.
	pooledBody = 16 << 10
	// maxPooledBody is the size of the largest buffer that is kept.
	maxPooledBody = 1 << 20
)

// smallBody is the body of a request whose buffer is not used again.
type smallBody struct{ bytes.Reader }

func newSmallBody(data []byte) *smallBody {
	b := new(smallBody)
	b.Reset(data)
	return b
}

// Close implements io.Closer.
func (*smallBody) Close() error { return nil }

// requestBody is the buffer of a large request. A transport may still read it when the response has
// arrived, so requestBody counts its readers. A reader that is never closed only costs the buffer.
type requestBody struct {
	buf  []byte
	refs atomic.Int32
}

var requestBodies = sync.Pool{New: func() any { return new(requestBody) }}

// newRequestBody returns an empty body with room for size bytes and one holder.
func newRequestBody(size int) *requestBody {
	b := requestBodies.Get().(*requestBody)
	b.refs.Store(1)
	if cap(b.buf) < size {
		b.buf = make([]byte, 0, size)
	}
	return b
}

// release ends one use of the body. The last one makes the buffer free for another request.
func (b *requestBody) release() {
	if b != nil && b.refs.Add(-1) == 0 && cap(b.buf) <= maxPooledBody {
		requestBodies.Put(b)
	}
}

// reader returns the bytes as the body of a request, which holds the buffer until it is closed. The
// caller holds the body as well.
func (b *requestBody) reader() io.ReadCloser {
	b.refs.Add(1)
	r := &requestReader{b: b}
	r.of.Reset(b.buf)
	return r
}

// requestReader reads a requestBody. Its methods may be called concurrently: a transport may close a
// body while it reads it.
type requestReader struct {
	b *requestBody

	mu     sync.Mutex // guards below
	of     bytes.Reader
	closed bool
}

// Read implements io.Reader.
func (r *requestReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return r.of.Read(p)
}

// Len returns the number of bytes that are left, 0 after Close.
func (r *requestReader) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0
	}
	return r.of.Len()
}

// WriteTo implements io.WriterTo. Close waits for its end: until then w reads the buffer.
func (r *requestReader) WriteTo(w io.Writer) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return 0, http.ErrBodyReadAfterClose
	}
	return r.of.WriteTo(w)
}

// Close implements io.Closer.
func (r *requestReader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		r.closed = true
		r.b.release()
	}
	return nil
}
