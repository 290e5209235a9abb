package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/linearity"
	"github.com/weir-mcp/weir/smcp/hub"
	"github.com/weir-mcp/weir/socketio"
	"github.com/weir-mcp/weir/socketio/engineio"
)

const (
	officeSize  = 2 // Computers of an office, of three names
	officeNames = 3
	guests      = 5 // Computers, some with the same name
	agents      = 2
	joinTime    = 20 * time.Second
	callTime    = 15 * time.Second // or a third of it
	// lostTime is how long a call may take where neither its node nor that of its Computer breaks: a message of it, or
	// one that asks for it, may be lost. A Computer takes 100 ms.
	lostTime = 8 * time.Second
)

// offices is what is known of offices, beyond answers: which membership a call names, and who got it.
type offices struct {
	history linearity.History
	// World.mu guards the fields below.
	members int               // memberships that began
	sent    map[string]string // by request: the membership that its last message between nodes names
	got     map[string]string // by request: the membership that got it
	left    []*guest          // in an office at the end
	unrun   []string          // requests of which the answer says that they did not run
}

// tap is a bus that notes which memberships calls between nodes name, and that loses some of their messages.
type tap struct {
	*store.MemoryBus
	w *world
}

// Ask implements store.Bus.
func (b tap) Ask(subject string, h store.Header, body []byte, timeout time.Duration, f func(store.Message, error)) {
	if h.Get("Weir-Op") == "call" {
		if id := rawjson.Text(rawjson.Get(body, "req_id")); id != "" {
			b.w.mu.Lock()
			b.w.offices.sent[id] = h.Get("Weir-To")
			b.w.mu.Unlock()
		}
		if b.w.loses() {
			time.AfterFunc(timeout, func() { f(store.Message{}, store.ErrUnavailable) })
			return
		}
	}
	b.MemoryBus.Ask(subject, h, body, timeout, f)
}

// Listen implements store.Bus. Answers to calls are lost, too.
func (b tap) Listen(subject string, f func(store.Message)) (stop func(), err error) {
	return b.MemoryBus.Listen(subject, func(m store.Message) {
		if reply := m.Reply; reply != nil && m.Header.Get("Weir-Op") == "call" {
			m.Reply = func(h store.Header, body []byte) error {
				if b.w.loses() {
					return nil
				}
				return reply(h, body)
			}
		}
		f(m)
	})
}

// loses reports whether a message of a call is lost without a word.
func (w *world) loses() bool { return time.Now().Before(w.until) && w.n(100) < 3 }

// anyone admits all peers.
type anyone struct{}

// Authenticate implements hub.Authenticator.
func (anyone) Authenticate(context.Context, hub.Credentials) (hub.Grant, error) {
	return hub.Grant{Principal: "ann"}, nil
}

// guest is a connection of an Agent or a Computer.
type guest struct {
	w          *world
	n          *node
	client     *socketio.Client
	place      string
	name, role string

	// World.mu guards the fields below.
	office string // "": in none
	join   linearity.Operation
	since  time.Time
	cut    bool // the connection has ended
	who    string
	alias  string // by which calls between nodes name the membership; "": there was none yet
}

// connect returns a connection to the hub of a node, nil if there is none.
func (n *node) connect(role, name string) *guest {
	g := &guest{w: n.w, n: n, name: name, role: role, place: name}
	config := socketio.ClientConfig{Namespace: "/smcp", Retry: func(int, error) (time.Duration, bool) { return 0, false }}
	if role == "agent" { // one of this process would be the gateway's, which is at all nodes
		g.place = linearity.Agent
		config.Engine = engineio.ClientConfig{Transports: []engineio.Transport{engineio.WebSocket}, DialContext: n.door.DialContext}
	} else {
		config.Local = n.hub.Attach()
	}
	config.OnDisconnect = func(socketio.Reason, error) {
		n.w.mu.Lock()
		defer n.w.mu.Unlock()
		g.cut = true
	}
	g.client = socketio.NewClient("http://hub/socket.io/", config)
	g.client.On("client:tool_call", g.called)
	n.mu.Lock()
	known := n.guests != nil
	if known {
		n.guests[g] = struct{}{}
	}
	n.mu.Unlock()
	ctx, cancel := context.WithTimeout(n.w.t.Context(), time.Second)
	defer cancel()
	if !known || g.client.Connect(ctx) != nil {
		g.close()
		return nil
	}
	return g
}

func (g *guest) close() {
	g.n.mu.Lock()
	delete(g.n.guests, g)
	g.n.mu.Unlock()
	_ = g.client.Close()
}

// gone reports whether the connection has ended.
func (g *guest) gone() bool {
	select {
	case <-g.client.Done():
		return true
	case <-g.n.dead:
		return true
	default:
		g.w.mu.Lock()
		defer g.w.mu.Unlock()
		return g.cut
	}
}

