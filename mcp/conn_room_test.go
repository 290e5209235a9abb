package mcp

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
)

// stuckStream has requests to read, and a client that does not read answers until it is let go.
type stuckStream struct {
	in     chan []byte
	pass   chan struct{}
	closed chan struct{}
	once   sync.Once
}

func (s *stuckStream) Read() ([]byte, error) {
	select {
	case msg := <-s.in:
		return msg, nil
	case <-s.closed:
		return nil, io.EOF
	}
}

func (s *stuckStream) Write([]byte) error {
	select {
	case <-s.pass:
		return nil
	case <-s.closed:
		return io.ErrClosedPipe
	}
}

func (s *stuckStream) Close() error { s.once.Do(func() { close(s.closed) }); return nil }

// TestWaitingAnswersAreCounted: answers that a client has not read count, also when their calls are over: a further call
// is refused. When they are written, or the connection ends, nothing counts.
func TestWaitingAnswersAreCounted(t *testing.T) {
	for _, reads := range []bool{true, false} {
		pool := memory.NewPool(memory.Options{Limit: 8 << 20, Wait: 10 * time.Millisecond})
		refused := make(chan error, 16)
		served := make(chan struct{}, 16)
		s := &stuckStream{in: make(chan []byte), pass: make(chan struct{}), closed: make(chan struct{})}
		session := NewSession("", LocalPrincipal)
		session.SetVersion(V20250326)
		c := NewConn(s, ConnOptions{Session: session, Handler: HandlerFunc(func(ctx context.Context, _ *Request) (json.RawMessage, error) {
			memory.FromContext(ctx).Count(pool, "principal ", "ann")
			defer func() { served <- struct{}{} }()
			if err := memory.Take(ctx, 1<<20); err != nil {
				refused <- err
				return nil, NoRoom("a test", err)
			}
			memory.Give(ctx, 1<<20)
			return json.RawMessage(`"` + strings.Repeat("x", 1<<20-64) + `"`), nil
		})})
		for id := range 8 {
			s.in <- []byte(`{"jsonrpc":"2.0","id":` + string(rune('1'+id)) + `,"method":"x"}`)
			<-served
			time.Sleep(20 * time.Millisecond)
		}
		if u := pool.Usage(); len(refused) < 3 || u.Memory < 2<<20 || u.Memory > 4<<20 {
			t.Errorf("%d of 8 calls are refused, and there is %+v", len(refused), u)
		}
		if reads {
			close(s.pass)
			for deadline := time.Now().Add(10 * time.Second); pool.Usage().Memory > 0 && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
		}
		_ = c.Close()
		if u := pool.Usage(); u.Memory != 0 {
			t.Errorf("reads is %v: in the end there is %+v", reads, u)
		}
	}
}
