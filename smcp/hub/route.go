package hub

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// call is one client:* event in flight.
type call struct {
	event    *socketio.Event // nil: the agent is at another node
	name     string          // of the event, in the current spelling
	spelling string          // of the event, as the agent sent it
	reqID    string
	agent    *session       // nil: it is at another node
	as       string         // the agent's name at the time of the call
	sid      string         // of the agent, as other members know it
	version  a2c.Version    // of the agent
	member   *roster.Member // the computer
	computer *session       // nil: it is at another node
	office   *office
	dialect  a2c.Dialect           // of the agent
	to       a2c.Dialect           // of the computer
	general  bool                  // the computer supports client:mcp
	counted  bool                  // counted as in flight until it is answered
	pending  int                   // spellings without an answer yet; guarded by Hub.mu
	done     bool                  // answered; guarded by Hub.mu
	moved    bool                  // the computer's membership was over, and the call is sent once more
	reply    func(*roster.Message) // answers the node of the agent; nil: it is here

	// end ends the call's span; nil: it has none.
	end func(result json.RawMessage, failure string)
}

// callFields are the members that the hub reads of a client:* payload; nil if absent.
type callFields struct{ computer, reqID, timeout, tool, params, agent, robot, version, sid, trace []byte }

// read finds all members in one pass, because payloads may be large.
func (f *callFields) read(payload []byte) bool {
	return rawjson.IsObject(payload) && rawjson.Scan(payload,
		rawjson.Key("computer", &f.computer), rawjson.Key("req_id", &f.reqID), rawjson.Key("timeout", &f.timeout),
		rawjson.Key("tool_name", &f.tool), rawjson.Key("params", &f.params), rawjson.Key("agent", &f.agent),
		rawjson.Key("robot_id", &f.robot), rawjson.Key(a2c.QueryVersion, &f.version), rawjson.Key("agent_sid", &f.sid), rawjson.Key("traceparent", &f.trace)) == nil
}

// route carries a client:* event to a Computer and returns the answer. It does not block.
func (h *Hub) route(e *socketio.Event) {
	s := sessionOf(e)
	payload := e.Arg(0)
	var f callFields
	ok := f.read(payload)
	dialect := s.noteCallDialect(h, e.Name, f.agent, f.robot)
	refuse := func(err *smcp.Error) {
		h.log.Debug("a call was refused", "event", e.Name, "sid", s.sid, "err", err)
		h.ack(e, dialect.Failed(err))
	}
	name, reqID := rawjson.Text(f.computer), rawjson.Text(f.reqID)
	if !ok || name == "" || len(reqID) > maxReqIDBytes || e.Name == smcp.EventToolCall && (reqID == "" || rawjson.Text(f.tool) == "") {
		refuse(a2c.ErrPayload)
		return
	}
	c := &call{event: e, name: a2c.Dialect01.Event(e.Name), spelling: e.Name, reqID: reqID, agent: s, version: s.version, dialect: dialect}
	timeout := h.o.CallTimeout
	if c.name == smcp.EventToolCall {
		if !rawjson.IsObject(f.params) {
			refuse(a2c.ErrPayload.With("params", "an object"))
			return
		}
		asked, ok := seconds(f.timeout)
		if !ok {
			refuse(a2c.ErrPayload.With("timeout", "a number of seconds"))
			return
		}
		if asked == 0 || asked > h.o.MaxCallTimeout {
			asked = h.o.MaxCallTimeout
		}
		// The Computer reports a timeout itself; this limit is for a Computer that does not.
		timeout = asked + defaultToolCallSlack
	}
	c.counted = c.name != smcp.EventMCP || e.WantsAck()
	if c.name == smcp.EventToolCall && h.o.Trace != nil {
		if carried, end := h.o.Trace(name, rawjson.Text(f.tool), payload); end != nil {
			c.end, payload = end, carried
			f.read(payload)
		}
	}
	if err := h.begin(c, name); err != nil {
		c.traced(nil, err)
		refuse(err)
		return
	}
	if c.computer == nil {
		remote{fabric{h}}.forward(c, payload, &f, timeout)
		return
	}
	h.deliver(c, payload, &f, timeout, e.Attachments)
}

