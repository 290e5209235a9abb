package metatool

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/bridge"
	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/flow"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/observe/telemetry"
	"github.com/weir-mcp/weir/internal/result/usage"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/tasks"
	"github.com/weir-mcp/weir/mcp"
	syncbody "github.com/weir-mcp/weir/s2sp/dispatch"
)

// maxOffered bounds the offered ids and the frozen cards of one session. Cards beyond it count as
// new each time.
const maxOffered = 4096

// State is the data of a gateway that survives a reload: the sessions with their quotas and seen
// tools, and the usage. A gateway with a new configuration gets the State of its predecessor, so
// that a reload resets no quota. State is safe for concurrent use.
//
// Its goroutines exist only while there is work: one counts the tokens of large results, one compares
// lists, and each session with notifications has one that delivers them. Close waits for them.
type State struct {
	started  time.Time
	key      *sessionKey
	account  usage.Account
	front    atomic.Pointer[Gateway]        // the newest gateway with this State
	cache    atomic.Pointer[dispatch.Cache] // of front; nil: it has none
	fan      bridge.Fan                     // delivers notifications to sessions
	leveled  sync.Map                       // upstream → *bridge.Levels
	mimics   sync.Map                       // upstreams that asked questions such as weir's own
	drift    drift
	names    toolNames // under which tools are listed
	tasks    *tasks.Registry
	links    *links
	ledgers  ledgers
	labels   principalLabels
	recalls  recalls
	bodies   *BodyNodes
	comparer comparer

	mu       sync.Mutex // guards below
	follow   map[*follower]struct{}
	closed   bool
	sessions map[*sessionState]func()              // open sessions; the function cancels the wait for their end
	bodied   map[string]map[*sessionState]struct{} // sessions that keep, or have kept, bodies for other nodes, by principal
	others   int                                   // of sessions, those whose id does not outlast the process
	moved    []movedBodies                         // of sessions at other nodes
}

// NewState returns an empty State.
func NewState() *State {
	return &State{started: time.Now(), key: new(sessionKey), sessions: map[*sessionState]func(){}, bodied: map[string]map[*sessionState]struct{}{}, follow: map[*follower]struct{}{}, tasks: tasks.NewRegistry(nil), links: newLinks(), labels: principalLabels{docs: store.NewMemory(store.MemoryOptions{})}}
}

// Keep makes handles of tasks and quotas outlast the process, and restores the ones of an earlier
// one. It must be called before the State is used. The logger gets what the store does not keep.
func (s *State) Keep(ctx context.Context, docs store.Docs, log *slog.Logger) error {
	s.ledgers.grants, s.recalls.docs, s.recalls.log = dispatch.NewGrants(docs, nil), docs, log
	s.labels.docs = docs
	return s.tasks.Keep(ctx, docs)
}

// BodyNodes are the nodes of a cluster that keep the bodies of sync results. The functions are called concurrently.
type BodyNodes struct {
	// Mark names this node.
	Mark func() string
	// Fill returns the arguments of a principal's call with a body that another node has in place of its handle,
	// and other arguments unchanged.
	Fill func(ctx context.Context, principal string, args json.RawMessage) (json.RawMessage, error)
}

// ShareBodies makes handles of bodies work at all nodes, for principals in the modern era and for sessions that have
// moved. It must be called before the State is used.
func (s *State) ShareBodies(of *BodyNodes) { s.bodies = of }

// Share makes quotas outlast the process, and counts the quotas of principals over all nodes of a cluster. nodes
// returns how many there are. Handles of tasks work at all of them, and what a principal in the modern era was shown is
// known at all of them a second later. It must be called before the State is used.
func (s *State) Share(docs store.Docs, nodes func() int, of *tasks.Nodes) {
	s.ledgers.grants = dispatch.NewGrants(docs, nodes)
	s.recalls.docs, s.recalls.shared = docs, true
	s.labels.docs = docs
	s.tasks.Share(docs, of)
}

// Yield gives back what is left of the quotas of principals. A node that drains calls it.
func (s *State) Yield() { s.ledgers.grants.Yield() }

// Close forgets the sessions and waits for the goroutines. Leases of quotas are given back until ctx ends. It may be
// called more than once.
func (s *State) Close(ctx context.Context) {
	s.recalls.close()
	s.mu.Lock()
	stops := s.sessions
	s.closed, s.sessions = true, nil
	moved := s.moved
	s.moved = nil
	s.mu.Unlock()
	for _, one := range moved {
		one.Close()
	}
	for st, stop := range stops {
		if stop != nil {
			stop()
		}
		st.end()
	}
	s.ledgers.grants.Close(ctx)
	s.fan.Close()
	s.account.Close()
}

// sessionKey is the key of a State's data in a session. Each State has its own key, so that one
// session may use several gateways.
type sessionKey struct{ _ byte }

