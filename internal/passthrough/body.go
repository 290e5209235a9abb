package passthrough

import (
	"bytes"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/observe/trace"
)

// maxPooled is the largest size of a buffer that is reused. Larger ones are left to the garbage
// collector.
const maxPooled = 1 << 20

// body is a request body in a pooled buffer. A transport may still read it after the response has
// arrived, so body counts its readers.
type body struct {
	buf  []byte
	room memory.Hold // of buf
	refs atomic.Int32
}

var bodies = sync.Pool{New: func() any { return new(body) }}

// getBody returns an empty body with one holder.
func getBody() *body {
	b := bodies.Get().(*body)
	b.refs.Store(1)
	return b
}

// release ends one use of the body. The last one returns the buffer to the pool.
func (b *body) release() {
	if b.refs.Add(-1) > 0 {
		return
	}
	b.room.Release()
	if cap(b.buf) <= maxPooled {
		bodies.Put(b)
	}
}

// read reads the whole body of r and counts it in pool on behalf of the sender.
func (b *body) read(w http.ResponseWriter, r *http.Request, limit int64, pool *memory.Pool) (err error) {
	b.room = pool.Hold("principal ", guard.Principal(r.Context()))
	b.buf, err = guard.ReadBody(w, r, limit, b.buf, &b.room)
	return err
}

// smallBody is the size up to which an outgoing request gets a copy of the body.
const smallBody = 8 << 10

// reader returns the edited bytes as the body of an outgoing request. For a large body the reader holds
// the buffer until it is closed. For a small one it is a copy in a type that net/http knows to be
// in memory: only then does net/http send headers and body in one packet, which saves a system call
// on both sides.
func (b *body) reader(edit trace.Edit) io.ReadCloser {
	if len(b.buf) <= smallBody {
		return io.NopCloser(bytes.NewReader(edit.Append(make([]byte, 0, len(b.buf)+edit.Grows()), b.buf)))
	}
	b.refs.Add(1)
	out := &bodyReader{b: b}
	for i, part := range [...][]byte{b.buf[:edit.At], edit.Text, b.buf[edit.End:]} {
		out.parts[i].Reset(part)
	}
	return out
}

type bodyReader struct {
	parts  [3]bytes.Reader // one after the other
	b      *body
	closed atomic.Bool
}

// Close implements io.Closer. A closed reader is empty, because the buffer may be in use for
// another request.
func (r *bodyReader) Close() error {
	if r.closed.CompareAndSwap(false, true) {
		r.b.release()
	}
	return nil
}

// Read implements io.Reader.
func (r *bodyReader) Read(p []byte) (int, error) {
	if r.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	for i := range r.parts {
		if part := &r.parts[i]; part.Len() > 0 {
			return part.Read(p)
		}
	}
	return 0, io.EOF
}

// WriteTo implements io.WriterTo.
func (r *bodyReader) WriteTo(w io.Writer) (n int64, err error) {
	if r.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	for i := range r.parts {
		written, err := r.parts[i].WriteTo(w)
		if n += written; err != nil {
			return n, err
		}
	}
	return n, nil
}
