package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Errors of calls to Computers of other nodes.
var (
	errNodeGone = errors.New("the node of the Computer is gone")
	errLost     = errors.New("the call did not reach the node of the Computer")
	errMoving   = errors.New("the Computer moves to another node")
	errNoAnswer = errors.New("the answer of the node of the Computer does not come")
	errBusy     = errors.New("too many calls at the node of the Computer")
	errUnsent   = errors.New("there is no room for the answer")
	errStale    = errors.New("the Computer is not there any more")
)

// remote hears of other hubs.
type remote struct{ fabric }

var _ roster.Events = remote{}

// incOf returns the node of an alias.
func incOf(alias string) string {
	inc, _, _ := strings.Cut(alias, ".")
	return inc
}

// A flight is the calls to one node. While there are any, the node is pinged.
type flight struct {
	calls map[*call]struct{}
	used  bool // since the last look
}

// flightTime is how long a node is watched after the last call.
const flightTime = 2 * time.Second

// thread counts the messages of channels between two members.
type thread struct{ sent, heard uint64 }

// thread returns the counts of a session with a member at another node. The caller holds Hub.mu.
func (s *session) thread(alias string) *thread {
	t := s.threads[alias]
	if t == nil {
		if s.threads == nil {
			s.threads = map[string]*thread{}
		}
		t = &thread{}
		s.threads[alias] = t
	}
	return t
}

// forward sends a call to the node of its Computer.
func (r remote) forward(c *call, payload json.RawMessage, f *callFields, timeout time.Duration) {
	m := &roster.Message{
		Op: roster.OpCall, Event: c.spelling, Office: c.office.ID, To: c.member.SID, Gen: c.member.Gen, Timeout: timeout,
		Agent: roster.Caller{Name: c.as, SID: c.sid, Dialect: uint8(c.dialect)}, Args: []json.RawMessage{payload}, Attachments: c.event.Attachments,
		Trace: rawjson.Text(f.trace),
	}
	if c.version != (a2c.Version{}) {
		m.Agent.Version = c.version.String()
	}
	node := c.member.Node
	if !c.counted {
		r.mu.Lock()
		t := c.agent.thread(c.member.SID)
		t.sent++
		m.Op, m.Seq = roster.OpSend, t.sent
		r.mu.Unlock()
		m.Lost = func() { r.endAt(node, c.member.Name, c.member.SID) }
		err := r.o.Shared.Tell(node, c.member.Name, m)
		if errors.Is(err, roster.ErrNoRoom) && r.unsay(t, m.Seq) {
			c.refused(payload, r.log)
			return
		}
		if err != nil {
			r.log.Warn("a message was not delivered", "computer", c.member.Name, "node", node, "err", err)
			m.Lost()
		}
		return
	}
	r.mu.Lock()
	r.takeOff(c)
	r.mu.Unlock()
	r.o.Shared.Ask(node, c.member.Name, m, timeout+askSlack, func(a *roster.Message, err error) { r.answered(c, payload, timeout, a, err) })
}

// unsay takes back the number of a message that was not sent, unless a later one has its number by now.
func (r remote) unsay(t *thread, number uint64) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if t.sent != number {
		return false
	}
	t.sent--
	return true
}

// answered takes the answer of another hub to a call.
func (r remote) answered(c *call, payload json.RawMessage, timeout time.Duration, a *roster.Message, err error) {
	if err == nil && a.Problem != roster.ProblemStale {
		r.finish(c, socketio.Payload{Args: a.Args, Attachments: a.Attachments}, problem(a.Problem))
		return
	}
	if err == nil { // it was not delivered
		if !c.moved && r.o.Shared.Go(func() { r.follows(c, payload, timeout) }) {
			return
		}
		err = socketio.ErrDisconnected
	}
	switch {
	case errors.Is(err, roster.ErrNoRoom):
		err = engineio.ErrNoRoom
	case errors.Is(err, roster.ErrNobody):
		r.o.Shared.Suspect(c.member.Node)
		err = errNodeGone
	case errors.Is(err, roster.ErrLost):
		err = errLost
	case errors.Is(err, roster.ErrNoAnswer):
		r.o.Shared.Suspect(c.member.Node) // its end breaks connections as well
		err = errNoAnswer
	case errors.Is(err, roster.ErrLate):
		err = socketio.ErrAckTimeout
	}
	r.finish(c, socketio.Payload{}, err)
}

