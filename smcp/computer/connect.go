package computer

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/member"
	"github.com/weir-mcp/weir/internal/upstream"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Time limits: startTime for servers that are starting for the first time, answerTime for a request
// that needs an MCP server.
const (
	startTime  = 8 * time.Second
	answerTime = 25 * time.Second
)

// Hub configures the connection to a hub.
type Hub struct {
	URL    string
	Office string
	// Namespace is the hub's Socket.IO namespace; "" is smcp.Namespace.
	Namespace string
	Token     string
	// TokenSource returns the token for each attempt to connect, in place of Token, for tokens that
	// end before the Computer does. Nil means Token.
	TokenSource func() (string, error)
	Version     string                // a2c_version to announce; "" for none
	Engine      engineio.ClientConfig // transports, TLS, dialing
	Backoff     socketio.Backoff      // between attempts to connect
	// KeepTrying makes Connect return at once and retry in the background if the first attempt fails.
	KeepTrying bool
	// OnRefused is called when the hub rejects the Computer for a lasting reason; see member.Options.
	OnRefused func(reason error)
}

// Connect joins an office and reconnects after a lost connection. It must be called at most once.
func (c *Computer) Connect(ctx context.Context, h Hub) error {
	var version a2c.Version
	if h.Version != "" {
		var err error
		if version, err = a2c.ParseVersion(h.Version); err != nil {
			return err
		}
	}
	o := &c.office
	m, err := member.New(member.Options{
		URL: h.URL, Role: smcp.RoleComputer, Name: c.o.Name, Office: h.Office, Namespace: h.Namespace, Token: h.Token, TokenSource: h.TokenSource, Version: h.Version, MCP: true, Key: c.o.Key,
		Engine: h.Engine, Backoff: h.Backoff, MaxConcurrent: 2 * maxCalls, Logger: c.o.Logger,
		OnLost: func(error) { o.abandon("the connection to the hub was lost") }, OnRefused: h.OnRefused,
	})
	if err != nil {
		return err
	}
	o.mu.Lock()
	if o.closed || o.member != nil {
		o.mu.Unlock()
		_ = m.Close() // was never started
		return errors.New("the Computer has a hub already, or was closed")
	}
	o.member, o.version = m, version
	o.mu.Unlock()
	o.handle(m)
	if h.KeepTrying {
		return m.StartInBackground()
	}
	if err := m.Start(ctx); err != nil {
		o.mu.Lock()
		o.member = nil
		o.mu.Unlock()
		_ = m.Close() // the first error says more
		return err
	}
	return nil
}

// Joined waits until the Computer is in its office.
func (c *Computer) Joined(ctx context.Context) error {
	m := c.office.hub()
	if m == nil {
		return member.ErrNotConnected
	}
	return m.Wait(ctx)
}

// office is the Computer's connection to the hub: its membership and the channels of Agents. It is
// safe for concurrent use.
type office struct {
	c *Computer

	mu       sync.Mutex // guards below
	closed   bool
	member   *member.Member // nil before Connect
	version  a2c.Version    // announced to the hub
	channels map[string]*channel
}

// close leaves the hub and ends all channels.
func (o *office) close() {
	o.mu.Lock()
	o.closed = true
	m := o.member
	channels := slices.Collect(maps.Values(o.channels))
	o.mu.Unlock()
	if m != nil {
		_ = m.Close() // fails only if it was not connected
	}
	for _, ch := range channels {
		ch.end("the Computer was closed")
	}
}

// endChannels ends the channels to servers for which keep returns false.
func (o *office) endChannels(keep func(*Server) bool, reason string) {
	o.mu.Lock()
	var stale []*channel
	for _, ch := range o.channels {
		if !keep(ch.server) {
			stale = append(stale, ch)
		}
	}
	o.mu.Unlock()
	for _, ch := range stale {
		ch.end(reason)
	}
}

func (o *office) hub() *member.Member {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.member
}

