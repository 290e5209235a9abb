package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/sse"
	"github.com/weir-mcp/weir/mcp/stdio"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// sharedCapabilities is what weir declares on a connection that sessions share:
// what one of their clients may be able to answer.
var sharedCapabilities = json.RawMessage(`{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}`)

// greetingError is the error of a server that was there and did not take the
// greeting: it may take that of the other era.
type greetingError struct{ error }

func (e greetingError) Unwrap() error { return e.error }

// process is what is left of a program besides its streams.
type process interface{ Kill() }

// connect makes one attempt to get a connection. It ends when the slot does.
func (u *Upstream) connect(s *slot, version string) (*link, error) {
	ctx, cancel := context.WithTimeout(s.ctx, u.opts.StartTimeout)
	defer cancel()
	var l *link
	var err error
	switch {
	case u.cfg.URL != "" && u.program():
		l, err = u.connectProgramAt(ctx, s, version)
	case u.cfg.URL != "":
		l, err = u.connectURL(ctx, s, version)
	default:
		l, err = u.connectProgram(ctx, s, version)
	}
	if errors.Is(err, mcp.ErrLoop) && !errors.Is(err, mcp.ErrFinal) {
		err = u.leadsBack()
	}
	if err != nil {
		return nil, err
	}
	if s.key.modern && !l.hello.Modern {
		u.noModern.Store(true)
		l.close()
		return nil, errNotModern
	}
	return l, nil
}

// command is how the program of the configuration is started.
func (u *Upstream) command() stdio.Command {
	env := slices.Clone(u.opts.BaseEnv)
	for _, name := range slices.Sorted(maps.Keys(u.cfg.Env)) {
		env = append(env, name+"="+u.cfg.Env[name].Reveal())
	}
	env = append(env, u.opts.Marks...)
	return stdio.Command{
		Name: u.who, Path: u.cfg.Command, Args: u.cfg.Args, Env: env, Dir: u.cfg.Cwd,
		Keeper: u.opts.keeper, Grace: u.opts.StopGrace, Redact: u.opts.Redact, Logger: u.opts.Logger,
		MaxMessage: int(u.maxResponse()), MaxKey: u.maxResponseKey(), Room: u.room(),
	}
}

// track has kill reach p until untrack is called.
func (u *Upstream) track(p process) (untrack func()) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.processes[p] = struct{}{}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.processes, p)
	}
}

// connectProgram starts a program and speaks to it over its streams.
func (u *Upstream) connectProgram(ctx context.Context, s *slot, version string) (*link, error) {
	if u.open != nil {
		stream, err := u.open(ctx)
		if err != nil {
			return nil, err
		}
		return u.greet(ctx, s, stream, version, nil)
	}
	if u.opts.open != nil {
		stream, err := u.opts.open(u.cfg)
		if err != nil {
			return nil, err
		}
		return u.greet(ctx, s, stream, version, nil)
	}
	p, err := stdio.Start(u.command())
	if err != nil {
		return nil, err
	}
	untrack := u.track(p)
	l, err := u.greet(ctx, s, p, version, p)
	if err != nil {
		untrack()
		return nil, u.orItself(err, p)
	}
	l.pid = p.Pid()
	end := l.close
	l.close = func() { end(); untrack() }
	return l, nil
}

// greet speaks to the server at the other end of a stream, which it closes where
// that fails. p is the program that the stream is of, or nil.
func (u *Upstream) greet(ctx context.Context, s *slot, stream mcp.Stream, version string, p *stdio.Process) (*link, error) {
	if s.isShared() {
		stream = watchRoots(stream, u.foundRoots)
	}
	junk := &junk{u: u, printed: p != nil}
	s.greeting.Store(junk)
	conn := mcp.NewConn(stream, mcp.ConnOptions{Name: u.who, Handler: handler{s}, Client: true, Junk: junk.take, Logger: u.log})
	hello, err := mcp.Handshake(ctx, conn, u.opts.ClientInfo, s.capabilities(), version)
	if err != nil {
		err = u.handshakeError(ctx, err, p, junk)
		_ = conn.Close()
		return nil, err
	}
	return &link{slot: s, peer: conn, hello: hello, done: conn.Done(), err: conn.Err, close: func() { _ = conn.Close() }}, nil
}

