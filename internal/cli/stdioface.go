package cli

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/gateway"
	"github.com/weir-mcp/weir/internal/observe"
	"github.com/weir-mcp/weir/internal/policy"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/stdio"
)

// A stdioFace serves a gateway on standard input and output.
//
//	stdin ─▶ stoppable ─▶ mcp.Conn ─▶ interruptible ─▶ front
//	            │ shutdown: end of input                  │ past the deadline: answered with an error
//	            └────────────────▶ drains ◀───────────────┘
type stdioFace struct {
	gateway *gateway.Gateway
	log     *observe.Log
	front   *gateway.Front
	calls   *interruptible
	input   *stoppable
	conn    *mcp.Conn
}

func newStdioFace(g *gateway.Gateway, c *config.Config, a *process, log *observe.Log, profile string) *stdioFace {
	f := &stdioFace{gateway: g, log: log, front: gateway.NewFront(g)}
	g.Data.Plane.StandAlone()
	f.Apply(nil, c)
	within := policy.WithinProfile(g.Config, f.front)
	f.calls = newInterruptible(mcp.HandlerFunc(func(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
		if profile != "" {
			ctx = policy.AtProfile(ctx, profile)
		}
		return within.Serve(ctx, r)
	}))
	f.input = newStoppable(stdio.NewStream(a.stdin, a.stdout.Writer, int(c.HTTP.MaxBodyBytes), nil))
	return f
}

func (f *stdioFace) Start() {
	f.conn = mcp.NewConn(f.input, mcp.ConnOptions{
		Name: "the client", Handler: f.calls, Logger: f.log.Logger,
		// Longer than calls may take, so that the last responses are still sent.
		Drain: drainTimeout + 200*time.Millisecond,
	})
}

func (f *stdioFace) Done() <-chan struct{} { return f.conn.Done() }

func (f *stdioFace) Apply(_, c *config.Config) { f.front.Apply(c) }

func (f *stdioFace) Shutdown(ctx context.Context) error {
	f.input.stop()
	select {
	case <-f.conn.Done():
	case <-ctx.Done():
		f.calls.interrupt()
		select {
		case <-f.conn.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return f.conn.Close()
}

// interruptible answers calls that run too long with an error.
type interruptible struct {
	next mcp.Handler
	ctx  context.Context // ended by interrupt
	stop context.CancelFunc
}

func newInterruptible(next mcp.Handler) *interruptible {
	ctx, stop := context.WithCancel(context.Background())
	return &interruptible{next: next, ctx: ctx, stop: stop}
}

// interrupt ends every call in flight.
func (i *interruptible) interrupt() { i.stop() }

// Serve implements mcp.Handler.
func (i *interruptible) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(i.ctx, cancel)()
	result, err := i.next.Serve(ctx, r)
	if err != nil && i.ctx.Err() != nil {
		return nil, mcp.Errorf(mcp.KindShuttingDown, "weir is shutting down and did not finish %s; try again when it is back", r.Method)
	}
	return result, err
}

// stoppable is a stream that can be ended from outside. A blocked read of standard input cannot be
// interrupted.
type stoppable struct {
	stream  *stdio.Stream // not embedded: all reads go through lines
	lines   chan stdinLine
	ended   chan struct{} // closed by stop: no more input
	closed  chan struct{}
	onEnd   sync.Once
	onClose sync.Once
}

type stdinLine struct {
	data []byte
	err  error
}

// newStoppable reads from s in a goroutine that lives until s ends. A blocked read of standard
// input cannot be interrupted, so that goroutine may live until the process exits.
func newStoppable(s *stdio.Stream) *stoppable {
	st := &stoppable{stream: s, lines: make(chan stdinLine), ended: make(chan struct{}), closed: make(chan struct{})}
	go func() {
		for {
			data, err := s.Read()
			select {
			case st.lines <- stdinLine{data, err}:
			case <-st.closed:
				return
			}
			if k, _ := mcp.KindOf(err); err != nil && k != mcp.KindTooLarge {
				return
			}
		}
	}()
	return st
}

// Read implements mcp.Stream.
func (s *stoppable) Read() ([]byte, error) {
	select {
	case <-s.ended:
		return nil, io.EOF
	default:
	}
	select {
	case line := <-s.lines:
		return line.data, line.err
	case <-s.ended:
		return nil, io.EOF
	case <-s.closed:
		return nil, io.EOF
	}
}

// Write implements mcp.Stream.
func (s *stoppable) Write(msg []byte) error { return s.stream.Write(msg) }

// WriteAll sends several messages at once; see stdio.Stream.
func (s *stoppable) WriteAll(msgs [][]byte, wait bool) (bool, error) {
	return s.stream.WriteAll(msgs, wait)
}

// stop ends the input.
func (s *stoppable) stop() { s.onEnd.Do(func() { close(s.ended) }) }

// Close implements mcp.Stream.
func (s *stoppable) Close() error {
	s.onClose.Do(func() { close(s.closed) })
	return s.stream.Close()
}