// ask emits an event and returns the values of the ack, "" for none.
func (g *guest) ask(event, payload string, most time.Duration) string {
	ctx, cancel := context.WithTimeout(g.w.t.Context(), most)
	defer cancel()
	ack, err := g.client.EmitWithAck(ctx, event, json.RawMessage(payload))
	if errors.Is(err, socketio.ErrDisconnected) {
		g.w.mu.Lock()
		g.cut = true
		g.w.mu.Unlock()
	}
	if err != nil || g.gone() {
		return ""
	}
	var out []string
	for _, arg := range ack.Args {
		out = append(out, string(arg))
	}
	return strings.Join(out, " ")
}

// enter joins an office and reports whether the guest is in it.
func (g *guest) enter(office string) bool {
	w := g.w
	in := linearity.Join{Place: g.place}
	op := linearity.Operation{Part: office, Call: w.offices.history.Now(), Return: linearity.Never, Output: linearity.Unknown}
	w.mu.Lock()
	w.offices.members++
	in.Who = fmt.Sprint(g.name, "/", w.offices.members)
	g.office, g.who, g.alias, g.since = office, in.Who, "", time.Now()
	w.mu.Unlock()
	failures := g.n.busy.Load()
	answer := g.ask("server:join_office", fmt.Sprintf(`{"role":%q,"name":%q,"office_id":%q}`, g.role, g.name, office), joinTime)
	stamp := w.offices.history.Now()
	in.Evicts = g.n.busy.Load() != failures || g.n.brokenSince(op.Call, g.since, 0) != linearity.Never
	in.Ends = linearity.Never
	switch {
	case answer == "true null":
		op.Output, op.Return = linearity.In, stamp
		op.Input = in
		g.join = op
		w.saw("joins")
		return true
	case strings.Contains(answer, "already exists"), strings.Contains(answer, "already in room"):
		op.Output, op.Return = linearity.Taken, stamp
		w.saw("places that are taken")
	case strings.Contains(answer, "which is the bound"):
		op.Output, op.Return = linearity.Full, stamp
		w.saw("offices that are full")
	default: // it may be in, and is taken out again
		in.Ends, in.Evicts = op.Call, true
		w.saw("joins without an answer")
	}
	op.Input = in
	w.offices.history.Add(op)
	w.mu.Lock()
	g.office = ""
	w.mu.Unlock()
	return false
}

// brokenSince returns the stamp from which on a break of the node, which has consequences for a time after its
// mending, may have ended a membership that began at a stamp.
func (n *node) brokenSince(stamp int64, at time.Time, after time.Duration) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	first := linearity.Never
	for _, b := range n.breaks {
		if b.end.IsZero() || b.end.Add(after).After(at) {
			first = min(first, max(b.from, stamp))
		}
	}
	return first
}

// exits notes the end of a membership. ends is the stamp from which on the guest knows that it may be over.
func (g *guest) exits(ends int64) {
	op := g.join
	in, _ := op.Input.(linearity.Join)
	in.Ends = min(ends, g.n.brokenSince(op.Call, g.since, aftermath))
	op.Input = in
	g.w.offices.history.Add(op)
}

// isOut notes that the connection has ended without the guest's doing: with its node, or because another member has its
// place.
func (g *guest) isOut() {
	g.exits(linearity.Never)
	g.w.offices.history.Add(linearity.Operation{Part: g.office, Input: linearity.Out{Who: g.who}, Call: g.join.Return, Return: g.w.offices.history.Now()})
	g.w.saw("connections that ended")
}

// leaves leaves the office and reports whether the guest was told so.
func (g *guest) leaves() bool {
	w, call := g.w, g.w.offices.history.Now()
	if g.ask("server:leave_office", fmt.Sprintf(`{"office_id":%q}`, g.office), joinTime) != "true null" {
		g.exits(call) // it may have left
		return false
	}
	g.exits(linearity.Never)
	w.offices.history.Add(linearity.Operation{Part: g.office, Input: linearity.Leave{Who: g.who}, Call: call, Return: w.offices.history.Now()})
	time.Sleep(time.Millisecond) // what came before the answer is handled
	w.mu.Lock()
	g.office = ""
	w.mu.Unlock()
	w.saw("leaves")
	return true
}

// called is a Computer's answer to a call. It checks that the call was for this membership, and is the only one.
func (g *guest) called(e *socketio.Event) {
	id := rawjson.Text(rawjson.Get(e.Arg(0), "req_id"))
	w := g.w
	w.mu.Lock()
	to := w.offices.sent[id]
	switch before := w.offices.got[id]; {
	case before != "":
		w.wrong("call %s came to %s and to %s", id, before, g.who)
	case g.office == "":
		w.wrong("call %s came to %s, which is in no office", id, g.name)
	case !strings.HasPrefix(id, g.office+"-"):
		w.wrong("call %s came to %s, which is in %s", id, g.who, g.office)
	case to != "" && g.alias != "" && to != g.alias:
		w.wrong("call %s names %s and came to %s, which calls have named %s", id, to, g.who, g.alias)
	case to != "" && !strings.Contains(to, "."+g.client.Socket().ID()+"."):
		w.wrong("call %s names %s and came to %s at the connection %s", id, to, g.who, g.client.Socket().ID())
	}
	if to != "" {
		g.alias = to
	}
	w.offices.got[id] = g.who
	w.mu.Unlock()
	w.pause(100 * time.Millisecond)
	_ = e.Ack(json.RawMessage(fmt.Sprintf(`{"content":[{"type":"text","text":%q}]}`, "done "+id)))
}

