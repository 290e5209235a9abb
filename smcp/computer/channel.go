package computer

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Bounds of channels.
const (
	maxChannels        = 256
	maxChannelMessages = 4096
	maxChannelBytes    = 64 << 20
)

// channel is one client:mcp session with an MCP server: the Computer's end of an Agent's stream.
//
//	client:mcp ─▶ queue ─▶ mcp.Conn ─▶ Serve: forbidden, confirm, sign ─▶ upstream.Upstream
//	server:mcp ◀────────────── Conn ◀────────────────────────────────────────┘
type channel struct {
	c        *Computer
	id       string
	agentSID string
	server   *Server
	session  *mcp.Session
	conn     *mcp.Conn
	relay    bridge.Relay
	ready    chan struct{} // capacity 1
	over     chan struct{} // closed by Close

	mu     sync.Mutex // guards below
	queue  [][]byte
	size   int
	closed bool
	reason string // sent to the Agent; "" if the Agent closed the channel
}

var (
	_ mcp.Stream  = (*channel)(nil)
	_ mcp.Handler = (*channel)(nil)
)

// open starts a channel.
func (o *office) open(req smcp.MCPRequest) error {
	s := o.c.catalog.server(req.Server)
	var up *upstream.Upstream
	if s != nil && !s.Disabled {
		up, _ = o.c.manager.Upstream(s.Name)
	}
	if up == nil {
		e := smcp.Errorf(smcp.CodeNoServer, "MCP server '%s' not found", clipName(req.Server))
		e.Server = clipName(req.Server)
		return e
	}
	ch := &channel{
		c: o.c, id: req.Channel, agentSID: req.AgentSID, server: s, session: mcp.NewSession(req.Channel, smcpAgent(req.Call)),
		relay: bridge.Relay{Name: s.Name, Server: up, Logger: o.c.log}, ready: make(chan struct{}, 1), over: make(chan struct{}),
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return a2c.ErrInternal
	case o.channels[ch.id] != nil:
		return smcp.Errorf(smcp.CodeInvalid, "This channel is open already")
	case len(o.channels) >= maxChannels:
		return smcp.Errorf(smcp.CodeBusy, "%d channels are open, which is the bound", len(o.channels))
	}
	o.channels[ch.id] = ch
	o.c.wg.Go(ch.run)
	return nil
}

// run serves the channel until it ends.
func (ch *channel) run() {
	ch.conn = mcp.NewConn(ch, mcp.ConnOptions{Name: "the agent", Handler: ch, Session: ch.session, Drain: time.Millisecond, Logger: ch.c.log})
	<-ch.conn.Done()
	_ = ch.conn.Close() // the stream's error is known
	ch.mu.Lock()
	reason := ch.reason
	ch.mu.Unlock()
	ch.session.Close()
	ch.relay.Close()
	o := &ch.c.office
	o.mu.Lock()
	if o.channels[ch.id] == ch {
		delete(o.channels, ch.id)
	}
	o.mu.Unlock()
	if reason != "" {
		ch.c.office.sendMCP(smcp.MCPMessage{Channel: ch.id, AgentSID: ch.agentSID, Closed: reason})
	}
}

// end closes the channel and reports the reason to the Agent.
func (ch *channel) end(reason string) {
	ch.mu.Lock()
	if ch.reason == "" && !ch.closed {
		ch.reason = reason
	}
	ch.mu.Unlock()
	_ = ch.Close() // never fails
}

func (ch *channel) push(msg []byte) {
	ch.mu.Lock()
	full := len(ch.queue) >= maxChannelMessages || ch.size+len(msg) > maxChannelBytes
	if !full && !ch.closed {
		ch.queue = append(ch.queue, msg)
		ch.size += len(msg)
	}
	ch.mu.Unlock()
	if full {
		ch.end("the agent sends faster than the MCP server reads")
		return
	}
	select {
	case ch.ready <- struct{}{}:
	default:
	}
}

// Read implements mcp.Stream.
func (ch *channel) Read() ([]byte, error) {
	for {
		ch.mu.Lock()
		if len(ch.queue) > 0 && !ch.closed {
			msg := ch.queue[0]
			ch.queue = ch.queue[1:]
			ch.size -= len(msg)
			ch.mu.Unlock()
			return msg, nil
		}
		ch.mu.Unlock()
		select {
		case <-ch.ready:
		case <-ch.over:
			return nil, io.EOF
		}
	}
}

