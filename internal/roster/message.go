package roster

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/rawjson"
	"github.com/weir-mcp/weir/internal/store"
)

// Headers of messages between hubs.
const (
	headerV       = "Weir-V"
	headerOp      = "Weir-Op"
	headerFrom    = "Weir-From" // INC of the sender
	headerEvent   = "Weir-Event"
	headerOffice  = "Weir-Office"
	headerTo      = "Weir-To" // SID of the member
	headerGen     = "Weir-Gen"
	headerRev     = "Weir-Rev"
	headerSeq     = "Weir-Seq"
	headerTimeout = "Weir-Timeout-Ms"
	headerLens    = "Weir-Lens"
	headerBody    = "Weir-Body"
	headerAgent   = "Weir-Agent" // name, SID, version and dialect
	headerProblem = "Weir-Problem"
	headerNumber  = "Weir-Number" // of the message in its stream; see streams
	headerTrace   = "Traceparent"
)

// lanes is the number of subjects of a node's hub. All messages about one Computer come on one of them.
const lanes = 8

// Op says what a message is for.
type Op string

// Ops.
const (
	OpCall   Op = "call"   // an event for a Computer that waits for its ack
	OpSend   Op = "send"   // an event for a member without an ack; numbered if it belongs to a channel
	OpUp     Op = "up"     // a channel's event for an Agent, numbered
	OpProbe  Op = "probe"  // is the member still here?
	OpClose  Op = "close"  // end the member's connection: messages to or from it were lost
	OpNotify Op = "notify" // an event for all members

	opRoll   Op = "roll"   // what became of messages of a stream?
	opMissed Op = "missed" // a stream has a gap
	opSeen   Op = "seen"   // which events for all members have not arrived?
)

// Problems of an answer to OpCall and OpProbe.
const (
	ProblemStale  = "stale"   // the member is not here; nothing was delivered
	ProblemLate   = "timeout" // no ack in time
	ProblemLeft   = "left"    // the member's connection ended
	ProblemBusy   = "busy"
	ProblemMoving = "moving" // the member goes to another node now; nothing was delivered
	ProblemOther  = "internal"
)

// Caller is the Agent that makes a call.
type Caller struct {
	Name, SID, Version string
	Dialect            uint8
}

// Message is a message between hubs. Args and Attachments are carried as they are.
type Message struct {
	Op            Op
	From          string // INC of the sender; set on the way
	Event, Office string
	To            string
	Gen, Rev, Seq uint64
	Timeout       time.Duration
	Agent         Caller
	Trace         string // the traceparent of a call, "" for none; one that is not well-formed is left out
	Deep          bool   // of OpProbe: ask the peer itself
	Problem       string
	Args          []json.RawMessage
	Attachments   [][]byte

	// Reply answers the message; nil if the sender awaits no answer. It must be called some time.
	Reply func(*Message)
	// Lost is called once, from any goroutine, if a message of Tell is found lost: it was not handled, and never
	// will be. Nil does not look after the message. It may be set by the sender alone.
	Lost func()
}

// encode returns the JSON form of a Caller.
func (c *Caller) encode() []byte {
	w := rawjson.NewWriter(make([]byte, 0, 128)).Object().Key("name").String(c.Name).Key("sid").String(c.SID)
	if c.Version != "" {
		w.Key("version").String(c.Version)
	}
	if c.Dialect != 0 {
		w.Key("dialect").Int(int64(c.Dialect))
	}
	return w.EndObject().Bytes()
}

// decodeCaller reads what encode has written. Members that this build does not know are left out.
func decodeCaller(raw []byte) (c Caller, err error) {
	var name, sid, version, dialect []byte
	err = rawjson.Scan(raw, rawjson.Key("name", &name), rawjson.Key("sid", &sid), rawjson.Key("version", &version), rawjson.Key("dialect", &dialect))
	if err == nil && dialect != nil {
		var n uint64
		n, err = strconv.ParseUint(string(dialect), 10, 8)
		c.Dialect = uint8(n)
	}
	c.Name, c.SID, c.Version = rawjson.Text(name), rawjson.Text(sid), rawjson.Text(version)
	return c, err
}

// isTrace reports whether a text has the form of a traceparent. It may go into a header then.
func isTrace(s string) bool {
	return len(s) >= 55 && len(s) <= 512 && strings.Trim(s, "0123456789abcdef-") == ""
}

var errMessage = errors.New("a message of another hub cannot be read")