// deliver sends a call to a Computer of this node.
func (h *Hub) deliver(c *call, payload json.RawMessage, f *callFields, timeout time.Duration, attachments [][]byte) {
	room := h.o.Memory.Hold()
	defer room.Release()
	if !room.TryGrow(int64(len(payload) + 512)) {
		if c.counted {
			h.finish(c, socketio.Payload{}, engineio.ErrNoRoom)
		} else {
			c.refused(payload, h.log)
		}
		return
	}
	out, err := c.request(payload, f)
	if err == nil && !c.counted {
		// Messages of a channel are a stream: the hub does not wait for their acks.
		err := c.computer.socket.EmitPayload(c.name, socketio.Payload{Args: []json.RawMessage{out}, Attachments: attachments})
		if err != nil {
			h.log.Debug("a message was not delivered", "computer", c.member.Name, "err", err)
		}
		if errors.Is(err, engineio.ErrNoRoom) {
			c.refused(out, h.log)
		}
		return
	}
	if err == nil {
		spellings := []string{c.to.Event(c.name)}
		switch {
		case c.general:
			spellings[0] = c.spelling // its answer has the matching form
		case c.name == smcp.EventGetConfig && c.to == a2c.Dialect01:
			// The Computer's dialect is not known yet. Reading is harmless, so send both spellings.
			spellings = []string{smcp.EventGetConfig, smcp.EventGetMCPConfig}
		}
		c.pending = len(spellings)
		for _, spelling := range spellings {
			if err == nil {
				err = c.computer.socket.EmitFunc(timeout, spelling, socketio.Payload{Args: []json.RawMessage{out}, Attachments: attachments}, func(p socketio.Payload, err error) { h.finish(c, p, err) })
			}
		}
	}
	if err != nil {
		h.finish(c, socketio.Payload{}, err)
	}
}

// seconds parses a timeout; an absent timeout is zero.
func seconds(raw []byte) (time.Duration, bool) {
	if len(raw) == 0 || string(raw) == "null" {
		return 0, true
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || f < 0 || math.IsNaN(f) || f > math.MaxInt32 {
		return 0, false
	}
	return time.Duration(f * float64(time.Second)), true
}

// begin finds the Computer and counts the call.
func (h *Hub) begin(c *call, name string) *smcp.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := c.agent
	switch {
	case s.role == smcp.RoleComputer:
		return a2c.ErrOnlyAgent
	case s.office == nil:
		return a2c.ErrNoRoom
	}
	computer := s.office.Computers[name]
	switch {
	case computer == nil && h.named[name] > 0 && named(h.offices, name, s.grant.Offices):
		return a2c.ErrCrossRoom
	case computer == nil:
		return a2c.NoComputer(name)
	case c.name == smcp.EventMCP && !computer.MCP:
		return smcp.Errorf(smcp.CodeNoCapability, "Computer with name '%s' does not know %s", name, smcp.EventMCP).With("capability", smcp.EventMCP)
	case c.counted && (len(s.calls) >= h.o.MaxCalls || s.office.calls >= h.o.MaxOfficeCalls):
		return smcp.Errorf(smcp.CodeBusy, "Too many calls in flight")
	}
	c.as, c.sid, c.office = s.name, s.alias, s.office
	c.receiver(computer)
	if !c.counted {
		return nil
	}
	if s.moving {
		return smcp.Errorf(smcp.CodeBusy, "The node ends; the call did not run. Connect again, and another node takes it").With("reason", "moving", "maybe_ran", false)
	}
	if c.computer != nil && c.computer.moving {
		return movingError(name)
	}
	if s.calls == nil {
		s.calls = map[*call]struct{}{}
	}
	s.calls[c] = struct{}{}
	s.office.calls++
	if c.computer != nil {
		c.computer.serving++
	}
	return nil
}

// receiver sets the Computer of a call. The caller holds the Hub's mu.
func (c *call) receiver(m *roster.Member) {
	c.member, c.computer, c.to, c.general = m, local(m), a2c.Dialect(m.Dialect), m.MCP
	if c.computer != nil {
		c.to = c.computer.dialect // may have shown later
	}
}