// Link describes the state of the connection to the hub.
type Link struct {
	State  member.State `json:"state"`
	Office string       `json:"office,omitempty"`
	Since  time.Time    `json:"since,omitzero"`
	Error  string       `json:"error,omitempty"`
}

// Link returns the state of the connection to the hub.
func (c *Computer) Link() Link {
	m := c.office.hub()
	if m == nil {
		return Link{State: member.Closed}
	}
	state, since, err := m.Status()
	l := Link{State: state, Office: m.Office(), Since: since}
	if err != nil {
		l.Error = err.Error()
	}
	return l
}

// Join moves the Computer to another office.
func (c *Computer) Join(ctx context.Context, office string) error {
	m := c.office.hub()
	if m == nil {
		return member.ErrNotConnected
	}
	return m.Join(ctx, office)
}

// Leave leaves the office and stays connected.
func (c *Computer) Leave(ctx context.Context) error {
	m := c.office.hub()
	if m == nil {
		return member.ErrNotConnected
	}
	c.office.abandon("the Computer left the office")
	return m.Leave(ctx)
}

// abandon ends all calls and channels, because their answers can no longer reach the Agent.
func (o *office) abandon(reason string) {
	o.c.ledger.cancelAll()
	o.mu.Lock()
	channels := slices.Collect(maps.Values(o.channels))
	o.mu.Unlock()
	for _, ch := range channels {
		ch.end(reason)
	}
}

// handle registers the event handlers.
func (o *office) handle(m *member.Member) {
	m.OnConcurrent(smcp.EventToolCall, func(e *socketio.Event) {
		req, err := readToolCall(e.Arg(0))
		if err != nil {
			o.answer(e, smcp.Call{}, nil, err)
			return
		}
		if err := o.addressed(req.Call); err != nil {
			o.answer(e, req.Call, nil, err)
			return
		}
		result, err := o.c.perform(o.c.ctx, req)
		if err != nil {
			if pe := draftError(o.c.inputs, req.ToolName, err); pe != nil && o.dialect(req.Call) == a2c.Draft {
				o.answer(e, req.Call, nil, pe)
				return
			}
			result = failure(o.c.inputs, err)
		}
		result = o.c.signed(req.ToolName, req.ReqID, result)
		if err := e.Ack(result); errors.Is(err, engineio.ErrTooLarge) {
			result = failure(o.c.inputs, errors.New("the result is larger than the hub takes; ask for less, or have its operator allow more"))
			_ = e.Ack(o.c.signed(req.ToolName, req.ReqID, result)) // the Agent may have left
		} else if err != nil {
			o.c.log.Debug("a result was not delivered", "tool", req.ToolName, "err", err)
		}
	})
	m.OnConcurrent(smcp.EventGetTools, serve(o, func(ctx context.Context, req smcp.Call) (any, error) {
		return smcp.Tools{Tools: o.c.catalog.now().in(o.dialect(req)), ReqID: req.ReqID}, nil
	}))
	for _, event := range []string{smcp.EventGetConfig, smcp.EventGetMCPConfig} {
		m.OnConcurrent(event, serve(o, func(_ context.Context, req smcp.Call) (any, error) {
			return o.c.config(o.dialect(req), event == smcp.EventGetMCPConfig)
		}))
	}
	m.OnConcurrent(smcp.EventGetDesktop, serve(o, func(ctx context.Context, req smcp.GetDesktop) (any, error) {
		size := -1
		if req.Size != nil {
			size = max(*req.Size, 0)
		}
		return smcp.Desktop{Desktops: o.c.Desktop(ctx, size, req.Window), ReqID: req.ReqID}, nil
	}))
	m.OnConcurrent(smcp.EventGetResources, serve(o, func(ctx context.Context, req smcp.GetResources) (any, error) { return o.c.resources(ctx, req) }))
	m.OnConcurrent(smcp.EventGetSkills, serve(o, func(_ context.Context, req smcp.Call) (any, error) {
		return smcp.Skills{Skills: o.c.skills.list(), ReqID: req.ReqID}, nil
	}))
	m.OnConcurrent(smcp.EventGetSkill, serve(o, func(_ context.Context, req smcp.GetSkill) (any, error) { return o.c.skills.get(req) }))
	m.OnConcurrent(smcp.EventGetBlob, serve(o, func(_ context.Context, req smcp.GetBlob) (any, error) { return o.c.blobs.get(req) }))
	m.OnConcurrent(smcp.EventPutBlob, serve(o, func(_ context.Context, req smcp.PutBlob) (any, error) { return o.c.uploads.put(req) }))
	m.On(smcp.NotifyCancel, func(e *socketio.Event) {
		if o.c.Cancel(rawjson.Text(rawjson.Get(e.Arg(0), "req_id"))) {
			o.c.log.Info("a call was cancelled by its agent")
		}
	})
	m.On(smcp.NotifyLeave, func(e *socketio.Event) {
		if a2c.AgentOf(e.Arg(0)) != "" {
			o.abandon("the agent left the office")
		}
	})
	m.On(smcp.EventMCP, o.onMCP)
	// Answer unknown events, so that peers of a newer protocol do not wait.
	m.OnOther(func(e *socketio.Event) {
		var req smcp.Call
		_ = e.Decode(0, &req) // only the dialect matters
		o.answer(e, req, nil, a2c.ErrPayload.With("event", e.Name))
	})
}

