package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/office/a2c"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/smcp"
	"github.com/weir-mcp/weir/socketio/engineio"
)

// Several hubs share offices as documents (Options.Shared). Each hub follows the offices that it has
// members in, and notifies its own members of the changes from one revision to the next:
//
//	join ─▶ Shared.Change ─▶ document ─ Follow ─▶ apply at each hub ─▶ notify:enter_office, leave_office
//	call ─▶ the replica says the node ─▶ Shared.Ask ─▶ that hub ─▶ Computer     (remote.go)
//	server:update_* ─▶ Shared.Notify ─▶ each hub of the office: waits for its revision ─▶ notify:update_*
//
// A member that is not in the newest revision any more is put out where its connection is. Nothing of
// this runs without Options.Shared.

// fabric is a Hub together with the others.
type fabric struct{ *Hub }

const (
	changeTime = 13 * time.Second // for one change of an office: longer than the timeout of package store
	waitEvents = time.Second      // for the revision of an event, until the store is asked
	maxEvents  = 1024             // that wait for a revision
	askSlack   = 2 * time.Second  // for answers of another hub, past the time of the Computer
)

// cluster is the state of a hub for the other hubs. Hub.mu guards it.
type cluster struct {
	peers   map[string]*session // with a place in an office, or on the way to one, by alias
	own     map[string]*session // the gateway's Agents of this node, by office
	flights map[string]*flight  // calls to Computers of other nodes, by INC
	ending  map[string]struct{} // Computers at other nodes whose connections are to end, by sid
	drained bool                // no peer may come
	leaving bool                // the peers go to other nodes; the gateway's own Agents stay
}

func (c *cluster) init() {
	c.peers, c.own, c.flights, c.ending = map[string]*session{}, map[string]*session{}, map[string]*flight{}, map[string]struct{}{}
}

// forget removes a connection. The caller holds Hub.mu.
func (c *cluster) forget(s *session) {
	delete(c.peers, s.alias)
	delete(c.peers, s.next)
	if c.own[s.wants] == s {
		delete(c.own, s.wants)
	}
}

// shared is the part of an office that has a document. Hub.mu guards it.
type shared struct {
	rev    uint64
	local  int // members with a connection here; counted without a cluster as well
	users  int // joins under way
	spans  bool
	ended  bool
	ready  chan struct{} // closed when the office is followed, or cannot be
	err    error         // why it is not; may be read after ready
	stops  []func()
	events []event
}

// event is an event of another hub that waits for its revision.
type event struct {
	rev     uint64
	name    string
	payload json.RawMessage
}

// notNow is the answer to a join or leave that the store did not take.
func notNow(err error) error {
	var known *smcp.Error
	if errors.As(err, &known) {
		return known
	}
	if newer := (*roster.Newer)(nil); errors.As(err, &newer) {
		return smcp.Errorf(smcp.CodeBusy, "A newer version of the gateway has written the members of the office, and this node cannot read them; connect again, and operators upgrade this node").With("reason", "newer_version")
	}
	return smcp.Errorf(smcp.CodeBusy, "The members of the office cannot be changed now; try again").With("reason", "store_unavailable")
}

// link starts to hear of other hubs, once.
func (h fabric) link() error {
	h.linking.Lock()
	defer h.linking.Unlock()
	if h.linked {
		return nil
	}
	err := h.o.Shared.Open(remote{h})
	h.linked = err == nil
	return err
}

// open returns a followed office, which the caller gives back with done.
func (h fabric) open(ctx context.Context, id string) (*office, error) {
	h.mu.Lock()
	o := h.offices[id]
	first := o == nil
	if first {
		o = &office{ID: id, Office: roster.Office{ID: id}}
		o.shared.ready = make(chan struct{})
		h.offices[id] = o
	}
	o.shared.users++
	h.mu.Unlock()
	if first {
		stops, err := h.follow(o)
		h.mu.Lock()
		o.shared.stops, o.shared.err = stops, err
		h.mu.Unlock()
		close(o.shared.ready)
	}
	select {
	case <-o.shared.ready:
	case <-ctx.Done():
		h.done(o)
		return nil, ctx.Err()
	}
	if o.shared.err != nil {
		h.done(o)
		return nil, o.shared.err
	}
	return o, nil
}