// named reports whether a Computer with this name is in an office that a grant allows. A session must
// not learn who is in other offices. The caller holds the Hub's mu.
func named(offices map[string]*office, name string, patterns []string) bool {
	for id, o := range offices {
		if o.Computers[name] != nil && officeIn(patterns, id) {
			return true
		}
	}
	return false
}

// request returns the payload in the Computer's dialect. It sets the session's own agent name,
// because the payload could name another agent. Missing members are put first, in one copy; only
// wrong members cost more.
func (c *call) request(payload json.RawMessage, f *callFields) (json.RawMessage, error) {
	as := rawjson.Quote(c.as)
	var room [512]byte
	add := room[:0]
	plain := true
	put := func(key string, has, value []byte) {
		switch {
		case has == nil:
			add = append(append(append(rawjson.AppendString(add, key), ':'), value...), ',')
		case !bytes.Equal(has, value):
			plain = false
		}
	}
	put("agent", f.agent, as)
	if c.to.Versioned() {
		plain = plain && f.robot == nil
	} else {
		put("robot_id", f.robot, as)
	}
	version, sid := []byte(nil), []byte(nil)
	if c.general {
		told := ""
		if v := c.version; v != (a2c.Version{}) {
			told = v.String()
		} else if c.dialect == a2c.Draft {
			told = a2c.VersionDraft
		}
		version = rawjson.Quote(told)
		put(a2c.QueryVersion, f.version, version)
	}
	if c.name == smcp.EventMCP {
		sid = rawjson.Quote(c.sid)
		put("agent_sid", f.sid, sid)
	}
	if plain {
		if len(add) == 0 {
			return payload, nil
		}
		at := bytes.IndexByte(payload, '{') + 1
		out := make(json.RawMessage, 0, len(payload)+len(add))
		return append(append(append(out, payload[:at]...), add...), payload[at:]...), nil
	}
	out, err := c.to.Address(payload, c.as)
	for _, m := range []struct {
		key   string
		value []byte
	}{{a2c.QueryVersion, version}, {"agent_sid", sid}} {
		if err == nil && m.value != nil {
			out, err = rawjson.Set(out, m.key, m.value)
		}
	}
	return out, err
}

// finish answers the agent exactly once: with the Computer's ack, or with an error.
func (h *Hub) finish(c *call, p socketio.Payload, err error) {
	if !c.counted {
		h.log.Debug("a message was not delivered", "computer", c.member.Name, "err", err)
		return
	}
	h.mu.Lock()
	c.pending--
	if c.pending > 0 && err == nil && (len(p.Args) == 0 || string(p.Args[0]) == "null") {
		h.mu.Unlock()
		return // the Computer does not know this spelling
	}
	if c.done {
		h.mu.Unlock()
		return
	}
	c.done = true
	waiting := false
	if c.agent != nil {
		_, waiting = c.agent.calls[c]
		delete(c.agent.calls, c)
		c.office.calls--
	}
	if c.computer != nil {
		c.computer.serving--
	} else {
		h.cluster.landed(c)
	}
	name := c.member.Name
	h.mu.Unlock()
	if errors.Is(err, socketio.ErrAckTimeout) && c.name == smcp.EventToolCall && c.computer != nil {
		h.cancelAt(c)
	}
	if c.reply != nil {
		c.reply(answerOf(p, err))
		return
	}
	fault := c.fault(name, err)
	c.traced(p.Args, fault)
	if !waiting || !c.event.WantsAck() {
		return
	}
	switch fault {
	case nil:
		args := p.Args
		if len(args) == 0 {
			args = []json.RawMessage{json.RawMessage("null")}
		}
		if len(args) == 1 && !c.general { // a weir Computer knows the agent's version and answers in its form
			args = []json.RawMessage{c.dialect.Relay(args[0])}
		}
		if err := c.event.AckPayload(socketio.Payload{Args: args, Attachments: p.Attachments}); err != nil {
			h.log.Debug("an answer was not delivered", "event", c.name, "err", err)
			if errors.Is(err, engineio.ErrNoRoom) {
				h.ack(c.event, c.dialect.Failed(noRoomForAnswer()))
			}
		}
	case a2c.ErrInternal:
		h.log.Warn("a call was not delivered", "event", c.name, "computer", name, "err", err)
		fallthrough
	default:
		h.ack(c.event, c.dialect.Failed(fault))
	}
}