// sessionState is the data of one session. The modern era has no sessions; there, it is the data of
// one principal.
type sessionState struct {
	tag       string // for events and statistics; the id is a secret
	principal string
	once      sync.Once // registers the session

	of     *State // has the bodies; set before the first use, as bodies are
	usage  usage.Counters
	ledger *dispatch.Ledger // of the session, or of the principal; set before the first use
	flow   *flow.Session    // what the model has read. Set before the first use
	bodies *BodyNodes       // where other nodes have bodies; nil: bodies are here. Set before the first use
	recall *recall          // what of this outlasts the process; nil: nothing. Set before the first use

	mu      sync.Mutex          // guards below
	offered map[string]struct{} // tools that were browsed or hydrated, by shownKey
	listed  bool                // tools/list showed them all
	defined bool                // tools/list has been counted
	ahead   bool                // the baseline cost was counted before the first tools/list
	stable  stablePrefix
	told    map[string]string            // log level by upstream, as the upstreams were told
	read    *bounded.Map[string, string] // URIs of resources that were read, with their upstreams
	follows *follower                    // nil until the session has requested a list
	subs    map[string]func()            // subscriptions by the client's uri; nil once the session has ended
	ended   bool
	moved   bool                 // another node has the session
	sync    *syncbody.Dispatcher // holds bodies for the next call
}

var _ dispatch.Session = (*sessionState)(nil)

// sessionOf returns the gateway's data of a call's session.
func sessionOf(c *dispatch.Call) *sessionState { return c.Session.(*sessionState) }

// Flow implements dispatch.Session.
func (st *sessionState) Flow() *flow.Session { return st.flow }

// Ledger implements dispatch.Session.
func (st *sessionState) Ledger() *dispatch.Ledger { return st.ledger }

// Bodies returns the dispatcher that keeps the bodies of sync results away from the session's
// model.
func (st *sessionState) Bodies() *syncbody.Dispatcher {
	st.mu.Lock()
	of, first := st.sync, st.sync == nil
	if first {
		o := syncbody.Options{}
		if st.bodies != nil {
			o.Mark = st.bodies.Mark
		}
		of = syncbody.New(o)
		if st.sync = of; st.ended {
			of.Close()
		}
	}
	st.mu.Unlock()
	if first && st.bodies != nil {
		st.of.index(st)
	}
	return of
}

// index lets TakeBody find the bodies of a session, until the session ends.
func (s *State) index(st *sessionState) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.sessions[st]; !open {
		return
	}
	of := s.bodied[st.principal]
	if of == nil {
		of = map[*sessionState]struct{}{}
		s.bodied[st.principal] = of
	}
	of[st] = struct{}{}
}

// FillBody implements dispatch.Session.
func (st *sessionState) FillBody(ctx context.Context, args json.RawMessage) (filled json.RawMessage, err error) {
	if st.bodies != nil {
		if args, err = st.bodies.Fill(ctx, st.principal, args); err != nil {
			return nil, err
		}
	}
	return st.Bodies().OnToolCall(args)
}

// TakeBody is FillBody for a call of a principal at another node. ok is false if no session of the principal here, or of
// those that have moved away, has the body.
func (s *State) TakeBody(principal string, args json.RawMessage) (filled json.RawMessage, ok bool) {
	s.mu.Lock()
	kept := slices.Collect(maps.Keys(s.bodied[principal]))
	s.mu.Unlock()
	for _, st := range kept {
		if !st.keepsBodies() {
			continue
		}
		if filled, err := st.Bodies().OnToolCall(args); err == nil {
			return filled, true
		}
	}
	s.mu.Lock()
	moved := slices.Clone(s.moved)
	s.mu.Unlock()
	for _, one := range moved {
		if one.principal != principal {
			continue
		}
		if filled, err := one.OnToolCall(args); err == nil {
			return filled, true
		}
	}
	return nil, false
}

// maxMoved bounds the sessions that have moved to other nodes and whose bodies are still here.
const maxMoved = 256

// movedBodies are the bodies of a session that has moved to another node. They are here until they expire, or the
// process ends.
type movedBodies struct {
	*syncbody.Dispatcher
	principal string
}

// keepMoved keeps the bodies of a session that has moved to another node: its handles name this one.
func (s *State) keepMoved(st *sessionState) {
	st.mu.Lock()
	bodies := st.sync
	moved := st.moved && bodies != nil
	if moved {
		st.sync = nil
	}
	st.mu.Unlock()
	if !moved {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		bodies.Close()
		return
	}
	s.moved = append(s.moved, movedBodies{bodies, st.principal})
	if len(s.moved) > maxMoved {
		s.moved[0].Close()
		s.moved = slices.Delete(s.moved, 0, 1)
	}
}

func (st *sessionState) keepsBodies() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.sync != nil
}

// end drops the bodies and the subscriptions of the session.
func (st *sessionState) end() {
	st.mu.Lock()
	st.ended = true
	subs := st.subs
	st.subs = nil
	if st.sync != nil {
		st.sync.Close()
	}
	st.mu.Unlock()
	for _, stop := range subs {
		stop()
	}
}

