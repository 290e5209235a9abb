package mcp

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Stream carries whole JSON-RPC messages in both directions. Examples are a child's stdin and
// stdout, a pair of pipes, and an SSE stream with its POSTs.
type Stream interface {
	// Read returns the next message. The slice belongs to the caller. io.EOF means that the other
	// side ended. An error of KindTooLarge, or one that wraps a *LostMessage, concerns one message
	// and Read can be called again. Any other error is final. Only one goroutine may read.
	Read() ([]byte, error)
	// Write sends one message and does not keep msg. Only one goroutine may write.
	Write(msg []byte) error
	// Close ends the stream and unblocks Read and Write. It may be called at
	// any time and more than once.
	Close() error
}

// batchStream is a Stream that can send several messages at once. If wait is false, WriteAll sends them
// only if that takes no time. Otherwise it sends nothing and returns false.
type batchStream interface {
	WriteAll(msgs [][]byte, wait bool) (bool, error)
}

// callerStream is a Stream that single HTTP requests feed. Caller returns who sent the message that
// Read returned last; the reader calls it.
type callerStream interface{ Caller() *identity.Identity }

// Bounds of one connection.
const (
	maxServing    = 1024 // requests of the other side served at once
	maxCallQueue  = 256  // undelivered messages of one call
	writeQueueLen = 256  // messages waiting to be written
	maxLate       = 1024 // answers waiting for a place in the write queue
	maxNotifyLen  = 1024 // undelivered notifications that belong to no call
)

// maxFirstID bounds the first id of a server's requests. Clients in JavaScript know integers up to
// 2^53.
const maxFirstID = 1 << 50

// ConnOptions configures a Conn. The zero value serves nothing and logs
// nothing.
type ConnOptions struct {
	// Name is how error messages call the other side, such as `upstream "files"`.
	Name string
	// Handler serves messages of the other side that belong to no call of this side. On a server
	// these are all requests of the agent. If Handler is nil, every request is answered with
	// "method not found".
	Handler Handler
	// Session stands for the other side in the Requests that Handler gets. If Session is nil,
	// NewConn makes a local one. The session is closed with the connection.
	Session *Session
	// Client says that this side is the client. Then the connection skips input that is not
	// JSON-RPC (see Junk) instead of answering it, because children print other text to stdout. It
	// answers ping, and hands messages of the server to the call that owns them. An unreadable
	// response ends its call with KindUpstreamProtocol. Invalid UTF-8 becomes U+FFFD.
	Client bool
	// Copies is how many more copies of a request the Stream may make while the request is on the
	// way. A call takes their bytes as well; see the package memory.
	Copies int
	// Junk, if set, gets input of a server that is not JSON-RPC, and the reason. Without Junk the
	// input is logged. The reader calls Junk and waits for it.
	Junk func(data []byte, err error)
	// Drain is how long a server may answer pending requests after the agent has closed its end.
	// Zero means 4.5 s.
	Drain time.Duration
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
}

// Conn speaks JSON-RPC over a Stream in both directions. It is a Peer for the other side and calls
// a Handler for messages of the other side.
//
// A message of the other side belongs to a call if its progress token or subscription id says so.
// On a connection that several sessions share, it also belongs to a call if only one session has
// calls in flight. If a request could belong to several sessions, it is answered with an error:
// asking the wrong person is worse than asking no one.
type Conn struct {
	stream  Stream
	batcher batchStream // stream, or nil
	opts    ConnOptions
	out     chan outgoing
	unsent  atomic.Int64  // messages in out and in a write
	writing sync.Mutex    // held during a write
	single  [1][]byte     // the message of writeNow; belongs to the holder of writing
	notices chan *Request // notifications for opts.Handler, in order
	flush   chan chan struct{}
	busy    atomic.Int64  // requests whose response is not queued yet
	ending  atomic.Bool   // the reader waits in drain for busy to become 0
	idle    chan struct{} // capacity 1: busy has become 0 while ending is set
	late    atomic.Int64  // answers waiting in goroutines of their own; see offer

	incoming *memory.Block // the message being received; used by the reader only

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// now and reply send a response. The reader uses now, because it must not wait for a server
	// that sends requests but does not read: other sessions share the connection.
	now, reply func(resp outgoing)

	mu      sync.Mutex // guards below
	calls   map[int64]*call
	serving map[jsonrpc.ID]context.CancelCauseFunc
	nextID  int64
	err     error
}

// NewConn starts to read from and write to s. The caller must Close the Conn.
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
		out: make(chan outgoing, writeQueueLen), notices: make(chan *Request, maxNotifyLen), flush: make(chan chan struct{}), idle: make(chan struct{}, 1),
		calls: map[int64]*call{}, serving: map[jsonrpc.ID]context.CancelCauseFunc{},
	}
	if !opts.Client {
		// A client behind weir attach may answer a question of an earlier gateway. If ids started
		// at 1 each time, that answer would end another question.
		c.nextID = rand.Int64N(maxFirstID)
	}
	c.batcher, _ = s.(batchStream)
	c.reply = func(resp outgoing) { _ = c.send(c.ctx, resp) }
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

// Err returns the reason for the connection's end: nil while it is open, an *Error of
// KindUpstreamUnavailable afterwards.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Session returns the session of the other side.
func (c *Conn) Session() *Session { return c.opts.Session }

// InFlight returns the number of calls that wait for an answer, and of requests of the other side
// that are being served.
func (c *Conn) InFlight() (calls, serving int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls), len(c.serving)
}

// Close ends the connection and waits for all of its goroutines. Calls in flight fail with
// KindUpstreamUnavailable.
func (c *Conn) Close() error {
	c.fail(Errorf(KindUpstreamUnavailable, "%s: the connection was closed", c.opts.Name))
	c.wg.Wait()
	return nil
}

// fail ends the connection. Only the first reason counts.
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
