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

	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/mcp/sse"
	"github.com/weir-mcp/weir/mcp/stdio"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// sharedCapabilities are weir's declared capabilities on a connection that sessions share: all
// those that a client may have.
var sharedCapabilities = json.RawMessage(`{"roots":{},"sampling":{},"elicitation":{"form":{},"url":{}}}`)

// greetingError is the error of a server that answered but rejected the handshake. It may still
// accept the other era's.
type greetingError struct{ error }

func (e greetingError) Unwrap() error { return e.error }

// connect makes one attempt to get a connection for a slot. It ends when the slot does. A program
// that has not been listed yet waits for its turn first; that wait is not part of StartTimeout. Other
// programs have none, because a call waits for them.
func (srv *server) connect(s *slot, version string) (*link, error) {
	if srv.program() && s.isShared() && !s.conns.lists.listed.Load() {
		leave, err := srv.opts.turns.take(s.ctx)
		if err != nil {
			return nil, err
		}
		defer leave()
	}
	ctx, cancel := context.WithTimeout(s.ctx, srv.opts.StartTimeout)
	defer cancel()
	s.credential.choose()
	var l *link
	var err error
	switch {
	case srv.cfg.URL != "" && srv.program():
		l, err = srv.connectProgramAt(ctx, s, version)
	case placedBy(srv) && s.key.principal != "":
		l, err = connectPlaced(ctx, srv, s, version)
	case srv.cfg.OpenAPI.Document != "":
		l, err = connectAPI(ctx, s)
	case srv.cfg.URL != "":
		l, err = srv.connectURL(ctx, s, version)
	default:
		l, err = srv.connectProgram(ctx, s, version)
	}
	if errors.Is(err, mcp.ErrLoop) && !errors.Is(err, mcp.ErrFinal) {
		err = srv.leadsBack()
	}
	if err != nil {
		return nil, err
	}
	if s.key.modern && !l.hello.Modern {
		srv.noModern.Store(true)
		l.close()
		return nil, errNotModern
	}
	return l, nil
}

// command returns how to start the program of the configuration for the principal of a slot. The
// caller holds the texts of the principal in the command while the program runs.
func (srv *server) command(ctx context.Context, s *slot) (cmd stdio.Command, texts []string, err error) {
	env := slices.Clone(srv.opts.BaseEnv)
	for _, name := range slices.Sorted(maps.Keys(srv.cfg.Env)) {
		value, err := s.credential.text(ctx, srv.cfg.Env[name], &texts)
		if err != nil {
			return stdio.Command{}, nil, err
		}
		env = append(env, name+"="+value)
	}
	env = append(env, srv.opts.Marks...)
	return stdio.Command{
		Name: srv.who, Path: srv.cfg.Command, Args: srv.cfg.Args, Env: env, Dir: srv.cfg.Cwd,
		Keeper: srv.opts.keeper, Grace: srv.opts.StopGrace, Redact: srv.opts.Redact, Logger: srv.opts.Logger,
		MaxMessage: int(srv.maxResponse()), MaxKey: srv.maxResponseKey(), Room: srv.room(),
	}, texts, nil
}

// holdAll calls Options.Hold, which may be nil, for each secret. They are held until release is called.
func holdAll(secrets []string, hold func(secret string) (release func())) (release func()) {
	if hold == nil {
		return func() {}
	}
	var each []func()
	for _, secret := range secrets {
		each = append(each, hold(secret))
	}
	return func() {
		for _, release := range each {
			release()
		}
	}
}

// startProgram starts the program of the configuration for a slot. noInput says that it does not read
// its standard input.
func (srv *server) startProgram(ctx context.Context, s *slot, noInput bool) (*stdio.Process, error) {
	cmd, texts, err := srv.command(ctx, s)
	if err != nil {
		return nil, err
	}
	cmd.NoInput = noInput
	free, err := confine(&srv.opts, srv.cfg, &cmd)
	if err != nil {
		return nil, err
	}
	release, end := holdAll(texts, srv.opts.Hold), func(string) {}
	if srv.opts.Log != nil {
		run := srv.opts.Log.Start(srv.name)
		cmd.Stderr, end = run, run.End
	}
	cmd.Ended = func(how string, stopped bool) {
		if stopped {
			how = "weir stopped it (" + how + ")"
		}
		end(how)
		release()
		free()
	}
	p, err := stdio.Start(cmd)
	if err != nil {
		end(err.Error())
		release()
		free()
	}
	return p, err
}