// handshakeError says what was wrong with the greeting of a server.
func (u *Upstream) handshakeError(ctx context.Context, err error, p *stdio.Process, junk *junk) error {
	words := ""
	if p != nil {
		words = p.LastWords()
	}
	hint := junk.hint()
	var wire *jsonrpc.Error
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled):
		err = mcp.Errorf(mcp.KindUpstreamUnavailable, "%s did not answer initialize within %s%s%s", u.who, u.opts.StartTimeout, hint, words)
	case errors.As(err, &wire):
		err = u.refused(wire, hint+words)
	default:
		message := err.Error() // which bears the last words where the program has ended
		if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable {
			message = u.who + ": " + message + words
		} else if hint == "" {
			break
		}
		err = &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: message + hint, Err: err}
	}
	return greetingError{err}
}

// refused is the error of a server that answered the greeting with an error, which
// is no answer to the call that waits for the connection.
func (u *Upstream) refused(wire *jsonrpc.Error, words string) error {
	return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s refused initialize with error %d: %.300s%s", u.who, wire.Code, u.opts.Redact(wire.Message), words)
}

// shown is an error that may repeat what a server said, without secrets.
func (u *Upstream) shown(err error) error {
	e := (*mcp.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	message := u.opts.Redact(e.Message)
	if message == e.Message {
		return err
	}
	clean := *e
	clean.Message = message
	return &clean
}

// connectURL connects to a server that runs elsewhere.
func (u *Upstream) connectURL(ctx context.Context, s *slot, version string) (*link, error) {
	if u.transport() == config.TransportSSE {
		return u.connectSSE(ctx, s)
	}
	l, err := u.connectHTTP(ctx, s, version)
	if err == nil || !errors.Is(err, mcp.ErrRefused) || ctx.Err() != nil {
		return l, err
	}
	// Servers of 2024-11-05 refuse a POST at the URL of their event stream.
	if l, sseErr := u.connectSSE(ctx, s); sseErr == nil {
		u.log.Info("the server speaks HTTP+SSE only; set its type to sse")
		u.viaSSE.Store(true)
		return l, nil
	}
	return nil, err
}

func (u *Upstream) transport() config.Transport {
	if u.viaSSE.Load() {
		return config.TransportSSE
	}
	return transportOf(u.cfg)
}

func headerOf(cfg *config.Server) http.Header {
	h := make(http.Header, len(cfg.Headers))
	for name, value := range cfg.Headers {
		h.Set(name, value.Reveal())
	}
	return h
}

func (u *Upstream) connectHTTP(ctx context.Context, s *slot, version string) (*link, error) {
	c, err := streamable.Dial(ctx, streamable.ClientOptions{
		URL: u.cfg.URL, Name: u.who, Header: u.header, ClientInfo: u.opts.ClientInfo, Capabilities: s.capabilities(),
		ProtocolVersion: version, Handler: handler{s}, ParamHeaders: u.setParamHeaders, Logger: u.log,
		Timeouts: streamable.ClientTimeouts{Handshake: u.opts.StartTimeout}, Wrap: u.wrap(s),
		MaxResponse: u.maxResponse(), MaxResponseKey: u.maxResponseKey(), Room: u.room(),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s did not answer the handshake within %s", u.who, u.opts.StartTimeout)
		}
		if wire := (*jsonrpc.Error)(nil); errors.As(err, &wire) {
			return nil, u.refused(wire, "")
		}
		return nil, u.shown(err)
	}
	return &link{slot: s, peer: c, hello: c.Hello(), http: true, done: c.Done(), err: c.Err, close: func() { _ = c.Close() }}, nil
}

// wrap is what Options.Transport puts around the transport of a slot's
// connection, nil where it is not set.
func (u *Upstream) wrap(s *slot) func(http.RoundTripper) http.RoundTripper {
	if u.opts.Transport == nil {
		return nil
	}
	return func(base http.RoundTripper) http.RoundTripper { return u.opts.Transport(u.name, s.key.session, base) }
}

func (u *Upstream) connectSSE(ctx context.Context, s *slot) (*link, error) {
	stream, err := sse.Dial(ctx, sse.ClientOptions{
		URL: u.cfg.URL, Name: u.who, Header: u.header, Wrap: u.wrap(s), Logger: u.log, MaxMessage: u.maxResponse(), MaxKey: u.maxResponseKey(), Room: u.room(),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s did not open its event stream within %s", u.who, u.opts.StartTimeout)
		}
		return nil, u.shown(err)
	}
	return u.greet(ctx, s, stream, "", nil)
}

// connectProgramAt connects to the URL at which the upstream's program serves, as
// soon as it does, and starts the program where it does not run.
func (u *Upstream) connectProgramAt(ctx context.Context, s *slot, version string) (*link, error) {
	if s.program != nil && s.program.exited() {
		s.leaveProgram(false)
	}
	if s.program == nil {
		g, err := u.useProgram(ctx)
		if err != nil {
			return nil, err
		}
		s.program = g
	}
	p := s.program.p
	l, err := u.dialProgram(ctx, s, p, version)
	if err != nil {
		return nil, u.orItself(err, p)
	}
	// The link ends with whichever ends first.
	lctx, cancel := context.WithCancel(context.Background())
	peer := l.done
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		defer cancel()
		select {
		case <-p.Exited():
		case <-peer:
		case <-lctx.Done():
		}
	}()
	peerErr, peerClose := l.err, l.close
	l.pid, l.done = p.Pid(), lctx.Done()
	l.err = func() error {
		select {
		case <-p.Exited():
			return u.exited(p)
		default:
			return peerErr()
		}
	}
	l.close = func() {
		cancel()
		<-watched
		peerClose()
	}
	return l, nil
}

