package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// Bounds of a ClientStream.
const (
	maxPosts    = 32          // POSTs that the server has not answered yet
	maxEndpoint = 4 << 10     // bytes of the endpoint event's URL
	postPause   = time.Second // the longest wait for one POST before the next is sent
)

// ClientOptions configures a ClientStream. Only URL is required.
type ClientOptions struct {
	// URL is the URL of the event stream, http or https. Only its host appears in errors and logs.
	URL string
	// Name is how errors call the server, such as `upstream "files"`.
	Name string
	// Header is sent with every request (Authorization and the like).
	Header http.Header
	// HTTPClient replaces the client with its own connection pool. Its Timeout must be zero,
	// because the stream lasts.
	HTTPClient *http.Client
	// Wrap wraps the transport of every HTTP request, for example to sign requests. Nil changes
	// nothing.
	Wrap func(http.RoundTripper) http.RoundTripper
	// Connect bounds TCP and TLS (10 s), Open the wait for the endpoint event (30 s), and Send a
	// POST (30 s). Zero means the default in parentheses.
	Connect, Open, Send time.Duration
	// MaxMessage bounds one message of the server, in bytes; zero means
	// streamable.DefaultMaxResponse. MaxKey is the name of the setting in errors, "" if there is
	// none.
	MaxMessage int64
	MaxKey     string
	// Room counts the bytes of messages; nil sets no bound.
	Room *memory.Account
	// Logger gets failures; nil discards them.
	Logger *slog.Logger
}

// ClientStream is a connection to one server of 2024-11-05. It is an mcp.Stream below an mcp.Conn:
//
//	stream, err := sse.Dial(ctx, sse.ClientOptions{URL: "http://…/sse"})
//	conn := mcp.NewConn(stream, mcp.ConnOptions{Client: true})
//	hello, err := mcp.Handshake(ctx, conn, nil, nil, "")
//
// Each Write is a POST. POSTs arrive in order as long as the server answers each within a second. A
// server that does the work first and answers the POST afterwards does not delay later messages. If
// the server refuses the POST of a request, the request gets an error response. If a POST fails for
// a reason that concerns the connection, the connection ends.
type ClientStream struct {
	opts      ClientOptions
	who       string
	http      *http.Client
	closeIdle func() // closes idle connections of the stream's own pool
	endpoint  *url.URL

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup     // the reader and the POSTs; Add under mu
	in     chan *memory.Block // messages for Read
	posts  chan struct{}      // a slot for each POST

	mu     sync.Mutex // guards below
	err    error      // the reason for the stream's end
	closed bool
}

var _ mcp.Stream = (*ClientStream)(nil)

