package hop

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
)

// body is the body of a response. It gives the connection back at its end. Close may be called while
// Read waits.
type body struct {
	of    io.ReadCloser // of http.ReadResponse; its Close would read to the end
	c     *conn
	ctx   context.Context // of the request
	again bool            // the connection can be used again at the end
	err   error           // of the Read that ended the body

	over   atomic.Bool // the connection is no longer the body's
	closed atomic.Bool
}

// Read implements io.Reader.
func (b *body) Read(p []byte) (int, error) {
	if b.closed.Load() {
		return 0, http.ErrBodyReadAfterClose
	}
	if b.err != nil {
		return 0, b.err
	}
	n, err := b.of.Read(p)
	if err == nil {
		return n, nil
	}
	if !b.over.CompareAndSwap(false, true) {
		return n, http.ErrBodyReadAfterClose
	}
	b.c.finish(b.again && err == io.EOF)
	if err != io.EOF && b.ctx.Err() != nil {
		err = context.Cause(b.ctx)
	}
	b.err = err
	return n, err
}

// Close implements io.Closer. Before the end of the body it closes the connection.
func (b *body) Close() error {
	b.closed.Store(true)
	if b.over.CompareAndSwap(false, true) {
		b.c.finish(false)
	}
	return nil
}
