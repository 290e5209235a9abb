package fakemcp

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// client is the server's state of one client: an HTTP session or one connection. In the modern era
// over HTTP, all clients are one.
type client struct {
	counter     atomic.Int64
	calls       atomic.Int64 // tools/call so far
	initialized atomic.Bool

	mu       sync.Mutex // guards below
	inFlight map[string]context.CancelCauseFunc
	asks     map[string]chan message // answers that tools wait for, by the id of the question

	push     chan []byte   // messages for the GET stream of an HTTP session
	attached atomic.Bool   // there is such a stream
	lost     chan struct{} // closed when the session is forgotten
}

func newClient() *client {
	return &client{
		inFlight: map[string]context.CancelCauseFunc{},
		asks:     map[string]chan message{},
		push:     make(chan []byte, 64),
		lost:     make(chan struct{}),
	}
}

// begin registers a call so that it can be cancelled.
func (c *client) begin(ctx context.Context, id []byte) (context.Context, func(), *rpcError) {
	ctx, cancel := context.WithCancelCause(ctx)
	key := string(id)
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, double := c.inFlight[key]; {
	case double:
		cancel(nil)
		return nil, nil, &rpcError{code: codeInvalidRequest, message: "the id " + key + " is in flight already"}
	case len(c.inFlight) >= maxInFlight:
		cancel(nil)
		return nil, nil, &rpcError{code: codeInternal, message: "too many calls in flight"}
	}
	c.inFlight[key] = cancel
	return ctx, func() {
		c.mu.Lock()
		delete(c.inFlight, key)
		c.mu.Unlock()
		cancel(nil)
	}, nil
}

func (c *client) cancel(id []byte) {
	c.mu.Lock()
	cancel := c.inFlight[string(id)]
	c.mu.Unlock()
	if cancel != nil {
		cancel(errCancelled)
	}
}

// stop ends every call in flight.
func (c *client) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cancel := range c.inFlight {
		cancel(errStopped)
	}
}

// answer hands a response of the client to the tool that asked.
func (c *client) answer(m message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ch := c.asks[string(unquote(m.id))]; ch != nil {
		select {
		case ch <- m:
		default: // answered twice
		}
	}
}

// call is one request being served.
type call struct {
	*message
	server *Server
	client *client
	send   func(msgs ...[]byte) error // messages that belong to the call, in order
	deaf   bool                       // the client takes no messages but the answer; send drops them
	gone   <-chan struct{}            // closed when the listener is gone

	resultType string // of a modern result; "complete" if empty
}

// read reads one message. A server that speaks no modern version does not know the modern members
// of _meta.
func (s *Server) read(b []byte) (m message, ok bool) {
	m, ok = parse(b)
	if m.version != nil && !s.speaks(Modern) {
		m.version = nil
	}
	return m, ok
}

// waits reports whether serving m may block or send messages ahead of the answer, so that it
// needs a goroutine, or an event stream, of its own.
func (s *Server) waits(m *message) bool {
	switch string(m.method) {
	case "tools/call":
		t := s.tools[string(m.name)]
		return t != nil && t.waits
	case "subscriptions/listen":
		return true
	case "initialize", "server/discover":
		return s.cfg.StartDelay > 0 || s.cfg.ListChangedBeforeInit || s.hangs(m)
	}
	return false
}

// streams reports whether messages may come ahead of the answer to m.
func (s *Server) streams(m *message) bool {
	switch string(m.method) {
	case "initialize", "server/discover":
		return (s.cfg.Stream || s.cfg.ListChangedBeforeInit) && !s.hangs(m)
	}
	return s.cfg.Stream || s.waits(m)
}

func (s *Server) hangs(m *message) bool {
	discover := string(m.method) == "server/discover"
	return s.cfg.Init == InitHang || s.cfg.Init == InitHangDiscover && discover
}

// serve answers a request: it appends the response to dst, or nothing where the request gets
// none. The error, if any, is the one in the response.
func (s *Server) serve(ctx context.Context, c *call, dst []byte) ([]byte, *rpcError) {
	start := len(dst)
	dst = append(dst, `{"jsonrpc":"2.0","id":`...)
	dst = append(dst, c.id...)
	dst = append(dst, `,"result":{`...)
	empty := len(dst)
	dst, fault := s.method(ctx, c, dst)
	switch {
	case fault == errSilent:
		return dst[:start], nil
	case fault != nil:
		return appendError(dst[:start], c.id, fault), fault
	case c.modern():
		if len(dst) > empty {
			dst = append(dst, ',')
		}
		dst = append(dst, `"resultType":"`...)
		if c.resultType == "" {
			dst = append(dst, "complete"...)
		}
		dst = append(dst, c.resultType...)
		dst = append(dst, `","_meta":{"io.modelcontextprotocol/serverInfo":`...)
		dst = append(append(dst, s.info...), '}')
	}
	return append(dst, "}}"...), nil
}