// follow subscribes to an office.
func (h fabric) follow(o *office) (stops []func(), err error) {
	stop, err := h.o.Shared.Hear(o.ID, func(m *roster.Message) { h.heard(o, m) })
	if err != nil {
		return nil, err
	}
	stops = append(stops, stop)
	stop, err = h.o.Shared.Follow(o.ID, func(rev uint64, next *roster.Office) { h.apply(o, rev, next) })
	if err != nil {
		stops[0]()
		return nil, err
	}
	return append(stops, stop), nil
}

// done gives an office back.
func (h fabric) done(o *office) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o.shared.users--
	h.endUnused(o)
}

// endUnused forgets an office without members here. The caller holds mu.
func (h fabric) endUnused(o *office) {
	if o.shared.ended || o.shared.local > 0 || o.shared.users > 0 {
		return
	}
	o.shared.ended = true
	for _, c := range o.Computers {
		h.unname(c)
	}
	for _, stop := range o.shared.stops {
		stop()
	}
	if h.offices[o.ID] == o {
		delete(h.offices, o.ID)
	}
}

// apply takes a newer revision of an office.
func (h fabric) apply(o *office, rev uint64, next *roster.Office) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if o.shared.ended || rev <= o.shared.rev || next == nil {
		return
	}
	inc := h.o.Shared.Inc()
	next.Members(func(m *roster.Member) {
		switch {
		case m.Node != roster.Everywhere:
			if s := h.cluster.peers[m.SID]; s != nil {
				m.Peer = s
			}
		case h.cluster.own[o.ID] != nil && slices.Contains(m.Nodes, inc):
			m.Peer = h.cluster.own[o.ID]
		default:
			m.Peer = nil
		}
	})
	before := o.Office
	o.Office, o.shared.rev = *next, rev
	before.Members(func(m *roster.Member) {
		if !in(next, m) {
			h.putOut(o, m)
			h.left(o, m)
		}
	})
	h.adopt(o, &before, next)
	next.Members(func(m *roster.Member) {
		if !in(&before, m) {
			h.claimRemote(o, m)
			h.entered(o, m)
		}
	})
	nodes := next.Spans()
	o.shared.spans = slices.ContainsFunc(nodes, func(n string) bool { return n != inc })
	for _, n := range nodes {
		if h.o.Shared.Doubts(n) {
			h.dropIfGone(o.ID, n)
		}
	}
	h.release(o)
	h.endUnused(o)
}

// in reports whether a member is in an office.
func in(o *roster.Office, m *roster.Member) bool {
	if m.Role == roster.Agent {
		return o.Agent != nil && o.Agent.Is(m)
	}
	c := o.Computers[m.Name]
	return c != nil && c.Is(m)
}

// adopt replaces the members that sessions hold by the members of the newer revision. This node's own
// Agent may come to an Agent that other nodes have brought. The caller holds mu.
func (h fabric) adopt(o *office, before, next *roster.Office) {
	next.Members(func(m *roster.Member) {
		s := local(m)
		switch {
		case s == nil || !in(before, m):
		case s.at == nil: // the office had the gateway's Agent of another node
			h.seats(o, s, m)
		default:
			s.at = m
		}
	})
	a := before.Agent
	if a == nil || a.Node != roster.Everywhere || !in(next, a) {
		return
	}
	if s := local(a); s != nil && local(next.Agent) == nil { // this node's has left, others stay
		o.shared.local--
		s.socket.Leave(roomOf(o.ID, true))
		s.socket.Leave(roomOf(o.ID, false))
		if s.office == o {
			s.office, s.at, s.threads = nil, nil, nil
		}
		h.abandon(s, o)
	}
}

// seats gives a session its place in an office. The caller holds mu.
func (h fabric) seats(o *office, s *session, m *roster.Member) {
	s.role, s.name, s.office, s.at, s.alias, s.since = smcp.Role(m.Role), m.Name, o, m, s.next, time.Now()
	s.leaving = false
	o.shared.local++
	s.socket.Join(s.room(o.ID))
}