// confine puts the program of a server into its sandbox.
func confine(o *Options, s *mcpserver.Server, cmd *stdio.Command) (free func(), err error) {
	if !s.Sandbox.On() {
		return func() {}, nil
	}
	if o.Confine == nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s has a sandbox, and this program starts none: remove mcpServers.%s.sandbox, or run it with weir serve", cmd.Name, s.Name)
	}
	free, err = o.Confine(s, cmd)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s is not started: %w", cmd.Name, err)
	}
	return free, nil
}

// connectProgram starts a program and connects to it over its streams.
func (srv *server) connectProgram(ctx context.Context, s *slot, version string) (*link, error) {
	if srv.open != nil {
		stream, err := srv.open(ctx)
		if err != nil {
			return nil, err
		}
		return srv.greet(ctx, s, countedStream{stream, srv}, version, nil)
	}
	if srv.opts.open != nil {
		stream, err := srv.opts.open(srv.cfg)
		if err != nil {
			return nil, err
		}
		return srv.greet(ctx, s, stream, version, nil)
	}
	p, err := srv.startProgram(ctx, s, false)
	if err != nil {
		return nil, err
	}
	untrack := srv.programs.track(p)
	l, err := srv.greet(ctx, s, p, version, p)
	if err != nil {
		untrack()
		return nil, srv.orItself(err, p)
	}
	l.pid = p.Pid()
	end := l.close
	l.close = func() { end(); untrack() }
	return l, nil
}

// greet makes the handshake with the server at the other end of a stream. If that fails, greet
// closes the stream. p is the program of the stream, or nil.
func (srv *server) greet(ctx context.Context, s *slot, stream mcp.Stream, version string, p *stdio.Process) (*link, error) {
	if s.key.session == nil && !s.key.modern {
		stream = watchRoots(stream, srv.foundRoots)
	}
	junk := &junk{srv: srv, printed: p != nil}
	s.greeting.Store(junk)
	copies := 0
	if srv.open != nil {
		copies = attachedCopies
	}
	conn := mcp.NewConn(stream, mcp.ConnOptions{Name: srv.who, Handler: handler{s}, Client: true, Copies: copies, Junk: junk.take, Logger: srv.log})
	hello, err := mcp.Handshake(ctx, conn, srv.opts.ClientInfo, s.capabilities(), version)
	if err != nil {
		err = srv.handshakeError(ctx, err, p, junk)
		_ = conn.Close()
		return nil, err
	}
	return &link{slot: s, peer: conn, hello: hello, done: conn.Done(), err: conn.Err, close: func() { _ = conn.Close() }}, nil
}

// handshakeError returns the error for a failed handshake.
func (srv *server) handshakeError(ctx context.Context, err error, p *stdio.Process, junk *junk) error {
	words := ""
	if p != nil {
		words = p.LastWords()
	}
	hint := junk.hint()
	var wire *jsonrpc.Error
	switch {
	case ctx.Err() != nil && !errors.Is(ctx.Err(), context.Canceled):
		err = mcp.Errorf(mcp.KindUpstreamUnavailable, "%s did not answer initialize within %s%s%s", srv.who, srv.opts.StartTimeout, hint, words)
	case errors.As(err, &wire):
		err = srv.refused(wire, hint+words)
	default:
		message := err.Error() // contains the last words if the program has ended
		if k, _ := mcp.KindOf(err); k != mcp.KindUpstreamUnavailable {
			message = srv.who + ": " + message + words
		} else if hint == "" {
			break
		}
		err = &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Message: message + hint, Err: err}
	}
	return greetingError{err}
}