func appendError(dst, id []byte, e *rpcError) []byte {
	if id == nil {
		id = []byte("null")
	}
	dst = append(append(dst, `{"jsonrpc":"2.0","id":`...), id...)
	dst = append(dst, `,"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.code), 10)
	dst = appendString(append(dst, `,"message":`...), e.message)
	if e.data != "" {
		dst = append(append(dst, `,"data":`...), e.data...)
	}
	return append(dst, "}}"...)
}

// errSilent is the error of a method that answers nothing: it was cancelled, or it hangs.
var errSilent = &rpcError{message: "no answer"}

// method appends the members of the result.
func (s *Server) method(ctx context.Context, c *call, dst []byte) ([]byte, *rpcError) {
	method := string(c.method)
	if method == "server/discover" {
		s.record("discover")
		if fault := s.beginning(ctx, c); fault != nil {
			return dst, fault
		}
	}
	if c.modern() {
		if string(c.version) != Modern {
			return dst, s.unsupported(string(c.version))
		}
		if c.capabilities == nil {
			return dst, &rpcError{code: codeInvalidParams, message: "_meta has no io.modelcontextprotocol/clientCapabilities"}
		}
	}
	switch {
	case method == "tools/call":
		return s.callTool(ctx, c, dst)
	case method == "tools/list":
		return s.list(c, dst)
	case method == "server/discover" && s.speaks(Modern):
		if !c.modern() {
			return dst, &rpcError{code: codeInvalidParams, message: "_meta has no io.modelcontextprotocol/protocolVersion"}
		}
		return fmt.Appendf(dst, `"supportedVersions":%s,%s,"ttlMs":0,"cacheScope":"public"`, s.versions(), capabilities), nil
	case method == "initialize" && !c.modern() && s.speaksLegacy():
		return s.initialize(ctx, c, dst)
	case (method == "ping" || method == "logging/setLevel") && !c.modern():
		return dst, nil
	case method == "subscriptions/listen" && c.modern():
		return s.listen(ctx, c, dst)
	default:
		return dst, &rpcError{code: codeMethodNotFound, message: "no method " + method}
	}
}

func (s *Server) unsupported(version string) *rpcError {
	return &rpcError{
		code: codeUnsupportedVersion, message: "unsupported protocol version",
		data: fmt.Sprintf(`{"supported":%s,"requested":%s}`, s.versions(), appendString(nil, version)),
	}
}

func (s *Server) versions() string { return `["` + strings.Join(s.cfg.Versions, `","`) + `"]` }

const capabilities = `"capabilities":{"tools":{"listChanged":true},"logging":{}}`

// beginning applies Config to the first request of a connection.
func (s *Server) beginning(ctx context.Context, c *call) *rpcError {
	discover := string(c.method) == "server/discover"
	switch {
	case s.hangs(c.message):
		select {
		case <-ctx.Done():
		case <-c.gone:
		}
		return errSilent
	case s.cfg.Init == InitExit, s.cfg.Init == InitExitDiscover && discover:
		fmt.Fprintf(s.cfg.Stderr, "fakemcp: told to exit on %s\n", c.method)
		s.cfg.Exit(1)
		return errSilent
	case s.cfg.Init == InitError:
		return &rpcError{code: codeInternal, message: "fakemcp: told to refuse " + string(c.method)}
	}
	if s.cfg.StartDelay > 0 {
		timer := time.NewTimer(s.cfg.StartDelay)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return errSilent
		}
	}
	if s.cfg.ListChangedBeforeInit && !discover {
		// A listener that is gone is a failure of the answer, not of this message.
		_ = c.send(listChanged(nil))
	}
	return nil
}

func (s *Server) initialize(ctx context.Context, c *call, dst []byte) ([]byte, *rpcError) {
	s.record("initialize " + string(c.asked))
	if fault := s.beginning(ctx, c); fault != nil {
		return dst, fault
	}
	version := string(c.asked)
	if version == Modern || !s.speaks(version) {
		i := slices.IndexFunc(s.cfg.Versions, func(v string) bool { return v != Modern })
		version = s.cfg.Versions[i]
	}
	c.client.initialized.Store(true)
	return fmt.Appendf(dst, `"protocolVersion":"%s",%s,"serverInfo":%s`, version, capabilities, s.info), nil
}

// listen keeps a subscription open until it is cancelled or the listener is gone.
func (s *Server) listen(ctx context.Context, c *call, dst []byte) ([]byte, *rpcError) {
	wanted := string(member(c.notifications, "toolsListChanged")) == "true"
	ack := fmt.Appendf(nil, `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"_meta":`+
		`{"io.modelcontextprotocol/subscriptionId":%s},"notifications":{"toolsListChanged":%v}}}`, c.id, wanted)
	// Report all changes from now on: the client relies on that after the acknowledgement.
	var changes chan []byte
	if wanted {
		// A slow reader must not hold up the tool that announces: it loses messages instead.
		changes = make(chan []byte, 16)
		defer s.subscribe(&subscription{id: bytes.Clone(c.id), send: func(msg []byte) {
			select {
			case changes <- msg:
			default:
			}
		}})()
	}
	if err := c.send(ack); err != nil {
		return dst, errSilent
	}
	for {
		select {
		case msg := <-changes:
			if err := c.send(msg); err != nil {
				return dst, errSilent
			}
		case <-ctx.Done():
			return dst, errSilent
		case <-c.gone:
			return dst, errSilent
		}
	}
}