// dialect returns the dialect of the answer to an Agent. It is the Agent's dialect if the hub told
// it, and otherwise the Computer's own.
func (o *office) dialect(call smcp.Call) a2c.Dialect {
	switch {
	case call.Version != nil:
		return a2c.ToldDialect(*call.Version)
	case call.Agent == "" && call.RobotID != "":
		return a2c.Draft
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.version.Dialect()
}

// addressed checks that a request names this Computer.
func (o *office) addressed(call smcp.Call) error {
	if call.Computer != o.c.o.Name {
		return a2c.NoComputer(call.Computer)
	}
	return nil
}

// based is a request that embeds Call.
type based interface{ Base() smcp.Call }

// serve returns the handler of a request that needs no call to a tool. If the answer depends on what
// servers offer, the handler waits for servers that are starting for the first time.
func serve[T based](o *office, f func(ctx context.Context, req T) (any, error)) socketio.Handler {
	return func(e *socketio.Event) {
		var req T
		if err := e.Decode(0, &req); err != nil {
			o.answer(e, smcp.Call{}, nil, a2c.ErrPayload)
			return
		}
		base := req.Base()
		if err := o.addressed(base); err != nil {
			o.answer(e, base, nil, err)
			return
		}
		ctx, cancel := context.WithTimeout(o.c.ctx, answerTime)
		defer cancel()
		if e.Name == smcp.EventGetTools || e.Name == smcp.EventGetDesktop {
			o.c.catalog.settle(ctx)
		}
		out, err := f(ctx, req)
		o.answer(e, base, out, err)
	}
}

// answer acks a request with a value or an error.
func (o *office) answer(e *socketio.Event, call smcp.Call, out any, err error) {
	if !e.WantsAck() {
		return
	}
	var raw json.RawMessage
	if err == nil {
		raw, err = smcp.Encode(out)
	}
	if err != nil {
		pe := smcp.AsError(err)
		if pe == a2c.ErrInternal || pe.Code == smcp.CodeInternal {
			o.c.log.Warn("a request could not be answered", "event", e.Name, "err", err)
		}
		raw = o.dialect(call).Failed(pe)
	}
	if err := e.Ack(raw); err != nil {
		o.c.log.Debug("an answer was not delivered", "event", e.Name, "err", err)
	}
}

// onMCP handles client:mcp. It does not block, so that the messages of a channel stay in order.
func (o *office) onMCP(e *socketio.Event) {
	var req smcp.MCPRequest
	if err := e.Decode(0, &req); err != nil || len(req.Channel) > 128 {
		o.answer(e, smcp.Call{}, nil, a2c.ErrPayload)
		return
	}
	if err := o.addressed(req.Call); err != nil {
		o.answer(e, req.Call, nil, err)
		return
	}
	if req.Channel == "" {
		o.single(e, req)
		return
	}
	o.answer(e, req.Call, struct{}{}, o.channelOp(req))
}

func (o *office) channelOp(req smcp.MCPRequest) error {
	if req.Op == smcp.OpOpen {
		return o.open(req)
	}
	o.mu.Lock()
	ch := o.channels[req.Channel]
	o.mu.Unlock()
	if ch == nil || ch.agentSID != req.AgentSID {
		if req.Op == smcp.OpSend {
			_ = o.sendMCP(smcp.MCPMessage{Channel: req.Channel, AgentSID: req.AgentSID, Closed: "there is no such channel; open it again"}) // the Agent may have left
		}
		return smcp.Errorf(smcp.CodeNotFound, "There is no such channel")
	}
	switch req.Op {
	case smcp.OpSend:
		if !rawjson.IsObject(req.Message) && !rawjson.IsArray(req.Message) {
			return a2c.ErrPayload
		}
		ch.push(req.Message)
	case smcp.OpClose:
		_ = ch.Close() // never fails
	default:
		return a2c.ErrPayload
	}
	return nil
}

// single answers one request without a channel.
func (o *office) single(e *socketio.Event, req smcp.MCPRequest) {
	m, err := jsonrpc.Parse(req.Message)
	s := o.c.catalog.server(req.Server)
	if err != nil || m.Kind() != jsonrpc.Request || s == nil || s.Disabled {
		o.answer(e, req.Call, nil, a2c.ErrPayload)
		return
	}
	up, ok := o.c.manager.Upstream(s.Name)
	if !ok {
		o.answer(e, req.Call, nil, a2c.ErrInternal)
		return
	}
	o.mu.Lock()
	busy := o.closed || o.c.ledger.full()
	if !busy {
		o.c.wg.Go(func() { o.callOnce(e, req, m, s, up) })
	}
	o.mu.Unlock()
	if busy {
		o.answer(e, req.Call, nil, smcp.Errorf(smcp.CodeBusy, "Too many calls in flight"))
	}
}

// callOnce makes a request that belongs to no channel.
func (o *office) callOnce(e *socketio.Event, req smcp.MCPRequest, m jsonrpc.Message, s *Server, up *upstream.Upstream) {
	ch := &channel{c: o.c, id: req.ReqID, server: s, session: mcp.NewSession("", smcpAgent(req.Call)), relay: bridge.Relay{Name: s.Name, Server: up, Logger: o.c.log}}
	defer ch.session.Close()
	ctx, cancel := context.WithTimeout(o.c.ctx, o.c.o.CallTimeout)
	defer cancel()
	var response json.RawMessage
	switch m.Method {
	case "initialize", "resources/subscribe", "resources/unsubscribe", "logging/setLevel":
		response = jsonrpc.AppendError(nil, m.ID, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: m.Method + " needs a channel"})
	default:
		result, err := ch.Serve(ctx, &mcp.Request{ID: m.ID, Method: m.Method, Params: m.Params, Version: mcp.LatestLegacy, Session: ch.session, Peer: mcp.NoPeer})
		if err != nil {
			response = jsonrpc.AppendError(nil, m.ID, mcp.WireError(err, mcp.LatestLegacy))
		} else {
			response = jsonrpc.AppendResult(nil, m.ID, result)
		}
	}
	o.answer(e, req.Call, map[string]json.RawMessage{"message": response}, nil)
}

// sendMCP sends a message of a channel to the Agent.
func (o *office) sendMCP(m smcp.MCPMessage) error {
	hub := o.hub()
	if hub == nil {
		return member.ErrNotConnected
	}
	return hub.Emit(smcp.EventServerMCP, m)
}

// tell sends an event of a change to the office. It does not block.
func (o *office) tell(event string) {
	hub := o.hub()
	if hub == nil {
		return
	}
	if err := hub.Emit(event, map[string]string{"computer": o.c.o.Name}); err != nil {
		o.c.log.Debug("the office was not told of a change", "event", event, "err", err)
	}
}