// Dial opens the event stream and waits for the endpoint event. ctx bounds only that. The errors
// are *mcp.Error as in streamable.Dial. If there is no such stream at this URL, the error is an
// mcp.ErrRefused.
func Dial(ctx context.Context, opts ClientOptions) (*ClientStream, error) {
	u, who, err := streamable.ParseURL(opts.Name, opts.URL)
	if err != nil {
		return nil, err
	}
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{{&opts.Connect, 10 * time.Second}, {&opts.Open, 30 * time.Second}, {&opts.Send, 30 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if opts.MaxMessage <= 0 {
		opts.MaxMessage = streamable.DefaultMaxResponse
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	opts.Header = streamable.OwnHeader(opts.Header)
	s := &ClientStream{opts: opts, who: who, in: make(chan *memory.Block), posts: make(chan struct{}, maxPosts)}
	s.http, s.closeIdle = streamable.NewHTTPClient(opts.HTTPClient, opts.Connect)
	streamable.WrapTransport(s.http, opts.Wrap)
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))

	octx, cancel := context.WithTimeout(ctx, opts.Open)
	defer cancel()
	stop := context.AfterFunc(octx, s.cancel)
	resp, events, err := s.open(u)
	if !stop() {
		// The time was up, even if open succeeded.
		if resp != nil {
			resp.Body.Close()
		}
		if err = ctx.Err(); err == nil {
			err = mcp.Errorf(mcp.KindUpstreamTimeout, "%s sent no endpoint event within %s", who, opts.Open)
		}
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	s.wg.Add(1)
	go s.receive(resp.Body, events)
	return s, nil
}

// open sends the GET and reads up to the endpoint event.
func (s *ClientStream) open(u *url.URL) (*http.Response, *streamable.EventReader, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, nil, mcp.Errorf(mcp.KindInvalidParams, "%s: the url cannot be used", s.who)
	}
	req.Header = s.opts.Header.Clone()
	req.Header.Set("Accept", streamable.ContentSSE)
	resp, err := s.http.Do(req)
	if err != nil {
		return nil, nil, streamable.TransportFailure(s.who, err)
	}
	fail := func(err error) (*http.Response, *streamable.EventReader, error) {
		resp.Body.Close()
		return nil, nil, err
	}
	if resp.StatusCode != http.StatusOK {
		err := streamable.StatusFailure(s.who, "the GET of its event stream", resp)
		e := (*mcp.Error)(nil)
		if answer := streamable.AnsweredError(resp); answer != nil && errors.As(err, &e) {
			e.Message += fmt.Sprintf(": %.300s", answer.Message)
		}
		return fail(err)
	}
	if t, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); t != streamable.ContentSSE {
		return fail(mcp.Errorf(mcp.KindUpstreamProtocol, "%s answered the GET of its event stream with the content type %.80q: %w", s.who, t, mcp.ErrRefused))
	}
	events := streamable.NewEventReader(resp.Body, int(s.opts.MaxMessage))
	if s.opts.Room != nil {
		events.Count(s.ctx, s.opts.Room)
	}
	for {
		ev, err := events.Next()
		if err != nil {
			return fail(s.lost(err))
		}
		if ev.Name != "endpoint" {
			continue
		}
		// A redirect may have led to another path of the origin.
		if s.endpoint, err = endpoint(resp.Request.URL, string(ev.Data)); err != nil {
			return fail(mcp.Errorf(mcp.KindUpstreamUnavailable, "%s %w", s.who, err))
		}
		return resp, events, nil
	}
}

// endpoint resolves the URL of the endpoint event. The URL must have the stream's own origin: the
// configured headers may contain a key, and POSTs contain the agent's messages.
func endpoint(base *url.URL, ref string) (*url.URL, error) {
	if len(ref) > maxEndpoint {
		return nil, errors.New("sent an endpoint event that is no url")
	}
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil || ref == "" {
		return nil, errors.New("sent an endpoint event that is no url")
	}
	if u.Scheme != base.Scheme || origin(u) != origin(base) {
		return nil, errors.New("sent an endpoint on another host or scheme, which weir does not follow")
	}
	if u.User == nil {
		u.User = base.User
	}
	u.Fragment = ""
	return u, nil
}

func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// lost returns the error for the end of the event stream.
func (s *ClientStream) lost(err error) error {
	switch {
	case errors.Is(err, streamable.ErrEventTooLarge):
		text := ""
		if s.opts.MaxKey != "" {
			text = "; raise " + s.opts.MaxKey
		}
		return mcp.Errorf(mcp.KindUpstreamProtocol, "%s sent a message of more than %d bytes%s", s.who, s.opts.MaxMessage, text)
	case errors.As(err, new(*memory.Error)):
		return mcp.NoRoom(s.who, err)
	case errors.Is(err, io.EOF):
		return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s ended its event stream", s.who)
	}
	return &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: s.who + ": the event stream broke", Err: err}
}

// receive hands events to Read until the stream ends.
func (s *ClientStream) receive(body io.ReadCloser, events *streamable.EventReader) {
	defer s.wg.Done()
	stop := context.AfterFunc(s.ctx, func() { body.Close() })
	defer stop()
	defer body.Close()
	for {
		ev, err := events.Next()
		if err != nil {
			if s.ctx.Err() == nil {
				s.end(s.lost(err))
			}
			return
		}
		block := ev.Block
		if block == nil {
			block = memory.Of(ev.Data)
		}
		if block.Size() == 0 || (ev.Name != "" && ev.Name != "message") || ev.Truncated && s.half(block) {
			block.Release()
			continue
		}
		select {
		case s.in <- block:
		case <-s.ctx.Done():
			block.Release()
			return
		}
	}
}

// half reports whether a message at the end of the stream is incomplete.
func (s *ClientStream) half(block *memory.Block) bool {
	data, err := block.Open(s.ctx)
	return err != nil || rawjson.Valid(data) != nil
}

// end stores the reason for the stream's end. Only the first reason counts.
func (s *ClientStream) end(err error) {
	s.mu.Lock()
	if s.err == nil {
		s.err = err
	}
	s.mu.Unlock()
	s.cancel()
}