// putOut ends the connection of a member that is out of its office without its doing. The caller holds mu.
func (h fabric) putOut(_ *office, m *roster.Member) {
	s := local(m)
	if s == nil || s.leaving || s.at != m || s.ended {
		return
	}
	h.replaced(s, "its place belongs to another connection now")
	h.o.Shared.Go(s.socket.Close)
}

// claimRemote notes the owner of a Computer that another node has let in. The caller holds mu.
func (h fabric) claimRemote(o *office, m *roster.Member) {
	if m.Role != roster.Computer || local(m) != nil || h.o.Claim == nil {
		return
	}
	key, _ := smcp.DecodeKey(m.Key) // "" is none
	if err := h.o.Claim(Claimant{o.ID, m.Name, m.Principal, key}); err != nil {
		h.log.Warn("a Computer at another node has a name that belongs to another owner here", "office", o.ID, "name", m.Name, "node", m.Node, "err", err)
	}
}

func (h fabric) unname(m *roster.Member) {
	if h.named[m.Name]--; h.named[m.Name] <= 0 {
		delete(h.named, m.Name)
	}
}

// joinShared handles server:join_office where hubs share offices.
func (h fabric) joinShared(s *session, req *smcp.Join, nonce string) (answer, error) {
	if err := h.link(); err != nil {
		return nil, notNow(err)
	}
	inc := h.o.Shared.Inc()
	h.mu.Lock()
	if done, err := h.mayEnter(s, req, nonce); done != nil || err != nil {
		h.mu.Unlock()
		return done, err
	}
	if inc == "" || !roster.Admits(h.o.Shared) || h.cluster.drained || h.cluster.leaving && !s.own {
		h.mu.Unlock()
		return nil, notNow(nil)
	}
	h.joins++
	m := s.wanted(req, inc, h.joins)
	h.cluster.peers[s.next] = s
	if m.Node == roster.Everywhere {
		h.cluster.own[req.OfficeID] = s
	}
	from, old := s.office, s.at
	s.wants, s.coming = req.OfficeID, m
	h.mu.Unlock()
	ctx, cancel := context.WithTimeout(s.socket.Context(), changeTime)
	defer cancel()
	o, err := h.open(ctx, req.OfficeID)
	if err == nil {
		defer h.done(o)
		err = h.take(ctx, s, req, o, m)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	s.coming = nil
	if err == nil && s.at != nil && s.office == o {
		if from != nil { // a Computer changes rooms by joining
			delete(h.cluster.peers, old.SID)
			h.withdraw(from, old)
		}
		return s.dialect.JoinOK(), nil
	}
	if o != nil && s.office != o { // the write may be made later
		h.withdraw(o, h.seat(m, m.SID))
	}
	delete(h.cluster.peers, m.SID)
	if h.cluster.own[req.OfficeID] == s {
		delete(h.cluster.own, req.OfficeID)
	}
	if err == nil {
		err = a2c.ErrInternal // put out at once, or the node is fenced
	}
	return nil, notNow(err)
}

// take writes a member into an office. A holder of its place that does not answer makes room.
func (h fabric) take(ctx context.Context, s *session, req *smcp.Join, o *office, m *roster.Member) error {
	free := ""
	for attempt := 1; ; attempt++ {
		terms := roster.Terms{Max: h.o.MaxComputers, Free: free, May: func() error { return h.claim(s, req.Role, req.Name, o.ID) }}
		rev, next, err := h.o.Shared.Change(ctx, o.ID, func(office *roster.Office) (bool, error) {
			before := office.Agent
			c := office.Computers[m.Name]
			_, err := office.Join(m, terms)
			return office.Agent != before || office.Computers[m.Name] != c, err
		})
		if err == nil {
			h.apply(o, rev, next)
			return nil
		}
		var taken *roster.TakenError
		if !errors.As(err, &taken) || attempt > maxReplaced || !h.vacant(ctx, s, m, taken.Holder) {
			h.mu.Lock()
			defer h.mu.Unlock()
			return refusal(s, req, h.o.MaxComputers, err)
		}
		free = taken.Holder.SID
	}
}

// vacant reports whether the holder of a place is not there any more: its node says so, is gone, or does
// not answer.
func (h fabric) vacant(ctx context.Context, s *session, m, holder *roster.Member) bool {
	owner := m.SameOwner(holder)
	switch {
	case holder.Node == roster.Everywhere:
		return false
	case holder.Node == h.o.Shared.Inc():
		h.mu.Lock()
		held := h.cluster.peers[holder.SID]
		h.mu.Unlock()
		return held == nil || owner && isGone(s, held)
	case h.o.Shared.IsGone(ctx, holder.Node):
		return true
	}
	answered := make(chan bool, 1)
	timeout := probeTime
	if owner {
		timeout += probeTime / 2 // for the way; the node itself waits for its peer
	}
	h.o.Shared.Ask(holder.Node, holder.Name, &roster.Message{Op: roster.OpProbe, To: holder.SID, Gen: holder.Gen, Deep: owner}, timeout, func(a *roster.Message, err error) {
		answered <- err == nil && a.Problem == ""
	})
	select {
	case here := <-answered:
		if !here {
			h.o.Shared.Suspect(holder.Node)
		}
		return !here
	case <-ctx.Done():
		return false
	}
}

// leaveShared handles server:leave_office where hubs share offices.
func (h fabric) leaveShared(s *session) error {
	h.mu.Lock()
	o, m := s.office, s.at
	if o == nil {
		h.mu.Unlock()
		return a2c.ErrNoRoom
	}
	s.leaving = true
	o.shared.users++
	h.mu.Unlock()
	defer h.done(o)
	ctx, cancel := context.WithTimeout(s.socket.Context(), changeTime)
	defer cancel()
	rev, next, err := h.o.Shared.Change(ctx, o.ID, leaving(h.seat(m, s.alias)))
	if err != nil {
		h.mu.Lock()
		s.leaving = false
		h.mu.Unlock()
		return notNow(err)
	}
	h.apply(o, rev, next)
	return nil
}

// seat returns the members that a session withdraws when it leaves: of the gateway's Agent, only
// this node.
func (h fabric) seat(m *roster.Member, alias string) *roster.Member {
	if m.Node != roster.Everywhere {
		return m
	}
	own := *m
	own.Nodes = []string{incOf(alias)}
	return &own
}

// leaving returns the change of an office that a member leaves.
func leaving(m *roster.Member) func(*roster.Office) (bool, error) {
	return func(o *roster.Office) (bool, error) { return o.Leave(m), nil }
}

// departLater takes a session out of its office, as soon as the store takes the change. The caller holds
// mu.
func (h fabric) departLater(s *session) {
	o, m := s.office, s.at
	s.leaving = true
	h.withdraw(o, h.seat(m, s.alias))
}

// withdraw takes a member out of an office as soon as the store takes the change. The caller holds mu.
func (h fabric) withdraw(o *office, m *roster.Member) {
	o.shared.users++
	h.o.Shared.Insist(o.ID, leaving(m), func(rev uint64, next *roster.Office) {
		h.apply(o, rev, next)
		h.done(o)
	})
}

// dropIfGone takes the members of a node out of an office if the store does not know the node. The caller
// holds mu.
func (h fabric) dropIfGone(id, inc string) {
	h.o.Shared.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), changeTime)
		defer cancel()
		if h.o.Shared.IsGone(ctx, inc) {
			h.drop(id, inc)
		}
	})
}