// follows makes a call again that was sent to a membership that is over.
func (r remote) follows(c *call, payload json.RawMessage, timeout time.Duration) {
	ctx, cancel := context.WithTimeout(c.agent.socket.Context(), askSlack)
	defer cancel()
	rev, next, err := r.o.Shared.Get(ctx, c.office.ID)
	if err == nil {
		r.apply(c.office, rev, next)
	}
	r.mu.Lock()
	m := c.office.Computers[c.member.Name]
	c.moved = true
	if err != nil || m == nil || m.Is(c.member) || c.done {
		r.mu.Unlock()
		r.finish(c, socketio.Payload{}, socketio.ErrDisconnected)
		return
	}
	r.cluster.landed(c)
	c.receiver(m)
	moving := c.computer != nil && c.computer.moving
	if c.computer != nil {
		c.computer.serving++
	}
	r.mu.Unlock()
	if moving {
		r.finish(c, socketio.Payload{}, errMoving)
		return
	}
	var f callFields
	f.read(payload)
	if c.computer == nil {
		r.forward(c, payload, &f, timeout)
		return
	}
	r.deliver(c, payload, &f, timeout, c.event.Attachments)
}

// takeOff counts a call to another node. The caller holds mu.
func (r remote) takeOff(c *call) {
	inc := c.member.Node
	f := r.cluster.flights[inc]
	if f == nil {
		f = &flight{calls: map[*call]struct{}{}}
		r.cluster.flights[inc] = f
		r.o.Shared.Go(func() { r.watch(inc, f) })
	}
	f.used = true
	f.calls[c] = struct{}{}
}

// landed ends the count of a call to another node. Hub.mu is held.
func (c *cluster) landed(done *call) {
	if f := c.flights[done.member.Node]; f != nil {
		delete(f.calls, done)
	}
}

// watch fails the calls to a node that does not answer any more.
func (r remote) watch(inc string, f *flight) {
	gone, stop := r.o.Shared.Watch(inc)
	defer stop()
	for {
		select {
		case <-gone:
			r.mu.Lock()
			calls := f.calls
			f.calls = map[*call]struct{}{}
			if r.cluster.flights[inc] == f {
				delete(r.cluster.flights, inc)
			}
			r.mu.Unlock()
			for c := range calls {
				r.finish(c, socketio.Payload{}, errNodeGone)
			}
			return
		case <-time.After(flightTime):
		case <-r.o.Shared.Done():
			return
		}
		r.mu.Lock()
		idle := len(f.calls) == 0 && !f.used
		f.used = false
		if idle && r.cluster.flights[inc] == f {
			delete(r.cluster.flights, inc)
		}
		r.mu.Unlock()
		if idle {
			return
		}
	}
}

// problem returns the error of an answer.
func problem(p string) error {
	switch p {
	case "":
		return nil
	case roster.ProblemLate:
		return socketio.ErrAckTimeout
	case roster.ProblemLeft, roster.ProblemStale:
		return socketio.ErrDisconnected
	case roster.ProblemBusy:
		return errBusy
	case roster.ProblemNoRoom:
		return engineio.ErrNoRoom
	case roster.ProblemUnsent:
		return errUnsent
	case roster.ProblemMoving:
		return errMoving
	}
	return fmt.Errorf("the node of the Computer: %.60s", p)
}

// answerOf returns the answer to a call of another hub.
func answerOf(p socketio.Payload, err error) *roster.Message {
	m := &roster.Message{Args: p.Args, Attachments: p.Attachments}
	switch {
	case err == nil:
	case errors.Is(err, socketio.ErrAckTimeout):
		m.Problem = roster.ProblemLate
	case errors.Is(err, errStale):
		m.Problem = roster.ProblemStale
	case errors.Is(err, errMoving):
		m.Problem = roster.ProblemMoving
	case errors.Is(err, socketio.ErrDisconnected):
		m.Problem = roster.ProblemLeft
	case errors.Is(err, socketio.ErrTooManyAcks):
		m.Problem = roster.ProblemBusy
	default:
		m.Problem = roster.ProblemOther
	}
	return m
}