func (u *Upstream) exited(p *stdio.Process) error {
	return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: its program ended%s", u.who, p.LastWords())
}

// dialProgram tries to connect until the program answers, ends, or ctx does.
func (u *Upstream) dialProgram(ctx context.Context, s *slot, p *stdio.Process, version string) (*link, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := make(chan struct{})
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-p.Exited():
			cancel()
		case <-stop:
		}
	}()
	defer func() { close(stop); <-watched }()
	for wait := 20 * time.Millisecond; ; wait = min(2*wait, 500*time.Millisecond) {
		l, err := u.connectURL(ctx, s, version)
		select {
		case <-p.Exited():
			// Whatever answered at the URL, it was not this program.
			if err == nil {
				l.close()
			}
			return nil, u.exited(p)
		default:
		}
		if err == nil {
			return l, nil
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
			continue
		case <-ctx.Done():
			timer.Stop()
		}
		select {
		case <-p.Exited():
			return nil, u.exited(p)
		default:
		}
		return nil, &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Err: err,
			Message: u.who + " does not answer at its url although its program runs: " + err.Error() + p.LastWords()}
	}
}

// rootsRequest is what a message that asks for roots holds.
var rootsRequest = []byte(`"roots/list"`)

// watchRoots calls found when the server at the other end of a stream asks for
// roots. A connection that sessions share may refuse such a request without
// handing it to anybody, so it is looked for in the stream itself.
func watchRoots(stream mcp.Stream, found func()) mcp.Stream {
	w := rootsWatch{Stream: stream, found: found}
	w.blocks, _ = stream.(blockStream)
	if b, ok := stream.(interface{ WriteAll([][]byte) error }); ok {
		return struct {
			rootsWatch
			batch
		}{w, b}
	}
	return w
}

type batch interface{ WriteAll(msgs [][]byte) error }

type blockStream interface {
	ReadBlock() (*memory.Block, error)
}

type rootsWatch struct {
	mcp.Stream
	blocks blockStream // Stream, where it has them
	found  func()
}

// Read implements mcp.Stream.
func (w rootsWatch) Read() ([]byte, error) {
	msg, err := w.Stream.Read()
	if err == nil {
		w.look(msg)
	}
	return msg, err
}

// ReadBlock is Read of a Stream whose messages may be in files. What is in a file
// is no question for roots.
func (w rootsWatch) ReadBlock() (*memory.Block, error) {
	if w.blocks == nil {
		msg, err := w.Read()
		if err != nil {
			return nil, err
		}
		return memory.Of(msg), nil
	}
	block, err := w.blocks.ReadBlock()
	if err == nil && !block.InFile() {
		if msg, err := block.Open(context.Background()); err == nil { // of what is in memory, at once
			w.look(msg)
		}
	}
	return block, err
}

func (w rootsWatch) look(msg []byte) {
	if !bytes.Contains(msg, rootsRequest) {
		return
	}
	if m, err := jsonrpc.Parse(msg); err == nil && m.Method == "roots/list" && m.ID != "" {
		w.found()
	}
}
