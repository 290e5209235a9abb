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

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/limit/memory"
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

// Op is the purpose of a message.
type Op string

// Ops.
const (
	OpCall   Op = "call"   // an event for a Computer that waits for its ack
	OpSend   Op = "send"   // an event for a member without an ack; numbered if it belongs to a channel
	OpUp     Op = "up"     // a channel's event for an Agent, numbered
	OpProbe  Op = "probe"  // is the member still here?
	OpClose  Op = "close"  // end the member's connection: messages to or from it were lost
	OpNotify Op = "notify" // an event for all members

	opRoll   Op = "roll"   // asks for the fate of messages of a stream
	opMissed Op = "missed" // a stream has a gap
	opSeen   Op = "seen"   // which events for all members have not arrived?
)

// Problems of an answer to OpCall and OpProbe.
const (
	ProblemStale  = "stale"   // the member is not here; nothing was delivered
	ProblemLate   = "timeout" // no ack in time
	ProblemLeft   = "left"    // the member's connection ended
	ProblemBusy   = "busy"
	ProblemNoRoom = "no_room" // there is no room for the message; it was not delivered
	ProblemUnsent = "unsent"  // the call has run, and there is no room for its answer
	ProblemMoving = "moving"  // the member goes to another node now; nothing was delivered
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
	// will be. Nil does not look after the message. Only the sender may set it.
	Lost func()

	room [1]json.RawMessage // of Args, if it is one
}

// append appends the JSON form of a Caller.
func (c *Caller) append(b []byte) []byte {
	w := rawjson.NewWriter(b).Object().Key("name").String(c.Name).Key("sid").String(c.SID)
	if c.Version != "" {
		w.Key("version").String(c.Version)
	}
	if c.Dialect != 0 {
		w.Key("dialect").Int(int64(c.Dialect))
	}
	return w.EndObject().Bytes()
}

// decodeCaller reads the result of append. Members that this build does not know are left out.
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

// encodeText returns a text for a header. Short ones, as most are, need one allocation.
func encodeText(s string) string {
	var from, to [256]byte
	return string(base64.RawURLEncoding.AppendEncode(to[:0], append(from[:0], s...)))
}

func decodeText(s string) (string, error) {
	var from, to [256]byte
	raw, err := base64.RawURLEncoding.AppendDecode(to[:0], append(from[:0], s...))
	return string(raw), err
}