// Message implements roster.Events.
func (r remote) Message(m *roster.Message) {
	r.mu.Lock()
	s := r.cluster.peers[m.To]
	if s != nil && (s.ended || s.place(m.To) == nil) {
		s = nil
	}
	r.mu.Unlock()
	switch m.Op {
	case roster.OpCall:
		r.call(s, m)
	case roster.OpProbe:
		r.probe(s, m)
	case roster.OpSend, roster.OpUp:
		if s != nil {
			r.hand(s, m)
		}
	case roster.OpClose:
		if m.Reply != nil {
			m.Reply(&roster.Message{})
		}
		if s != nil {
			r.log.Warn("a connection is ended: messages of its channels were lost between nodes", "name", s.name)
			r.o.Shared.Go(s.socket.Close)
		}
	case roster.OpNotify:
		r.mu.Lock()
		o := r.offices[m.Office]
		r.mu.Unlock()
		if o != nil {
			r.heard(o, m)
		}
	default:
		if m.Reply != nil {
			m.Reply(&roster.Message{Problem: roster.ProblemOther})
		}
	}
}

// place returns the membership that an alias stands for, nil if it is over. A member can be addressed as
// soon as it is in the document, before its own hub has seen that. The caller holds Hub.mu.
func (s *session) place(alias string) *roster.Member {
	switch {
	case s.at != nil && s.alias == alias:
		return s.at
	case s.coming != nil && s.next == alias:
		return s.coming
	}
	return nil
}

// call hands a call of another hub to a Computer.
func (r remote) call(s *session, m *roster.Message) {
	if m.Reply == nil {
		return
	}
	var f callFields
	if s == nil || len(m.Args) != 1 || !f.read(m.Args[0]) {
		m.Reply(answerOf(socketio.Payload{}, errStale))
		return
	}
	c, err := r.callOf(s, m, true)
	if err != nil {
		m.Reply(answerOf(socketio.Payload{}, err))
		return
	}
	c.reply = m.Reply
	c.reqID = rawjson.Text(f.reqID)
	r.deliver(c, m.Args[0], &f, m.Timeout, m.Attachments)
}