// refused returns the error of a server that answered the handshake with an error. That error is
// not the answer to the call that waits for the connection.
func (srv *server) refused(wire *jsonrpc.Error, words string) error {
	return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s refused initialize with error %d: %.300s%s", srv.who, wire.Code, srv.opts.Redact(wire.Message), words)
}

// shown returns an error that may repeat a server's text, without secrets.
func (srv *server) shown(err error) error {
	e := (*mcp.Error)(nil)
	if !errors.As(err, &e) {
		return err
	}
	message := srv.opts.Redact(e.Message)
	if message == e.Message {
		return err
	}
	clean := *e
	clean.Message = message
	return &clean
}

// connectURL connects to a server that weir does not run.
func (srv *server) connectURL(ctx context.Context, s *slot, version string) (*link, error) {
	if srv.transport() == mcpserver.TransportSSE {
		return srv.connectSSE(ctx, s)
	}
	l, err := srv.connectHTTP(ctx, s, version)
	if err == nil || !errors.Is(err, mcp.ErrRefused) || ctx.Err() != nil {
		return l, err
	}
	// Servers of 2024-11-05 refuse a POST at the URL of their event stream.
	if l, sseErr := srv.connectSSE(ctx, s); sseErr == nil {
		srv.log.Info("the server speaks HTTP+SSE only; set its type to sse")
		srv.viaSSE.Store(true)
		return l, nil
	}
	return nil, err
}

// headerOf returns the headers that are the same for all callers.
func headerOf(cfg *mcpserver.Server) http.Header {
	h := make(http.Header, len(cfg.Headers))
	for name, value := range cfg.Headers {
		if !mcpserver.HasUserText(value) {
			h.Set(name, value.Reveal())
		}
	}
	return h
}

func (srv *server) connectHTTP(ctx context.Context, s *slot, version string) (*link, error) {
	var agent *agentTasks
	wrap := srv.wrap(s)
	if srv.TellsAgentTasks() {
		agent = &agentTasks{srv: srv}
		wrap = agent.over(wrap)
	}
	l, err := dial(ctx, srv, s, version, srv.cfg.URL, wrap)
	if err == nil {
		l.agent = agent
	}
	return l, err
}

// dial connects to a URL by streamable HTTP. wrap, which may be nil, is applied to its transport.
func dial(ctx context.Context, srv *server, s *slot, version, url string, wrap func(http.RoundTripper) http.RoundTripper) (*link, error) {
	c, err := streamable.Dial(ctx, streamable.ClientOptions{
		URL: url, Name: srv.who, Header: srv.header, ClientInfo: srv.opts.ClientInfo, Capabilities: s.capabilities(),
		ProtocolVersion: version, Handler: handler{s}, ParamHeaders: s.setParamHeaders, Logger: srv.log,
		Timeouts: streamable.ClientTimeouts{Handshake: srv.opts.StartTimeout}, Wrap: wrap,
		MaxResponse: srv.maxResponse(), MaxResponseKey: srv.maxResponseKey(), Room: srv.room(),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s did not answer the handshake within %s", srv.who, srv.opts.StartTimeout)
		}
		if wire := (*jsonrpc.Error)(nil); errors.As(err, &wire) {
			return nil, srv.refused(wire, "")
		}
		return nil, srv.shown(err)
	}
	return &link{slot: s, peer: c, hello: c.Hello(), http: true, done: c.Done(), err: c.Err, close: func() { _ = c.Close() }}, nil
}

// wrap returns a function that applies Options.Transport to the transport of a slot's connection, or replaces it
// by the transport of Options.Way, nil if neither is set.
func (srv *server) wrap(s *slot) func(http.RoundTripper) http.RoundTripper {
	if srv.opts.Way != nil {
		if way := srv.opts.Way(srv.cfg); way != nil {
			return func(http.RoundTripper) http.RoundTripper { return way }
		}
	}
	if srv.opts.Transport == nil {
		return nil
	}
	return func(base http.RoundTripper) http.RoundTripper {
		return srv.opts.Transport(srv.name, s.credential.owner(), base)
	}
}