// newSessionState returns the data of a session that starts.
func newSessionState(of *mcp.Session) *sessionState {
	return &sessionState{tag: telemetry.SessionTag(of.ID()), principal: of.Principal()}
}

// session returns the data of a request's session.
func (s *State) session(r *mcp.Request) *sessionState {
	of := r.Session
	st := of.Value(s.key, func() any {
		return newSessionState(of)
	}).(*sessionState)
	st.once.Do(func() {
		s.count(r, st)
		s.recalls.join(r, st)
		s.register(of, st)
	})
	return st
}

// count gives the data of a request's session its ledger: the ledger of the principal in the modern
// era, else one of its own.
func (s *State) count(r *mcp.Request, st *sessionState) {
	st.of, st.bodies = s, s.bodies
	if !r.Modern() {
		st.flow = flow.NewSession(s.labels.docs, "session", r.Session.ID(), !sessionid.Adopted(r.Session), false)
		st.ledger = s.ledgers.own(r.Session)
		return
	}
	ledger, release := s.ledgers.hold(st.principal)
	st.ledger, st.flow = ledger, s.labels.hold(st.principal, s.recalls.shared)
	r.Session.OnClose(release)
}

// register lists a session until it ends.
func (s *State) register(of *mcp.Session, st *sessionState) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		st.end()
		return
	}
	s.sessions[st] = nil
	other := 1
	if _, lasts := sessionid.Born(of); lasts {
		other = 0
	}
	s.others += other
	s.mu.Unlock()
	stop := of.OnClose(func() {
		s.keepMoved(st)
		st.end()
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sessions, st)
		if of := s.bodied[st.principal]; of != nil {
			if delete(of, st); len(of) == 0 {
				delete(s.bodied, st.principal)
			}
		}
		s.others -= other
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, open := s.sessions[st]; open {
		s.sessions[st] = stop
	}
}

// Sessions returns the number of open sessions that have used a gateway.
func (s *State) Sessions() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.sessions)
}

// Others returns the number of open sessions that have used a gateway and whose ids do not outlast the process:
// sessions of principals, and of connections.
func (s *State) Others() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.others
}

// openSessions returns the open sessions, sorted by principal and tag.
func (s *State) openSessions() []*sessionState {
	s.mu.Lock()
	list := slices.Collect(maps.Keys(s.sessions))
	s.mu.Unlock()
	slices.SortFunc(list, func(a, b *sessionState) int {
		return strings.Compare(a.principal+"\x00"+a.tag, b.principal+"\x00"+b.tag)
	})
	return list
}

// offerCards records that tools of a catalog were shown to the session.
func (st *sessionState) offerCards(from *catalog.Catalog, cards []catalog.Card) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range cards {
		if cards[i].Kind == primitive.KindTool {
			st.offerLocked(shownKey(from, cards[i].ID))
		}
	}
}

// shownKey returns the id of a tool with a hash of its definition, "" for the hash of an unknown tool.
func shownKey(from *catalog.Catalog, id string) string {
	e, ok := from.Lookup(id)
	if !ok {
		return id
	}
	digest := e.Digest()
	return id + "\t" + hex.EncodeToString(digest[:4])
}

func (st *sessionState) offerLocked(key string) {
	if _, known := st.offered[key]; known || len(st.offered) >= maxOffered {
		return
	}
	if st.offered == nil {
		st.offered = make(map[string]struct{})
	}
	st.offered[key] = struct{}{}
	st.remember()
}

// offeredIDs returns the ids of tools that the session was shown. In proxy
// and plain mode, which list every tool, those are all of c once it has asked for them.
func (st *sessionState) offeredIDs(c *catalog.Catalog) []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.listed {
		entries := c.Entries()
		ids := make([]string, 0, len(entries))
		for _, e := range entries {
			if e.Kind == primitive.KindTool {
				ids = append(ids, e.ID)
			}
		}
		return ids
	}
	ids := make([]string, 0, len(st.offered))
	for key := range st.offered {
		id, _, _ := strings.Cut(key, "\t")
		ids = append(ids, id)
	}
	return ids
}

// offeredBare returns the tool of c whose id without its version and its hash is id, if the session was
// shown it as it is now, and no other tool of that name at any time. Otherwise it returns nil. An id that
// lacks only its hash may have been the whole id of another tool.
func (st *sessionState) offeredBare(c *catalog.Catalog, id string) *catalog.Entry {
	if strings.ContainsAny(id, "@#") {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	whole, current := "", false
	for key := range st.offered {
		shown, digest, _ := strings.Cut(key, "\t")
		if !isPart(id, shown) {
			continue
		}
		if whole != "" && whole != shown {
			return nil
		}
		whole, current = shown, current || digest != "" && shownKey(c, shown) == key
	}
	if e, ok := c.Lookup(whole); ok && current {
		return e
	}
	return nil
}

// isPart reports whether part is an id without its version, its hash or both.
func isPart(part, id string) bool {
	return len(part) < len(id) && strings.HasPrefix(id, part) && (id[len(part)] == '@' || id[len(part)] == '#')
}