// callOf returns a call of an Agent at another node. The error is errStale if the membership is over, and errMoving if
// the Computer goes to another node now.
func (r remote) callOf(s *session, m *roster.Message, counted bool) (*call, error) {
	c := &call{
		name: a2c.Dialect01.Event(m.Event), spelling: m.Event, as: m.Agent.Name, sid: m.Agent.SID, dialect: a2c.Dialect(min(m.Agent.Dialect, uint8(a2c.Dialect05))), counted: counted,
	}
	if m.Agent.Version != "" {
		if v, err := a2c.ParseVersion(m.Agent.Version); err == nil {
			c.version = v
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	at := s.place(m.To)
	switch {
	case at == nil: // it has left since
		return nil, errStale
	case counted && s.moving:
		return nil, errMoving
	}
	c.receiver(at)
	c.computer = s
	if counted {
		s.serving++
	}
	return c, nil
}

// hand gives an event without an ack to a member.
func (r remote) hand(s *session, m *roster.Message) {
	if len(m.Args) != 1 {
		return
	}
	if m.Seq != 0 {
		r.mu.Lock()
		from := m.Agent.SID
		t := s.thread(from)
		lost := m.Seq > t.heard+1
		again := m.Seq <= t.heard
		t.heard = max(t.heard, m.Seq)
		r.mu.Unlock()
		if again {
			return
		}
		if lost {
			r.lost(s, m)
			return
		}
	}
	var err error
	if m.Op == roster.OpSend && m.Event == smcp.EventMCP {
		c, err := r.callOf(s, m, false)
		if err != nil {
			return
		}
		var f callFields
		f.read(m.Args[0])
		r.deliver(c, m.Args[0], &f, 0, m.Attachments)
		return
	}
	if err = s.socket.EmitPayload(m.Event, socketio.Payload{Args: m.Args, Attachments: m.Attachments}); err != nil {
		r.log.Debug("a message was not delivered", "name", s.name, "err", err)
	}
}

// lost ends the connection of the Computer whose channels have lost a message: it starts again.
func (r remote) lost(s *session, m *roster.Message) {
	r.log.Warn("messages of a channel were lost between nodes; the Computer connects again", "name", s.name, "from", m.Agent.Name)
	if m.Op == roster.OpSend {
		r.o.Shared.Go(s.socket.Close)
		return
	}
	r.endAt(m.From, m.Agent.Name, m.Agent.SID)
}

// endAt ends the connection of a Computer at another node: messages of its channels were lost. It tries until that node
// has the message, or is gone.
func (r remote) endAt(node, computer, sid string) {
	r.mu.Lock()
	_, under := r.cluster.ending[sid]
	r.cluster.ending[sid] = struct{}{}
	r.mu.Unlock()
	if !under && !r.o.Shared.Go(func() { r.tellEnd(node, computer, sid) }) {
		r.ended(sid)
	}
}

func (r remote) ended(sid string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.cluster.ending, sid)
}

// tellEnd is the goroutine of endAt.
func (r remote) tellEnd(node, computer, sid string) {
	defer r.ended(sid)
	for {
		arrived := make(chan bool, 1)
		r.o.Shared.Ask(node, computer, &roster.Message{Op: roster.OpClose, To: sid}, endTime, func(_ *roster.Message, err error) {
			arrived <- err == nil || errors.Is(err, roster.ErrNobody)
		})
		if <-arrived || r.o.Shared.Doubts(node) || !r.o.Shared.Pause(endTime) {
			return
		}
	}
}

// endTime is how long a node may take to say that it ends a connection, and the pause until it is asked again.
const endTime = 2 * time.Second

// probe answers whether a member is still here.
func (r remote) probe(s *session, m *roster.Message) {
	if m.Reply == nil {
		return
	}
	if s == nil || !m.Deep {
		m.Reply(&roster.Message{Problem: staleIf(s == nil)})
		return
	}
	r.o.Shared.Go(func() {
		ctx, cancel := context.WithTimeout(s.socket.Context(), probeTime)
		defer cancel()
		m.Reply(&roster.Message{Problem: staleIf(s.socket.Probe(ctx) != nil)})
	})
}

func staleIf(gone bool) string {
	if gone {
		return roster.ProblemStale
	}
	return ""
}

// Gone implements roster.Events.
func (r remote) Gone(inc string) {
	r.mu.Lock()
	var affected []string
	for id, o := range r.offices {
		for _, n := range o.Spans() {
			if n == inc {
				affected = append(affected, id)
			}
		}
	}
	r.mu.Unlock()
	for _, id := range affected {
		r.drop(id, inc)
	}
}

// Fenced implements roster.Events: the other nodes have dropped the members of this one, or are about to.
func (r remote) Fenced(inc string) {
	r.mu.Lock()
	var out []*session
	for alias, s := range r.cluster.peers {
		if incOf(alias) == inc {
			out = append(out, s)
		}
	}
	r.mu.Unlock()
	r.log.Warn("this node was not acknowledged in time: its Computers and agents connect again", "connections", len(out))
	// All of them connect again: at the same moment they would be a burst of joins.
	gap := min(maxGap, fenceSpread/time.Duration(max(1, len(out))))
	letGo := func() {
		for i, s := range out {
			s.socket.Close()
			if i < len(out)-1 && gap > 0 && !r.o.Shared.Pause(gap) {
				gap = 0 // the hub ends
			}
		}
	}
	if !r.o.Shared.Go(letGo) {
		gap = 0
		letGo()
	}
}

// Drained implements roster.Events.
func (r remote) Drained() { r.drain() }

// fenceSpread is the time over which a node that was fenced ends its connections. The other nodes drop their members
// 5 seconds after the fence.
const fenceSpread = 2 * time.Second

// sendTo sends an event without an ack to a member at another node.
func (r remote) sendTo(m *roster.Member, office, event string, payload json.RawMessage) error {
	return r.o.Shared.Tell(m.Node, m.Name, &roster.Message{Op: roster.OpSend, Event: event, Office: office, To: m.SID, Gen: m.Gen, Args: []json.RawMessage{payload}})
}

// sendUp sends a message of a Computer's channel to an Agent at another node. The caller holds mu.
func (r remote) sendUp(s *session, a *roster.Member, sid string, payload json.RawMessage) error {
	node := a.Node
	if node == roster.Everywhere {
		node = incOf(sid)
	} else if a.SID != sid {
		return errNoAgent
	}
	if r.o.Shared == nil || node == r.o.Shared.Inc() || a.Node == roster.Everywhere && !slices.Contains(a.Nodes, node) {
		return errNoAgent
	}
	t := s.thread(sid)
	t.sent++
	from := s.alias
	err := r.o.Shared.Tell(node, s.name, &roster.Message{
		Op: roster.OpUp, Event: smcp.NotifyMCP, Office: s.office.ID, To: sid, Seq: t.sent, Agent: roster.Caller{Name: s.name, SID: from}, Args: []json.RawMessage{payload},
		Lost: func() {
			r.mu.Lock()
			here := s.place(from) != nil
			r.mu.Unlock()
			if here {
				r.log.Warn("messages of a channel were lost between nodes; the Computer connects again", "name", s.name)
				r.o.Shared.Go(s.socket.Close)
			}
		},
	})
	if errors.Is(err, roster.ErrNoRoom) {
		t.sent--
		err = engineio.ErrNoRoom
	}
	return err
}