// drop takes the members of a node that is gone out of an office.
func (h fabric) drop(id, inc string) {
	h.mu.Lock()
	o := h.offices[id]
	if o == nil || !slices.Contains(o.Spans(), inc) {
		h.mu.Unlock()
		return // another hub was quicker
	}
	defer h.mu.Unlock()
	o.shared.users++
	h.o.Shared.Insist(id, func(office *roster.Office) (bool, error) { return office.Drop(inc), nil }, func(rev uint64, next *roster.Office) {
		h.apply(o, rev, next)
		h.done(o)
	})
}

// tellOthers sends an event of an office to the hubs of its other members. The caller holds mu.
func (h fabric) tellOthers(o *office, event string, payload json.RawMessage) {
	if !o.shared.spans {
		return
	}
	err := h.o.Shared.Notify(&roster.Message{Office: o.ID, Event: event, Rev: o.shared.rev, Args: []json.RawMessage{payload}}, o.Spans())
	if err != nil {
		h.log.Warn("a notification did not reach other nodes; it is sent again", "event", event, "office", o.ID, "err", err)
	}
}

// heard takes an event of another hub. One of a later revision than this hub has seen waits for it.
func (h fabric) heard(o *office, m *roster.Message) {
	if len(m.Args) != 1 {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case o.shared.ended:
	case m.Rev <= o.shared.rev && len(o.shared.events) == 0:
		h.announce(o.ID, nil, m.Event, m.Args[0])
	case len(o.shared.events) >= maxEvents:
		h.log.Warn("a notification of another node is left out", "event", m.Event, "office", o.ID)
	default:
		o.shared.events = append(o.shared.events, event{m.Rev, m.Event, m.Args[0]})
		if len(o.shared.events) == 1 {
			h.o.Shared.Go(func() { h.catchUp(o) })
		}
	}
}