func encodeText(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func decodeText(s string) (string, error) {
	raw, err := base64.RawURLEncoding.DecodeString(s)
	return string(raw), err
}

// pack returns the header and the body of a message.
func (m *Message) pack() (store.Header, []byte) {
	h := store.Header{headerV: "1"}
	set := func(name, value string) {
		if value != "" {
			h[name] = value
		}
	}
	number := func(name string, n uint64) {
		if n != 0 {
			h[name] = strconv.FormatUint(n, 10)
		}
	}
	set(headerOp, string(m.Op))
	set(headerFrom, m.From)
	set(headerEvent, encodeText(m.Event))
	set(headerOffice, encodeText(m.Office))
	set(headerTo, m.To)
	set(headerProblem, m.Problem)
	number(headerGen, m.Gen)
	number(headerRev, m.Rev)
	number(headerSeq, m.Seq)
	number(headerTimeout, uint64(m.Timeout.Milliseconds()))
	if m.Agent.SID != "" {
		h[headerAgent] = base64.RawURLEncoding.EncodeToString(m.Agent.encode())
	}
	if isTrace(m.Trace) {
		h[headerTrace] = m.Trace
	}
	if m.Deep {
		h[headerProblem] = "deep"
	}
	if len(m.Args) == 0 && len(m.Attachments) == 0 {
		return h, nil
	}
	if len(m.Args) == 1 && len(m.Attachments) == 0 {
		return h, m.Args[0] // the most frequent form needs neither a copy nor lengths
	}
	size := 0
	for _, a := range m.Args {
		size += len(a)
	}
	for _, a := range m.Attachments {
		size += len(a)
	}
	body := make([]byte, 0, size)
	lens := make([]byte, 0, 16)
	for _, a := range m.Args {
		body, lens = append(body, a...), append(strconv.AppendInt(lens, int64(len(a)), 10), ',')
	}
	lens = append(lens, ';')
	for _, a := range m.Attachments {
		body, lens = append(body, a...), append(strconv.AppendInt(lens, int64(len(a)), 10), ',')
	}
	h[headerLens] = string(lens)
	return h, body
}

// unpack reads a message.
func unpack(h store.Header, body []byte) (*Message, error) {
	if h[headerV] != "1" {
		return nil, fmt.Errorf("%w: its version is %q", errMessage, h[headerV])
	}
	m := &Message{Op: Op(h[headerOp]), From: h[headerFrom], To: h[headerTo], Problem: h[headerProblem], Trace: h[headerTrace]}
	if m.Op == OpProbe {
		m.Deep, m.Problem = m.Problem == "deep", ""
	}
	var failed error
	text := func(name string) string {
		s, err := decodeText(h[name])
		failed = errors.Join(failed, err)
		return s
	}
	number := func(name string) uint64 {
		if h[name] == "" {
			return 0
		}
		n, err := strconv.ParseUint(h[name], 10, 64)
		failed = errors.Join(failed, err)
		return n
	}
	m.Event, m.Office = text(headerEvent), text(headerOffice)
	m.Gen, m.Rev, m.Seq = number(headerGen), number(headerRev), number(headerSeq)
	m.Timeout = time.Duration(min(number(headerTimeout), 1<<40)) * time.Millisecond
	if agent := h[headerAgent]; agent != "" {
		raw, err := base64.RawURLEncoding.DecodeString(agent)
		if err == nil {
			m.Agent, err = decodeCaller(raw)
		}
		failed = errors.Join(failed, err)
	}
	if failed != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, failed)
	}
	lens, ok := h[headerLens]
	if !ok {
		if len(body) > 0 {
			m.Args = []json.RawMessage{body}
		}
		return m, nil
	}
	args, attachments, _ := strings.Cut(lens, ";")
	cut := func(lens string) (parts [][]byte, err error) {
		for text := range strings.SplitSeq(strings.TrimSuffix(lens, ","), ",") {
			if text == "" {
				continue
			}
			n, err := strconv.Atoi(text)
			if err != nil || n < 0 || n > len(body) {
				return nil, errMessage
			}
			parts, body = append(parts, body[:n:n]), body[n:]
		}
		return parts, nil
	}
	parts, err := cut(args)
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		m.Args = append(m.Args, p)
	}
	if m.Attachments, err = cut(attachments); err != nil || len(body) > 0 {
		return nil, errMessage
	}
	return m, nil
}

// laneOf returns the lane of the messages about a Computer.
func laneOf(computer string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(computer)) // never fails
	return int(h.Sum32() % lanes)
}

func (s *Shared) lane(inc string, k int) string {
	return nodePrefix(s.o.Name) + inc + hubInfix + strconv.Itoa(k)
}

func nodePrefix(name string) string { return "weir." + name + ".n." }

// hubInfix stands between the INC and the number of a lane.
const hubInfix = ".hub."

// NodeOf returns a function that returns the INC of the node whose hub listens to a subject, "" for subjects of several
// nodes.
func NodeOf(name string) func(subject string) string {
	prefix := nodePrefix(name)
	return func(subject string) string {
		if rest, ok := strings.CutPrefix(subject, prefix); ok {
			if inc, _, ok := strings.Cut(rest, hubInfix); ok {
				return inc
			}
		}
		return ""
	}
}

func (s *Shared) officeSubject(id string) string { return "weir." + s.o.Name + "." + keyOf(id) }

