package streamable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
)

// Defaults and bounds of a Client.
const (
	DefaultMaxResponse = 256 << 20

	maxHalf         = 4 << 10 // bytes kept of an incomplete message
	maxCallMessages = 256     // undelivered messages of one call
	maxCallBytes    = 8 << 20 // their bytes; a single larger one fits an empty queue
	maxCallServing  = 16      // requests of the server served at once within one call
	maxServing      = 64      // the same for the whole connection
	maxBackground   = 64      // answers and cancellations being sent

	minConnected = time.Second // a stream that lived this long was not a failure
	maxAttempts  = 6           // consecutive failures before a stream is given up
	firstBackoff = 500 * time.Millisecond
	maxBackoff   = 30 * time.Second
	minBackoff   = 10 * time.Millisecond // lower bound of the retry time that a server asks for
	drainTime    = 250 * time.Millisecond
	drainBytes   = 64 << 10
)

// ErrSessionLost is the cause of an error for a message that the server did not look at because it
// no longer knows the session. The caller may make the same call again over a new Client, which
// makes a new session; see [mcp.ErrNotSent].
var ErrSessionLost = fmt.Errorf("the session is lost: %w", mcp.ErrNotSent)

// ClientTimeouts bound the Client's own waits. Calls wait as long as their context allows. Zero
// values mean the defaults.
type ClientTimeouts struct {
	Connect   time.Duration // TCP and TLS; 10 s; not used with HTTPClient
	Handshake time.Duration // the whole of Dial; 30 s
	Send      time.Duration // a notification, an answer, a cancellation; 30 s
	Close     time.Duration // the DELETE of Close; 2 s
}

func (t ClientTimeouts) orDefaults() ClientTimeouts {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&t.Connect, 10 * time.Second}, {&t.Handshake, 30 * time.Second}, {&t.Send, 30 * time.Second}, {&t.Close, 2 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	return t
}

// ClientOptions configures a Client. Only URL is required.
type ClientOptions struct {
	// URL is the server's MCP endpoint, http or https. Only its host appears in errors and logs.
	URL string
	// Name is how errors call the server, such as `upstream "files"`.
	Name string
	// Header is sent with every request (Authorization and the like). Headers that the protocol
	// defines are ignored.
	Header http.Header
	// HTTPClient replaces the client with its own connection pool. Its Timeout must be zero,
	// because streams last.
	HTTPClient *http.Client
	// Wrap wraps the transport of every HTTP request, for example to sign requests. Nil changes
	// nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
	// ClientInfo and Capabilities are raw objects that introduce weir.
	ClientInfo, Capabilities json.RawMessage
	// ProtocolVersion is the first version of the handshake; see mcp.Handshake.
	ProtocolVersion string
	// Handler serves the messages of the server that belong to no call: list changes, log messages
	// and requests on the GET stream. Notifications arrive one at a time and in order. With a nil
	// Handler notifications are dropped and requests refused.
	Handler mcp.Handler
	// ParamHeaders adds the Mcp-Param-* headers of a modern tools/call to h; see
	// ParamHeaders. It may be called concurrently. Nil adds none.
	ParamHeaders func(tool string, params json.RawMessage, h http.Header)
	// Timeouts bound the client's own waits.
	Timeouts ClientTimeouts
	// MaxResponse bounds one response, and one message of a stream, in bytes; zero means
	// DefaultMaxResponse. MaxResponseKey is the name of the setting in errors, "" if there is none.
	MaxResponse    int64
	MaxResponseKey string
	// Room counts the bytes of responses; nil sets no bound.
	Room *memory.Account
	// Logger gets failures outside calls; nil discards them.
	Logger *slog.Logger
}

// Client is a connection to one MCP server over streamable HTTP. Each call is a separate POST, so
// calls do not wait for each other:
//
//	Call ── POST ──▶ JSON ───────────────────────────────▶ result
//	          └────▶ SSE ── notification ─▶ queue ─▶ back ┐
//	                  │     request ──────▶ queue ─▶ back ─▶ POST answer
//	                  │     response ──────── after these ─▶ result
//	                  └ breaks ── GET, Last-Event-ID ─▶ SSE …   (legacy)
//
// All methods are safe for concurrent use.
type Client struct {
	opts      ClientOptions
	who       string // for messages: name and host
	http      *http.Client
	plain     bool   // http adds nothing to requests and has no timeout
	closeIdle func() // closes idle connections of the client's own pool
	template  http.Request
	session   *mcp.Session
	hello     mcp.Hello

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines of the client itself; Add under mu
	done   chan struct{}  // closed when no further call can be made

	listening listening
	serving   servedRequests

	nextID atomic.Int64
	wire   atomic.Pointer[wireState]

	mu         sync.Mutex // guards below
	calls      map[int64]*clientCall
	background int
	err        error // the reason why no further call can be made
	lost       bool  // the server has forgotten the session
	closed     bool
}

var _ mcp.Peer = (*Client)(nil)

// Dial connects to a server. It makes the handshake of the era that the server speaks. In the
// legacy era it also opens the GET stream and waits for it briefly. ctx bounds only Dial, not the
// Client. The errors are the errors of Call. If the server speaks no streamable HTTP at this URL,
// the error is an mcp.ErrRefused.
func Dial(ctx context.Context, opts ClientOptions) (*Client, error) {
	c, err := newClient(opts)
	if err != nil {
		return nil, err
	}
	hctx, cancel := context.WithTimeout(ctx, c.opts.Timeouts.Handshake)
	defer cancel()
	c.hello, err = mcp.Handshake(hctx, greeting{c}, c.opts.ClientInfo, c.opts.Capabilities, c.opts.ProtocolVersion)
	if err != nil {
		if hctx.Err() != nil && ctx.Err() == nil {
			err = mcp.Errorf(mcp.KindUpstreamTimeout, "%s did not answer the handshake within %s", c.who, c.opts.Timeouts.Handshake)
		}
		c.Close()
		return nil, err
	}
	c.govern(c.hello.Version)
	if !c.hello.Modern {
		c.spawn(c.listening.run)
		c.listening.wait(ctx)
	}
	return c, nil
}