// calls makes a call to a Computer of the office.
func (g *guest) calls(number int) {
	id := fmt.Sprint(g.office, "-", g.who, "-", number)
	timeout := callTime / time.Duration(1+2*g.w.n(2))
	payload := fmt.Sprintf(`{"agent":%q,"req_id":%q,"computer":"desk%d","tool_name":"t","params":{},"timeout":%d}`, g.name, id, g.w.n(officeNames), int(timeout.Seconds()))
	began := time.Now()
	answer := g.ask("client:tool_call", payload, callTime+10*time.Second)
	g.w.mu.Lock()
	to, _, _ := strings.Cut(g.w.offices.sent[id], ".")
	if strings.Contains(answer, "did not run") {
		g.w.offices.unrun = append(g.w.offices.unrun, id)
	}
	g.w.mu.Unlock()
	switch took := time.Since(began); {
	case g.gone():
	case answer == "" || took > timeout+5*time.Second:
		g.w.wrong("%s at %s: call %s has the answer %q after %v", g.who, g.n.name, id, answer, took)
	case took > lostTime && g.n.whole(began) && slices.ContainsFunc(g.w.all(), func(n *node) bool { return n.Inc() == to && n.whole(began) }):
		g.w.wrong("%s at %s: call %s to the node %s has the answer %q after %v, and nothing was broken", g.who, g.n.name, id, to, answer, took)
	case strings.Contains(answer, "lost on the way"), strings.Contains(answer, "broke; the call may have run"):
		g.w.saw("calls of Computers that were lost")
	case strings.Contains(answer, "done ") && !strings.Contains(answer, "done "+id+`"`):
		g.w.wrong("call %s has the answer %s", id, answer)
	case strings.Contains(answer, "done "):
		g.w.saw("calls of Computers")
	default:
		g.w.saw("calls of Computers that failed")
	}
}

// whole reports whether nothing of a node was broken since a time, and shortly before it.
func (n *node) whole(since time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !slices.ContainsFunc(n.breaks, func(b broken) bool { return b.end.IsZero() || b.end.Add(lost).After(since) })
}

// visits lets an Agent or a Computer come and go until the work ends. It may be in an office then.
func (w *world) visits(role, name string) {
	for !w.over() {
		g := w.pick().connect(role, name)
		if g == nil {
			w.pause(time.Second)
			continue
		}
		if w.stays(g) {
			w.mu.Lock()
			w.offices.left = append(w.offices.left, g)
			w.mu.Unlock()
			return
		}
		g.close()
		w.pause(time.Second)
	}
}

// stays lets a guest come and go on one connection. It reports whether the guest is in an office at the end of
// the work.
func (w *world) stays(g *guest) bool {
	for !w.over() {
		if !g.enter(fmt.Sprint("o", w.n(2))) {
			w.pause(4 * time.Second)
			if w.n(2) == 0 {
				return false
			}
			continue
		}
		until, number := time.Now().Add(time.Duration(w.n(int(12*time.Second)))), 0
		for !g.gone() && !w.over() && time.Now().Before(until) {
			if g.role == "agent" {
				number++
				g.calls(number)
			}
			w.pause(2 * time.Second)
		}
		switch {
		case g.gone():
			g.isOut()
			return false
		case w.over():
			return true
		case w.n(3) == 0:
			g.exits(w.offices.history.Now())
			return false // it closes without a word
		case !g.leaves():
			return false
		}
	}
	return false
}

// membersAgree checks that the members of offices are those that are connected, and that all that was seen of joins and
// leaves has one order.
func (w *world) membersAgree() {
	for _, id := range w.offices.unrun {
		if got := w.offices.got[id]; got != "" {
			w.wrong("call %s came to %s, and its answer says that it did not run", id, got)
		}
	}
	in := map[string][]string{}
	names := map[string]map[string]bool{"o0": {}, "o1": {}}
	for _, g := range w.offices.left {
		if g.gone() {
			g.isOut()
			continue
		}
		g.exits(linearity.Never)
		in[g.office] = append(in[g.office], g.who)
		names[g.office][g.name] = true
	}
	for office, want := range names {
		_, have, err := w.all()[0].shared.Get(w.t.Context(), office)
		if err != nil {
			w.t.Fatal(err)
		}
		if have.Agent != nil && !want[have.Agent.Name] {
			w.wrong("%s has the Agent %s, which is not connected", office, have.Agent.Name)
		}
		for name, c := range have.Computers {
			if !want[name] {
				w.wrong("%s has the Computer %s (%s), which is not connected", office, name, c.SID)
			}
		}
		if members := len(have.Computers) + len(have.Spans()); len(want) > 0 && members == 0 {
			w.wrong("%s is empty, and has the members %v", office, want)
		}
		w.offices.history.Add(linearity.Operation{Part: office, Input: linearity.Read{}, Output: linearity.MembersOf(in[office]), Call: w.offices.history.Now(), Return: w.offices.history.Now()})
	}
}