func (srv *server) connectSSE(ctx context.Context, s *slot) (*link, error) {
	stream, err := sse.Dial(ctx, sse.ClientOptions{
		URL: srv.cfg.URL, Name: srv.who, Header: srv.header, Wrap: srv.wrap(s), Logger: srv.log, MaxMessage: srv.maxResponse(), MaxKey: srv.maxResponseKey(), Room: srv.room(),
	})
	if err != nil {
		if ctx.Err() != nil {
			return nil, mcp.Errorf(mcp.KindUpstreamUnavailable, "%s did not open its event stream within %s", srv.who, srv.opts.StartTimeout)
		}
		return nil, srv.shown(err)
	}
	return srv.greet(ctx, s, stream, "", nil)
}

// connectProgramAt connects to the URL of the upstream's program as soon as the program serves. It
// starts the program if it is not running.
func (srv *server) connectProgramAt(ctx context.Context, s *slot, version string) (*link, error) {
	if s.program != nil && s.program.exited() {
		s.leaveProgram(false)
	}
	if s.program == nil {
		start := func() (*stdio.Process, error) { return srv.startProgram(ctx, s, true) }
		g, err := srv.programs.use(ctx, start, func(line []byte) {
			srv.log.Debug("stdout", "line", srv.opts.Redact(string(line[:min(len(line), 1024)])))
		})
		if err != nil {
			return nil, err
		}
		s.program = g
	}
	p := s.program.p
	l, err := srv.dialProgram(ctx, s, p, version)
	if err != nil {
		return nil, srv.orItself(err, p)
	}
	// The link ends with the first of the two.
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
			return srv.exited(p)
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

func (srv *server) exited(p *stdio.Process) error {
	return mcp.Errorf(mcp.KindUpstreamUnavailable, "%s: its program ended%s", srv.who, p.LastWords())
}

// dialProgram tries to connect until the program answers, ends, or ctx does.
func (srv *server) dialProgram(ctx context.Context, s *slot, p *stdio.Process, version string) (*link, error) {
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
		l, err := srv.connectURL(ctx, s, version)
		select {
		case <-p.Exited():
			// The answer at the URL came from another program.
			if err == nil {
				l.close()
			}
			return nil, srv.exited(p)
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
			return nil, srv.exited(p)
		default:
		}
		return nil, &mcp.Error{Kind: mcp.KindUpstreamUnavailable, Err: err,
			Message: srv.who + " does not answer at its url although its program runs: " + err.Error() + p.LastWords()}
	}
}

// rootsRequest occurs in each request for roots.
var rootsRequest = []byte(`"roots/list"`)

// watchRoots calls found when the server at the other end of a stream requests roots. A connection
// that sessions share may refuse such a request without calling a handler, so watchRoots looks for
// it in the stream itself.
func watchRoots(stream mcp.Stream, found func()) mcp.Stream {
	w := rootsWatch{Stream: stream, found: found}
	w.blocks, _ = stream.(blockStream)
	if b, ok := stream.(batch); ok {
		return struct {
			rootsWatch
			batch
		}{w, b}
	}
	return w
}

type batch interface {
	WriteAll(msgs [][]byte, wait bool) (bool, error)
}

type blockStream interface {
	ReadBlock() (data []byte, block *memory.Block, err error)
}

type rootsWatch struct {
	mcp.Stream
	blocks blockStream // Stream, if it has ReadBlock
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

// ReadBlock is Read of a Stream whose messages may be in files. A message in a file is never a
// request for roots.
func (w rootsWatch) ReadBlock() ([]byte, *memory.Block, error) {
	if w.blocks == nil {
		msg, err := w.Read()
		return msg, nil, err
	}
	msg, block, err := w.blocks.ReadBlock()
	if err == nil {
		w.look(msg)
	}
	return msg, block, err
}

func (w rootsWatch) look(msg []byte) {
	if !bytes.Contains(msg, rootsRequest) {
		return
	}
	if m, err := jsonrpc.Parse(msg); err == nil && m.Method == "roots/list" && m.ID != "" {
		w.found()
	}
}