// pack returns the header and the body of a message.
func (m *Message) pack() (store.Header, []byte) {
	fields := 4
	if m.Op != "" { // else it is an answer
		fields = 12
	}
	h := append(make(store.Header, 0, fields), [2]string{headerV, "1"})
	set := func(name, value string) {
		if value != "" {
			h = append(h, [2]string{name, value})
		}
	}
	number := func(name string, n uint64) {
		if n != 0 {
			set(name, strconv.FormatUint(n, 10))
		}
	}
	set(headerOp, string(m.Op))
	set(headerFrom, m.From)
	set(headerEvent, encodeText(m.Event))
	set(headerOffice, encodeText(m.Office))
	set(headerTo, m.To)
	number(headerGen, m.Gen)
	number(headerRev, m.Rev)
	number(headerSeq, m.Seq)
	number(headerTimeout, uint64(m.Timeout.Milliseconds()))
	if m.Agent.SID != "" {
		var room [256]byte
		set(headerAgent, encodeText(string(m.Agent.append(room[:0]))))
	}
	if isTrace(m.Trace) {
		set(headerTrace, m.Trace)
	}
	if m.Deep {
		set(headerProblem, "deep")
	} else {
		set(headerProblem, m.Problem)
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
	set(headerLens, string(lens))
	return h, body
}

// unpack reads a message.
func unpack(h store.Header, body []byte) (*Message, error) {
	m := &Message{}
	version, lens, parted, problem := "", "", false, error(nil)
	text := func(to *string, value string) {
		var err error
		if *to, err = decodeText(value); err != nil {
			problem = err
		}
	}
	number := func(to *uint64, value string) {
		var err error
		if *to, err = strconv.ParseUint(value, 10, 64); err != nil && value != "" {
			problem = err
		}
	}
	timeout := uint64(0)
	for _, field := range h { // once: a look for each name would pass over all of them each time
		switch value := field[1]; field[0] {
		case headerV:
			version = value
		case headerOp:
			m.Op = Op(value)
		case headerFrom:
			m.From = value
		case headerEvent:
			text(&m.Event, value)
		case headerOffice:
			text(&m.Office, value)
		case headerTo:
			m.To = value
		case headerProblem:
			m.Problem = value
		case headerTrace:
			m.Trace = value
		case headerGen:
			number(&m.Gen, value)
		case headerRev:
			number(&m.Rev, value)
		case headerSeq:
			number(&m.Seq, value)
		case headerTimeout:
			number(&timeout, value)
		case headerLens:
			lens, parted = value, true
		case headerAgent:
			var from, to [256]byte
			raw, err := base64.RawURLEncoding.AppendDecode(to[:0], append(from[:0], value...))
			if err == nil && value != "" {
				m.Agent, err = decodeCaller(raw)
			}
			if err != nil {
				problem = err
			}
		}
	}
	if version != "1" {
		return nil, fmt.Errorf("%w: its version is %q", errMessage, version)
	}
	if problem != nil {
		return nil, fmt.Errorf("%w: %w", errMessage, problem)
	}
	m.Timeout = time.Duration(min(timeout, 1<<40)) * time.Millisecond
	if m.Op == OpProbe {
		m.Deep, m.Problem = m.Problem == "deep", ""
	}
	if !parted {
		if len(body) > 0 {
			m.room[0] = body
			m.Args = m.room[:]
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

// listen starts to receive messages for the node's current INC.
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

// receiver returns the function that takes the messages of one subject. While the body of one is fetched,
// the later ones of its sender wait.
func (s *Shared) receiver(inc string, k int) func(store.Message) {
	line := &inbox{s: s, inc: inc, k: k, receivers: map[string]*receiver{}}
	return func(in store.Message) { line.take(in) }
}

// received hands a message to the hub.
func (s *Shared) received(in store.Message, body []byte) {
	m, err := unpack(in.Header, body)
	if err != nil {
		s.log.Warn("a message of another hub is left out", "err", err)
		if in.Reply != nil {
			_ = s.reply(in.Reply, &Message{Problem: ProblemOther}) // a roll finds unanswered messages
		}
		return
	}
	if m.Op == OpNotify && !s.notices.see(m.From, m.Seq) {
		return
	}
	if in.Reply != nil {
		m.Reply = func(out *Message) {
			err := s.reply(in.Reply, out)
			if err != nil { // the sender must not wait for a message that does not come
				err = errors.Join(err, s.reply(in.Reply, &Message{Problem: ProblemUnsent}))
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

// errFenced is the error of a message while this node has no INC: all nodes in that state would be one sender to the
// others. Nothing was sent.
var errFenced = fmt.Errorf("%w: this node is about to come back under another INC", ErrLost)

// Tell sends a message to the hub of a node. Messages about one Computer arrive in order, or not at all: m.Lost
// hears of that.
func (s *Shared) Tell(inc, computer string, m *Message) error {
	if m.From = s.Inc(); m.From == "" {
		return errFenced
	}
	h, body := m.pack()
	h, body, err := s.shrink(h, body)
	if err != nil {
		return err
	}
	var p *pending
	if lost := m.Lost; lost != nil {
		p = &pending{sent: time.Now(), owner: &sentMessage{s, h, lost}}
	}
	k, number := laneOf(computer), uint64(0)
	st := s.streams.stream(m.From, inc, k)
	s.streams.send(st, h, p, func(h store.Header, n uint64) (send func()) {
		number = n
		send, err = s.queue(st.subject, h, body, 0, nil)
		return send
	})
	if err != nil {
		st.remove(number)
		s.unsent(h)
	}
	return roomOf(err)
}

// roomOf makes the error of a message that found no room on its way an ErrNoRoom.
func roomOf(err error) error {
	if full := (*memory.Error)(nil); errors.As(err, &full) {
		return fmt.Errorf("%w: %w", ErrNoRoom, err)
	}
	return err
}

// Errors of Ask, in addition to ErrNoRoom, ErrLost and ErrNoAnswer: the node is not there, or has not answered in time.
var (
	ErrNobody = store.ErrNobody
	ErrLate   = store.ErrUnavailable
)

// Ask sends a message to the hub of a node, and calls f once with the answer. f must return at once. The caller
// must hold no lock that f takes.
func (s *Shared) Ask(inc, computer string, m *Message, timeout time.Duration, f func(*Message, error)) {
	var h store.Header
	var body []byte
	err := errFenced
	if m.From = s.Inc(); m.From != "" {
		h, body = m.pack()
		h, body, err = s.shrink(h, body)
	}
	if err != nil {
		if !s.Go(func() { f(nil, err) }) {
			f(nil, err)
		}
		return
	}
	k := laneOf(computer)
	q := &question{pending: pending{sent: time.Now(), asks: true}, s: s, h: h, timeout: timeout, f: f}
	q.owner = q
	if m.Op == OpProbe { // its sender takes silence for an answer, and must not take the end of a connection for one
		s.o.Bus.Ask(s.lane(inc, k), h, body, timeout, q.take)
		return
	}
	q.stream = s.streams.stream(m.From, inc, k)
	s.streams.send(q.stream, h, &q.pending, func(h store.Header, number uint64) (send func()) {
		q.number = number
		send, err := s.queue(q.stream.subject, h, body, timeout, q.take)
		if err != nil {
			go q.take(store.Message{}, err)
		}
		return send
	})
}

// sentMessage tracks a message sent with Tell so that its sender learns if it is lost.
type sentMessage struct {
	s    *Shared
	h    store.Header
	lost func()
}

func (t *sentMessage) lose(error) { t.s.unsent(t.h); t.lost() }

// question is a message of Ask.
type question struct {
	pending
	s       *Shared
	stream  *stream // nil: it has no number
	number  uint64
	h       store.Header
	timeout time.Duration
	f       func(*Message, error)
}

func (q *question) lose(err error) { q.s.unsent(q.h); q.f(nil, err) }

// take takes the answer.
func (q *question) take(in store.Message, err error) {
	if q.stream != nil {
		q.stream.remove(q.number)
	}
	if !q.end() {
		return
	}
	if err = roomOf(err); err != nil {
		if errors.Is(err, ErrLate) && !errors.Is(err, ErrNoRoom) && time.Since(q.sent) < q.timeout {
			err = fmt.Errorf("%w: %w", ErrNoAnswer, err)
		}
		q.lose(err)
		return
	}
	if _, large := in.Header.Lookup(headerBody); !large { // as expand has it, without a function on the heap
		q.f(unpack(in.Header, in.Body))
		return
	}
	q.s.expand(in, func(body []byte, err error) {
		switch {
		case errors.Is(err, ErrNoRoom):
			q.f(&Message{Problem: ProblemUnsent}, nil)
		case err != nil:
			q.f(nil, err)
		default:
			q.f(unpack(in.Header, body))
		}
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