func newClient(opts ClientOptions) (*Client, error) {
	u, who, err := ParseURL(opts.Name, opts.URL)
	if err != nil {
		return nil, err
	}
	opts.Timeouts = opts.Timeouts.orDefaults()
	if opts.MaxResponse <= 0 {
		opts.MaxResponse = DefaultMaxResponse
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Handler == nil {
		opts.Handler = &mcp.Mux{}
	}
	if len(opts.ClientInfo) == 0 {
		opts.ClientInfo = json.RawMessage(`{"name":"weir","version":"0"}`)
	}
	if len(opts.Capabilities) == 0 {
		opts.Capabilities = json.RawMessage("{}")
	}
	c := &Client{
		opts: opts, who: who,
		session: mcp.NewSession("", ""), done: make(chan struct{}), calls: map[int64]*clientCall{},
	}
	c.listening = listening{c, make(chan struct{})}
	c.opts.Header = OwnHeader(opts.Header)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.template = http.Request{URL: u, Host: u.Host, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}
	c.http, c.closeIdle = NewHTTPClient(opts.HTTPClient, opts.Timeouts.Connect)
	WrapTransport(c.http, opts.Wrap)
	c.plain = c.http.Transport != nil && c.http.Jar == nil && c.http.Timeout == 0 && u.User == nil
	c.session.SetPeer(c)
	c.wire.Store(c.newWireState("", ""))
	return c, nil
}

// Hello returns the server's answer in the handshake.
func (c *Client) Hello() mcp.Hello { return c.hello }

// Session returns the session of the server, which handlers find in their Requests. It has the
// negotiated version. It ends with the client.
func (c *Client) Session() *mcp.Session { return c.session }

// Done is closed when no further call can be made, because the session is lost
// or the client is closed. Err says which.
func (c *Client) Done() <-chan struct{} { return c.done }

// Err returns nil while calls can be made, else the *mcp.Error that they return.
func (c *Client) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// InFlight returns the number of calls that wait for an answer, and of requests of the server that
// are being served.
func (c *Client) InFlight() (calls, serving int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calls), c.serving.len()
}

// end makes every further call fail with err. Only the first reason counts.
func (c *Client) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
		close(c.done)
	}
}

// sessionLost ends the client because the server has forgotten its session. Calls whose answers are
// being received still get them.
func (c *Client) sessionLost() error {
	c.mu.Lock()
	c.lost = true
	c.mu.Unlock()
	err := &mcp.Error{
		Kind: mcp.KindSessionNotFound, Err: ErrSessionLost,
		Message: c.who + " no longer knows the session: it was restarted, or the session has expired; connect again",
	}
	c.end(err)
	return err
}

// Close ends the connection. Calls in flight fail with KindUpstreamUnavailable, and the session is
// deleted on the server. Every goroutine of the client has ended when Close returns.
func (c *Client) Close() error {
	c.end(mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: the connection was closed", c.who))
	c.mu.Lock()
	first := !c.closed
	c.closed = true
	for _, cl := range c.calls {
		cl.cancel(errClosed)
	}
	forget := first && !c.lost
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
	if st := c.wire.Load(); forget && st.session != "" {
		ctx, cancel := context.WithTimeout(context.Background(), c.opts.Timeouts.Close)
		defer cancel()
		if resp, err := c.do(ctx, http.MethodDelete, st.bare); err == nil {
			discard(resp)
		} else {
			c.opts.Logger.Debug("the session could not be deleted", "peer", c.who, "err", transportCause(err))
		}
	}
	if first {
		c.session.Close()
		c.closeIdle()
	}
	return nil
}

// errClosed is the cause of the contexts that Close ends.
var errClosed = errors.New("the connection was closed")

// spawn runs f in a goroutine that Close waits for. On a closed client it does nothing and returns
// false.
func (c *Client) spawn(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.wg.Add(1)
	go func() {
		defer c.wg.Done()
		f()
	}()
	return true
}

// send posts an answer or a cancellation in the background. If too many are being sent already, it
// drops the message.
func (c *Client) send(what string, out outgoing) {
	c.mu.Lock()
	full := c.background >= maxBackground
	if !full {
		c.background++
	}
	c.mu.Unlock()
	if full {
		c.opts.Logger.Warn("dropped a message: too many wait to be sent", "peer", c.who, "message", what)
		return
	}
	sent := func() {
		c.mu.Lock()
		c.background--
		c.mu.Unlock()
	}
	if !c.spawn(func() {
		defer sent()
		if err := c.tell(c.ctx, out); err != nil && c.ctx.Err() == nil {
			c.opts.Logger.Info("a message was not accepted", "peer", c.who, "message", what, "err", err)
		}
	}) {
		sent()
	}
}

// greeting is the Peer for the handshake. It sets the headers of the negotiated version before the
// server learns that the handshake is complete.
type greeting struct{ *Client }

func (g greeting) Notify(ctx context.Context, method string, params json.RawMessage) error {
	g.govern(g.session.Version())
	return g.Client.Notify(ctx, method, params)
}