func (s *ClientStream) reason() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err == nil {
		return io.EOF
	}
	return s.err
}

// Read implements mcp.Stream. After Close it returns io.EOF. Otherwise the error says how the
// connection ended.
func (s *ClientStream) Read() ([]byte, error) {
	block, err := s.next()
	if err != nil {
		return nil, err
	}
	data, err := block.Open(s.ctx)
	if err != nil {
		block.Release()
		return nil, mcp.NoRoom(s.who, err)
	}
	return block.Deliver(s.ctx, data), nil
}

// ReadBlock is Read with the Block that contains the message, which the caller releases. data is
// nil if the message is in a file.
func (s *ClientStream) ReadBlock() (data []byte, block *memory.Block, err error) {
	if block, err = s.next(); err == nil && !block.InFile() {
		data, err = block.Open(s.ctx) // returns at once for a message in memory
	}
	return data, block, err
}

func (s *ClientStream) next() (*memory.Block, error) {
	select {
	case block := <-s.in:
		return block, nil
	case <-s.ctx.Done():
		return nil, s.reason()
	}
}

// Write implements mcp.Stream. It returns when the server has accepted the
// message, or after a second.
func (s *ClientStream) Write(msg []byte) error {
	select {
	case s.posts <- struct{}{}:
	case <-s.ctx.Done():
		return s.reason()
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		<-s.posts
		return s.reason()
	}
	s.wg.Add(1)
	s.mu.Unlock()
	done := make(chan error, 1)
	body := string(msg) // msg is the caller's again once Write returns
	go func() {
		defer s.wg.Done()
		defer func() { <-s.posts }()
		done <- s.post(body)
	}()
	timer := time.NewTimer(postPause)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		return nil
	}
}

// post sends one message. If it returns an error, the connection has ended with that error.
func (s *ClientStream) post(body string) error {
	ctx, cancel := context.WithTimeout(s.ctx, s.opts.Send)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint.String(), strings.NewReader(body))
	if err != nil {
		return mcp.Errorf(mcp.KindUpstreamProtocol, "%s sent an endpoint that cannot be used", s.who)
	}
	req.Header = s.opts.Header.Clone()
	req.Header.Set("Content-Type", streamable.ContentJSON)
	resp, err := s.http.Do(req)
	if err == nil && resp.StatusCode < 300 {
		// The body of an answer is ignored: responses arrive as events.
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10)
		resp.Body.Close()
		return nil
	}
	switch {
	case err == nil:
		resp.Body.Close()
		err = streamable.StatusFailure(s.who, "a message", resp)
		if code := resp.StatusCode; code != http.StatusNotFound && code != http.StatusGone && code != http.StatusUnauthorized {
			s.refused([]byte(body), err)
			return nil
		}
		if resp.StatusCode != http.StatusUnauthorized {
			// The session is lost: a new connection starts a new one.
			err = mcp.Errorf(mcp.KindUpstreamUnavailable, "%v", err)
		}
	case s.ctx.Err() != nil:
		return s.reason()
	case ctx.Err() != nil:
		err = mcp.Errorf(mcp.KindUpstreamTimeout, "%s did not accept a message within %s", s.who, s.opts.Send)
	default:
		// The error ends every call of the connection. The server did get some of them, so the
		// error must not say that they were not sent.
		err = streamable.TransportFailure(s.who, err)
		if e := (*mcp.Error)(nil); errors.As(err, &e) {
			e.Err = nil
		}
	}
	s.end(err)
	return err
}

// refused handles a message that the server refused. A request gets an error response; anything
// else is logged.
func (s *ClientStream) refused(msg []byte, err error) {
	m, parseErr := jsonrpc.Parse(msg)
	if parseErr != nil || m.Kind() != jsonrpc.Request {
		s.opts.Logger.Warn("a message was not accepted", "peer", s.who, "method", m.Method, "err", err)
		return
	}
	select {
	case s.in <- memory.Of(jsonrpc.AppendError(nil, m.ID, mcp.WireError(err, mcp.V20241105))):
	case <-s.ctx.Done():
	}
}

// Close implements mcp.Stream. It closes the event stream, which the server notices, and waits for
// the stream's goroutines.
func (s *ClientStream) Close() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.wg.Wait()
	s.closeIdle()
	return nil
}
