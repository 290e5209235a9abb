package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Stream carries whole JSON-RPC messages in both directions: a child's stdin
// and stdout, a pair of pipes, an SSE stream with its POSTs.
type Stream interface {
	// Read returns the next message. The slice belongs to the caller. io.EOF
	// means that the other side ended. An error of KindTooLarge, or one that wraps
	// a *LostMessage, stands for one message, any other is final. One goroutine reads.
	Read() ([]byte, error)
	// Write sends one message and does not keep msg. One goroutine writes.
	Write(msg []byte) error
	// Close ends the stream and unblocks Read and Write. It may be called at
	// any time and more than once.
	Close() error
}

// batchStream is a Stream that can send several messages in one go.
type batchStream interface{ WriteAll(msgs [][]byte) error }

// Bounds of one connection.
const (
	maxServing    = 1024 // requests of the other side served at once
	maxCallQueue  = 256  // undelivered messages of one call
	writeQueueLen = 256  // messages on their way out
	maxLate       = 1024 // answers that wait for a place among those
	maxNotifyLen  = 1024 // undelivered notifications that belong to no call
)

// ConnOptions configures a Conn. The zero value serves nothing and logs
// nothing.
type ConnOptions struct {
	// Name is what error messages call the other side, such as
	// `upstream "files"`.
	Name string
	// Handler serves what the other side sends and no call of ours owns. On a
	// server that is everything the agent asks. Nil answers every request with
	// "method not found".
	Handler Handler
	// Session is who sits at the other side, for the Requests that Handler
	// gets. A new local one where nil. It is closed with the connection.
	Session *Session
	// Client says that this side is the client. Then what is no JSON-RPC
	// message is skipped, see Junk, instead of answered (children print all
	// sorts of things to stdout), ping is answered here, and what the server
	// sends is handed to the call that owns it. A response that cannot be read
	// ends its call with KindUpstreamProtocol. Bytes that are no UTF-8 become U+FFFD.
	Client bool
	// Junk, if set, takes what a server sends that is no JSON-RPC message, and why
	// it is none, instead of the log. The reader calls it, which waits for it.
	Junk func(data []byte, err error)
	// Drain is how long a server goes on answering what it was asked when the
	// agent has closed its end; 4.5 s when zero.
	Drain time.Duration
	// Logger takes what goes wrong; nil discards it.
	Logger *slog.Logger
}

// Conn speaks JSON-RPC over a Stream, both ways at once: it is a Peer for the
// other side and calls a Handler for what the other side sends.
//
// A message from the other side belongs to a call when its progress token or
// subscription id says so, or, on a connection that several sessions share,
// when one session alone has calls in flight. A request that might belong to
// several is answered with an error, because to ask the wrong person is worse
// than to ask nobody.
type Conn struct {
	stream  Stream
	opts    ConnOptions
	out     chan []byte
	notices chan *Request // notifications for opts.Handler, in order
	flush   chan chan struct{}
	busy    atomic.Int64  // requests whose response is not queued yet
	ending  atomic.Bool   // the reader waits in drain for busy to become 0
	idle    chan struct{} // capacity 1: busy has become 0 while ending
	late    atomic.Int64  // answers that wait in goroutines of their own, see offer

	incoming *memory.Block // what is being received; the reader's

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// These send a response, the first one for the reader, which must not wait for
	// a server that asks but does not read: others share its connection.
	now, reply func(resp []byte)

	mu      sync.Mutex // guards below
	calls   map[int64]*call
	serving map[jsonrpc.ID]context.CancelCauseFunc
	nextID  int64
	err     error
}

// NewConn starts to read from and write to s. Close the Conn to end it.
func NewConn(s Stream, opts ConnOptions) *Conn {
	if opts.Handler == nil {
		opts.Handler = &Mux{}
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Drain == 0 {
		opts.Drain = 4500 * time.Millisecond
	}
	if opts.Name == "" {
		opts.Name = "the other side"
	}
	if opts.Session == nil {
		opts.Session = NewSession("", LocalPrincipal)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &Conn{
		stream: s, opts: opts, ctx: ctx, cancel: cancel,
		out: make(chan []byte, writeQueueLen), notices: make(chan *Request, maxNotifyLen), flush: make(chan chan struct{}), idle: make(chan struct{}, 1),
		calls: map[int64]*call{}, serving: map[jsonrpc.ID]context.CancelCauseFunc{},
	}
	c.reply = func(resp []byte) { _ = c.send(c.ctx, resp) }
	c.now = c.reply
	if opts.Client {
		c.now = c.offer
	}
	opts.Session.SetPeer(c)
	c.wg.Add(3)
	go c.readLoop()
	go c.writeLoop()
	go c.noticeLoop()
	return c
}

// Done is closed when the connection has ended, whichever side ended it.
func (c *Conn) Done() <-chan struct{} { return c.ctx.Done() }

// Err says why the connection ended: nil while it lives, an *Error of
// KindUpstreamUnavailable afterwards.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Session returns the session of the other side.
func (c *Conn) Session() *Session { return c.opts.Session }

// InFlight returns how many calls wait for an answer and how many requests of
// the other side are being served.
func (c *Conn) InFlight() (calls, serving int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls), len(c.serving)
}

// Close ends the connection and waits until everything it started has ended.
// Calls in flight fail with KindUpstreamUnavailable.
func (c *Conn) Close() error {
	c.fail(Errorf(KindUpstreamUnavailable, "%s: the connection was closed", c.opts.Name))
	c.wg.Wait()
	return nil
}

// fail ends the connection once, with the first reason given.
func (c *Conn) fail(err error) {
	c.mu.Lock()
	first := c.err == nil
	if first {
		c.err = err
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.cancel()
	if err := c.stream.Close(); err != nil {
		c.opts.Logger.Debug("closing the stream", "peer", c.opts.Name, "err", err)
	}
	c.opts.Session.Close()
}

func (c *Conn) lost(err error) error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	if errors.Is(err, io.EOF) {
		return Errorf(KindUpstreamUnavailable, "%s closed the connection", c.opts.Name)
	}
	return &Error{Kind: KindUpstreamUnavailable, Message: c.opts.Name + ": the connection broke", Err: err}
}