// Write implements mcp.Stream. It replaces an answer that is too large for the hub by an error, so
// that the session survives.
func (ch *channel) Write(msg []byte) error {
	err := ch.c.office.sendMCP(smcp.MCPMessage{Channel: ch.id, AgentSID: ch.agentSID, Message: msg})
	if !errors.Is(err, engineio.ErrTooLarge) {
		return err
	}
	m, perr := jsonrpc.Parse(msg)
	if perr != nil || m.Kind() != jsonrpc.Response {
		ch.c.log.Warn("a message is too large for the hub and was dropped", "server", ch.server.Name, "bytes", len(msg))
		return nil
	}
	e := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "the result is larger than the hub takes; ask for less, or have its operator allow more"}
	return ch.c.office.sendMCP(smcp.MCPMessage{Channel: ch.id, AgentSID: ch.agentSID, Message: jsonrpc.AppendError(nil, m.ID, e)})
}

// Close implements mcp.Stream.
func (ch *channel) Close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if !ch.closed {
		ch.closed = true
		close(ch.over)
	}
	return nil
}

// Serve implements mcp.Handler: it applies the Computer's rules for tools and then calls the Relay.
func (ch *channel) Serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	ctx, op := ch.c.trace.Receive(mcp.WithCaller(ctx, ch.session), ch.server.Name, r)
	result, err := ch.serve(ctx, r)
	op.End(result, err)
	return result, err
}

func (ch *channel) serve(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	if r.IsNotification() {
		return ch.relay.Serve(ctx, r)
	}
	switch r.Method {
	case "tools/list":
		result, err := ch.relay.Serve(ctx, r)
		if err != nil {
			return nil, err
		}
		return ch.allowed(result), nil
	case "tools/call":
		return ch.call(ctx, r)
	}
	return ch.relay.Serve(ctx, r)
}

// allowed returns a tools/list result without the forbidden tools.
func (ch *channel) allowed(result json.RawMessage) json.RawMessage {
	if len(ch.server.Forbidden) == 0 {
		return result
	}
	allowed := json.RawMessage("[")
	err := rawjson.EachElement(rawjson.Get(result, "tools"), func(v []byte) bool {
		if !ch.forbids(rawjson.Text(rawjson.Get(v, "name"))) {
			if len(allowed) > 1 {
				allowed = append(allowed, ',')
			}
			allowed = append(allowed, v...)
		}
		return true
	})
	if err == nil {
		result, err = rawjson.Set(result, "tools", append(allowed, ']'))
	}
	if err != nil {
		return json.RawMessage(`{"tools":[]}`)
	}
	return result
}

func (ch *channel) forbids(tool string) bool {
	for _, name := range ch.server.Forbidden {
		if name == tool {
			return true
		}
	}
	return false
}

// call makes a tools/call under the rules of client:tool_call.
func (ch *channel) call(ctx context.Context, r *mcp.Request) (json.RawMessage, error) {
	c := ch.c
	name := rawjson.Text(r.Fields().Name)
	if ch.forbids(name) {
		return nil, mcp.Errorf(mcp.KindInvalidParams, "tool %q is forbidden on this Computer", name)
	}
	reqID := a2c.ChannelReqID(ch.id, string(r.ID))
	rec := Record{Time: time.Now(), ReqID: reqID, Agent: ch.session.Principal(), Server: ch.server.Name, Tool: name, Arguments: r.Fields().Arguments}
	result, err := ch.execute(ctx, r, name, reqID)
	rec.Duration = time.Since(rec.Time)
	if err != nil {
		rec.Error = c.inputs.redact(err.Error())
		c.ledger.record(rec)
		return nil, err
	}
	rec.Success = string(rawjson.Get(result, "isError")) != "true"
	c.ledger.record(rec)
	return c.signed(name, reqID, result), nil
}

func (ch *channel) execute(ctx context.Context, r *mcp.Request, name, reqID string) (json.RawMessage, error) {
	ctx, end, err := ch.c.ledger.begin(ctx, reqID, 0)
	if err != nil {
		return nil, mcp.Errorf(mcp.KindOverloaded, "%v", err)
	}
	defer end()
	t := ch.c.catalog.now().exactly(ch.server, name)
	if err := ch.c.confirm(ctx, t, ch.session.Principal(), reqID, r.Fields().Arguments); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return failure(ch.c.inputs, err), nil
	}
	return ch.relay.Serve(ctx, r)
}