// catchUp asks the store for a revision that does not come.
func (h fabric) catchUp(o *office) {
	ctx, cancel := context.WithTimeout(context.Background(), waitEvents+changeTime)
	defer cancel()
	if !h.o.Shared.Pause(waitEvents) {
		return
	}
	h.mu.Lock()
	waiting := len(o.shared.events) > 0
	h.mu.Unlock()
	if !waiting {
		return
	}
	if rev, next, err := h.o.Shared.Get(ctx, o.ID); err == nil {
		h.apply(o, rev, next)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range o.shared.events { // of a revision that is not to be had
		h.announce(o.ID, nil, e.name, e.payload)
	}
	o.shared.events = nil
}

// release announces the events whose revision is there. The caller holds mu.
func (h fabric) release(o *office) {
	for len(o.shared.events) > 0 && o.shared.events[0].rev <= o.shared.rev {
		e := o.shared.events[0]
		o.shared.events = o.shared.events[1:]
		h.announce(o.ID, nil, e.name, e.payload)
	}
}

// spread ends the connections one after the other before a Shutdown, so that their peers do not come to
// the other nodes at the same moment.
func (h fabric) spread(ctx context.Context) {
	if h.o.Shared == nil {
		return
	}
	h.mu.Lock()
	h.cluster.drained = true
	h.mu.Unlock()
	sockets := h.ns.Sockets()
	gap := maxGap
	if end, ok := ctx.Deadline(); ok && len(sockets) > 0 {
		gap = min(gap, time.Until(end)/2/time.Duration(len(sockets)))
	}
	for _, socket := range sockets {
		socket.Close()
		select {
		case <-time.After(gap):
		case <-ctx.Done():
			return
		}
	}
}

// drain ends the connections one after the other, each when it has no call in flight, and refuses new ones. Between
// the look for calls and the end of a connection none can start there. Connections of the gateway itself stay. It
// returns when the hub ends, because a peer whose handshake was earlier may come late.
func (h fabric) drain() {
	h.mu.Lock()
	h.cluster.leaving = true
	h.mu.Unlock()
	for {
		for _, socket := range h.ns.Sockets() {
			s, _ := socket.Value().(*session)
			if s == nil || s.own {
				continue
			}
			h.mu.Lock()
			s.moving = len(s.calls)+s.serving == 0 // a call that comes from now on is refused, with an answer
			moving := s.moving
			h.mu.Unlock()
			if !moving {
				continue
			}
			socket.Close()
			if !h.o.Shared.Pause(maxGap) {
				return
			}
		}
		if !h.o.Shared.Pause(drainLook) {
			return
		}
	}
}

// drainLook is how often a drain looks for connections whose calls have ended.
const drainLook = 250 * time.Millisecond

// end forgets the offices whose members the store has not let go: the other nodes drop them with this one.
func (h fabric) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, o := range h.offices {
		o.shared.local, o.shared.users = 0, 0
		h.endUnused(o)
	}
}

// ending refuses peers that come while the hub lets the others go: another node takes them.
func (h fabric) ending() *engineio.Refusal {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.cluster.drained && !h.cluster.leaving {
		return nil
	}
	return &engineio.Refusal{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}}, Body: []byte(`{"code":4,"message":"this node is ending; try again"}`)}
}

// maxGap bounds the time between the ends of two connections in a Shutdown or a drain.
const maxGap = 5 * time.Millisecond