// listen begins to receive messages for the node's current INC.
func (s *Shared) listen() (stop func(), err error) {
	inc := s.o.Node.Inc()
	var stops []func()
	stop = func() {
		for _, f := range stops {
			f()
		}
	}
	for k := range lanes {
		one, err := s.o.Direct.Listen(s.lane(inc, k), s.receiver(inc, k))
		if err != nil {
			stop()
			return nil, err
		}
		stops = append(stops, one)
	}
	s.inc.Store(&inc)
	return stop, nil
}

// receiver returns what takes the messages of one subject. While the body of one is fetched, the later ones
// of its sender wait.
func (s *Shared) receiver(inc string, k int) func(store.Message) {
	line := &line{s: s, inc: inc, k: k, ears: map[string]*ear{}}
	return func(in store.Message) { line.take(in) }
}

// received hands a message to the hub.
func (s *Shared) received(in store.Message, body []byte) {
	m, err := unpack(in.Header, body)
	if err != nil {
		s.log.Warn("a message of another hub is left out", "err", err)
		if in.Reply != nil {
			_ = s.reply(in.Reply, &Message{Problem: ProblemOther}) // a roll finds what is not answered
		}
		return
	}
	if m.Op == OpNotify && !s.notices.see(m.From, m.Seq) {
		return
	}
	if in.Reply != nil {
		m.Reply = func(out *Message) {
			err := s.reply(in.Reply, out)
			if err != nil { // the sender must not wait for what does not come
				err = errors.Join(err, s.reply(in.Reply, &Message{Problem: ProblemBusy}))
			}
			if err != nil {
				s.log.Warn("another hub did not get its answer", "inc", m.From, "err", err)
			}
		}
	}
	s.events.Message(m)
}

// reply sends an answer.
func (s *Shared) reply(send func(store.Header, []byte) error, m *Message) error {
	m.From = s.Inc()
	h, body := m.pack()
	h, body, err := s.shrink(h, body)
	if err != nil {
		return err
	}
	if err = send(h, body); err != nil {
		s.unsent(h)
	}
	return err
}

// Tell sends a message to the hub of a node. Messages about one Computer arrive in order, or not at all: m.Lost
// hears of that.
func (s *Shared) Tell(inc, computer string, m *Message) error {
	m.From = s.Inc()
	h, body := m.pack()
	h, body, err := s.shrink(h, body)
	if err != nil {
		return err
	}
	var p *pending
	if lost := m.Lost; lost != nil {
		p = &pending{sent: time.Now(), lost: func(error) { s.unsent(h); lost() }}
	}
	k, number := laneOf(computer), uint64(0)
	st := s.streams.stream(m.From, inc, k)
	s.streams.send(st, h, p, func(n uint64) {
		number = n
		err = s.o.Direct.Tell(s.lane(inc, k), h, body)
	})
	if err != nil {
		st.remove(number)
		s.unsent(h)
	}
	return err
}

// Errors of Ask, in addition to ErrBusy, ErrLost and ErrNoAnswer: the node is not there, or has not answered in time.
var (
	ErrNobody = store.ErrNobody
	ErrLate   = store.ErrUnavailable
)

// Ask sends a message to the hub of a node, and calls f once with the answer. f must return at once. The caller
// must hold no lock that f takes.
func (s *Shared) Ask(inc, computer string, m *Message, timeout time.Duration, f func(*Message, error)) {
	m.From = s.Inc()
	h, body := m.pack()
	h, body, err := s.shrink(h, body)
	if err != nil {
		if !s.Go(func() { f(nil, err) }) {
			f(nil, err)
		}
		return
	}
	k := laneOf(computer)
	p := &pending{sent: time.Now(), asks: true, lost: func(err error) { s.unsent(h); f(nil, err) }}
	take := func(in store.Message, err error) {
		if !p.end() {
			return
		}
		if err != nil {
			if errors.Is(err, ErrLate) && time.Since(p.sent) < timeout {
				err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
			}
			p.lost(err)
			return
		}
		s.expand(in, func(body []byte, err error) {
			if err != nil {
				f(nil, err)
				return
			}
			f(unpack(in.Header, body))
		})
	}
	if m.Op == OpProbe { // its sender takes silence for an answer, and must not take the end of a connection for one
		s.o.Bus.Ask(s.lane(inc, k), h, body, timeout, take)
		return
	}
	st := s.streams.stream(m.From, inc, k)
	s.streams.send(st, h, p, func(number uint64) {
		s.o.Direct.Ask(s.lane(inc, k), h, body, timeout, func(in store.Message, err error) {
			st.remove(number)
			take(in, err)
		})
	})
}

// Hear calls f with the events of other nodes for an office. f must return at once.
func (s *Shared) Hear(id string, f func(*Message)) (stop func(), err error) {
	return s.o.Bus.Listen(s.officeSubject(id), func(in store.Message) {
		m, err := unpack(in.Header, in.Body)
		if err != nil || m.Office != id || m.Op != OpNotify {
			s.log.Warn("an event of another hub is left out", "office", id, "err", err)
			return
		}
		if m.From != s.Inc() && s.notices.see(m.From, m.Seq) {
			f(m)
		}
	})
}