// traced ends the span of a call, if it has one.
func (c *call) traced(answer []json.RawMessage, fault *smcp.Error) {
	switch {
	case c.end == nil:
	case fault != nil:
		c.end(nil, strconv.Itoa(fault.Code))
	case len(answer) > 0:
		c.end(answer[0], "")
	default:
		c.end(nil, "")
	}
}

// fault returns the agent's error for a call that could not be answered, nil if there was none.
func (c *call) fault(computer string, err error) *smcp.Error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, socketio.ErrAckTimeout):
		return c.dialect.TimedOut("Computer '" + computer + "' did not answer " + c.name)
	case errors.Is(err, socketio.ErrDisconnected):
		return smcp.Errorf(smcp.CodeNotFound, "Computer with name '%s' disconnected", computer).With("computer_name", computer, "reason", "disconnected")
	case errors.Is(err, errMoving):
		return movingError(computer)
	case errors.Is(err, errNodeGone):
		return nodeGone("The node of Computer with name '%s' is gone; the call may have run", computer, true)
	case errors.Is(err, errLost):
		return nodeGone("The call was lost on the way to the node of Computer with name '%s'; it did not run", computer, false)
	case errors.Is(err, errNoAnswer):
		return nodeGone("The connection to the node of Computer with name '%s' broke; the call may have run", computer, true)
	case errors.Is(err, engineio.ErrNoRoom):
		return smcp.Errorf(smcp.CodeBusy, "There is no room for the call now; it did not run: the bytes of limits.memory are taken").With("maybe_ran", false)
	case errors.Is(err, errUnsent):
		return noRoomForAnswer()
	case errors.Is(err, socketio.ErrTooManyAcks), errors.Is(err, errBusy):
		return smcp.Errorf(smcp.CodeBusy, "Too many calls in flight")
	}
	return a2c.ErrInternal
}

// noRoomForAnswer is the error of a call that has run, whose answer finds no room.
func noRoomForAnswer() *smcp.Error {
	return smcp.Errorf(smcp.CodeBusy, "There is no room for the answer now; the call has run: the bytes of limits.memory are taken").With("maybe_ran", true)
}

// nodeGone is the error of a call whose way to the node of its Computer, or back, is lost.
func nodeGone(text, computer string, ran bool) *smcp.Error {
	return smcp.Errorf(smcp.CodeNotFound, text, computer).With("computer_name", computer, "reason", "node_gone", "maybe_ran", ran)
}

// movingError is the error of a call to a Computer whose node lets it go to another one.
func movingError(computer string) *smcp.Error {
	return smcp.Errorf(smcp.CodeNotFound, "Computer with name '%s' moves to another node; the call did not run", computer).With("computer_name", computer, "reason", "moving", "maybe_ran", false)
}

// cancelAt notifies one Computer that a call was abandoned.
func (h *Hub) cancelAt(c *call) {
	payload := cancelPayload(c.as, c.reqID)
	if !c.to.Versioned() {
		if both, err := rawjson.Set(payload, "robot_id", rawjson.Quote(c.as)); err == nil {
			payload = both
		}
	}
	var err error
	if c.computer != nil {
		err = c.computer.socket.Emit(smcp.NotifyCancel, payload)
	} else {
		err = remote{fabric{h}}.sendTo(c.member, c.office.ID, smcp.NotifyCancel, payload)
	}
	if err != nil {
		h.log.Debug("a cancellation was not sent", "computer", c.member.Name, "err", err)
	}
}

// abandon cancels the calls of an Agent that has left. The caller holds mu.
func (h *Hub) abandon(s *session, o *office) {
	for c := range s.calls {
		if c.office == o && c.name == smcp.EventToolCall {
			h.cancelAt(c)
		}
	}
}
