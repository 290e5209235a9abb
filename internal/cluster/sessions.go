package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/limit/memory"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/internal/text"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// Endpoint is a handler whose sessions live at one node each.
type Endpoint struct {
	// Path names the endpoint.
	Path string
	// Next serves the sessions of this node, and all requests without a session. It makes a session
	// again whose id it does not have.
	Next http.Handler
	// ID returns the session that a request names, "" if it names none.
	ID func(r *http.Request) string
	// Owner returns the INC of the node that made a session of a principal, and the document in which
	// another node says that the session is its own. ok is false for an id that no node has made for the
	// principal.
	Owner func(principal, id string) (inc, key string, ok bool)
	// Here reports whether the session lives in this process. Forget ends it here, unless it is in use; it
	// may go on at another node.
	Here   func(id string) bool
	Forget func(id string)
	// ForgetAll ends all sessions here. They may go on at other nodes.
	ForgetAll func()
	// Ahead reads what the store keeps of a session, while this node takes the session over. with puts it into
	// the context of the request that Next serves then. Nil: Next reads it.
	Ahead func(ctx context.Context, principal, id string) (with func(context.Context) context.Context)
	// Leave returns what the next node of a session of this process needs, and the document for it. state is ""
	// if that is nothing. Handed puts it into the context of the request that Next serves at that node. Nil:
	// nothing is handed over.
	Leave  func(id string) (key, state string)
	Handed func(ctx context.Context, state string) context.Context
	// IDs returns all sessions of this process. OnEnding sets what is called before they end with it.
	IDs      func() []string
	OnEnding func(f func(ctx context.Context))
	// MaxBody bounds the body of a request that is passed on, and Memory counts it.
	MaxBody int64
	Memory  *memory.Pool
}

// Bounds of what a node remembers of sessions.
const (
	takenTTL    = 24 * time.Hour
	takenRenew  = 8 * time.Hour
	maxSessions = 1 << 14 // of which the owner is remembered; more cost another look
)

// Sessions returns a handler that serves each session at the node that owns it:
//
//	no session, or it lives here ─▶ Next
//	its owner is another node    ─▶ peer link ─▶ that node's Sessions ─▶ Next there
//	its owner is gone or drains  ─▶ Take ─▶ Next, which makes the session anew
//
// Put it behind the guard: it tells the other node who makes the request.
func (n *Node) Sessions(e Endpoint) http.Handler {
	if n.Inc() == "" {
		return e.Next
	}
	ids := bounded.New(bounded.Options[string, inID]{MaxCount: maxIDs, MaxBytes: maxIDs << 10, TTL: idTime})
	s := &sessions{n: n, e: e, ids: ids, owners: map[string]string{}, taken: map[string]time.Time{}, left: map[string]string{}}
	n.mu.Lock()
	if n.sessions == nil {
		n.sessions = map[string]*sessions{}
	}
	n.sessions[e.Path] = s
	n.mu.Unlock()
	if e.OnEnding != nil {
		e.OnEnding(s.leaveAll)
	}
	return s
}

type sessions struct {
	n   *Node
	e   Endpoint
	ids *bounded.Map[string, inID]

	mu     sync.Mutex           // guards below
	owners map[string]string    // by id of the session: its owner, if that did not make it
	taken  map[string]time.Time // by id: when this node last said that the session is its own
	left   map[string]string    // by id: what another node has left of a session that is not made again yet
	size   int                  // bytes of left
}

func (s *sessions) forgetAll() {
	s.mu.Lock()
	clear(s.owners)
	clear(s.taken)
	clear(s.left)
	s.size = 0
	s.mu.Unlock()
	s.e.ForgetAll()
}

// inID is what the id of a session says to the cluster.
type inID struct{ principal, made, key string }

// Bounds of the ids that a node remembers, so that it does not open one for each request. An id that ends with its age
// is known for so much longer.
const (
	maxIDs = 1024
	idTime = time.Minute
)

// ownerInID is Endpoint.Owner.
func (s *sessions) ownerInID(principal, id string) (made, key string, ok bool) {
	if known, ok := s.ids.Get(id); ok && known.principal == principal {
		return known.made, known.key, true
	}
	if made, key, ok = s.e.Owner(principal, id); ok {
		s.ids.Put(id, inID{principal, made, key}, int64(len(id)))
	}
	return made, key, ok
}

func (s *sessions) ownerOf(id, made string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if inc := s.owners[id]; inc != "" {
		return inc
	}
	return made
}

func (s *sessions) remember(id, inc string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.owners) >= maxSessions {
		clear(s.owners)
	}
	s.owners[id] = inc
}

// exchange is one request with a session.
type exchange struct {
	s         *sessions
	w         http.ResponseWriter
	r         *http.Request
	id        string // of the session
	made, key string
	body      []byte
	room      memory.Hold // of body
	read      bool        // the body has been read
	message   jsonrpc.Message
	parted    string    // the INC of the node that part has asked last
	until     time.Time // when the wait for a store without a leader ends; zero before the first wait
}

// ServeHTTP implements http.Handler.
func (s *sessions) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _, carried := link.Caller(r.Context())
	id := s.e.ID(r)
	if id == "" {
		if s.n.Draining() && !carried {
			(&exchange{s: s, w: w, r: r}).away()
			return
		}
		s.e.Next.ServeHTTP(w, r)
		return
	}
	made, key, ok := s.ownerInID(guard.Principal(r.Context()), id)
	if !ok {
		s.e.Next.ServeHTTP(w, r)
		return
	}
	r, end := s.n.ending.streaming(r)
	defer end()
	x := &exchange{s: s, w: w, r: r, id: id, made: made, key: key}
	defer x.room.Release()
	switch {
	case s.n.Draining():
		x.drain(carried)
	case s.e.Here(id):
		s.keep(r.Context(), id, key, made)
		s.e.Next.ServeHTTP(w, r)
	case carried:
		x.carried()
	default:
		x.route()
	}
}

// keep renews the document of a session that this node has taken over.
func (s *sessions) keep(ctx context.Context, id, key, made string) {
	if made == s.n.Inc() {
		return
	}
	s.mu.Lock()
	due := time.Since(s.taken[id]) > takenRenew
	if due {
		s.taken[id] = time.Now()
	}
	s.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	doc, err := s.n.docs.Get(ctx, key)
	if err == nil && doc.Rev != 0 {
		_, _ = s.n.docs.Set(ctx, key, doc.Value, doc.Rev, takenTTL) // the next request tries again
	}
}

// drain serves a request at a node that takes no new work. Answers and notices of the client go to calls
// that still run here. Other requests of another node send it away: it takes the session over.
func (x *exchange) drain(carried bool) {
	s := x.s
	if s.e.Here(x.id) && x.r.Method == http.MethodPost {
		if !x.readBody() {
			return
		}
		if x.message.Kind() != jsonrpc.Request {
			x.local()
			return
		}
	}
	if carried {
		s.leave(context.WithoutCancel(x.r.Context()), x.id)
		x.misdirected("")
		return
	}
	if others := successors(s.n.Peers(), s.n.Inc(), x.id); len(others) > 0 {
		if x.readBody() {
			s.leave(context.WithoutCancel(x.r.Context()), x.id)
			x.routeTo(others[0])
		}
		return
	}
	x.local()
}

// misdirected answers another node that the session is not this node's.
func (x *exchange) misdirected(owner string) {
	x.w.Header().Set(link.HeaderOwner, owner)
	x.w.WriteHeader(http.StatusMisdirectedRequest)
}

// carried serves a request that another node has sent to this one as the owner. A session of an older incarnation has
// ended here: a node that is apart and cannot ask for its owner leaves it to the other node.
func (x *exchange) carried() {
	owner, err := x.owner(false)
	switch {
	case err != nil && link.Misdirected(x.r.Context()) && Apart(x.s.n):
		x.misdirected("")
	case err != nil:
		x.unavailable(err)
	case owner == x.s.n.Inc():
		x.local()
	default:
		x.misdirected(owner)
	}
}

// owner is find, again and again while the store does not answer: where the node that was killed led it, the others
// elect a leader first. A node that is apart asks once.
func (x *exchange) owner(handed bool) (inc string, err error) {
	if x.until.IsZero() {
		x.until = time.Now().Add(patience(Apart(x.s.n), Silence(x.s.n)))
	}
	for {
		inc, err = x.find(handed)
		if err == nil || time.Until(x.until) < retryEvery || pause(x.r.Context(), retryEvery) != nil {
			return inc, err
		}
	}
}

// find returns the owner of a session. A session whose owner is gone or drains, or that was handed over,
// becomes this node's.
func (x *exchange) find(handed bool) (string, error) {
	n := x.s.n
	ctx, cancel := attempt(x.r.Context(), n)
	defer cancel()
	if handed || n.nodes.over(x.made) && x.made != n.Inc() {
		if x.claim(ctx) {
			x.adopted()
			return n.Inc(), nil
		}
	}
	doc, err := n.docs.Get(ctx, x.key)
	if err != nil {
		return "", err
	}
	if doc.Rev == 0 && !handed {
		if x.made == n.Inc() {
			return x.made, nil
		}
		if !n.nodes.over(x.made) {
			p, there, err := n.nodes.lookUp(ctx, x.made)
			if err != nil {
				return "", err
			}
			if there && p.State == stateUp {
				return x.made, nil
			}
		}
	}
	if x.partOf(doc) { // the session was at more nodes than this one has heard of
		if doc, err = n.docs.Get(ctx, x.key); err != nil {
			return "", err
		}
	}
	_, owner, was, err := n.nodes.own(ctx, n.Inc(), claimOptions{key: x.key, ttl: takenTTL, drained: true, seen: &doc})
	if err != nil {
		return "", err
	}
	if owner == n.Inc() {
		x.inherit(was)
		x.adopted()
	} else {
		x.s.remember(x.id, owner)
	}
	return owner, nil
}

// claim makes a session this node's that no other node has taken over yet, in one request to the store. It reads what
// is kept of the session meanwhile. If it returns false, the document says more.
func (x *exchange) claim(ctx context.Context) bool {
	n := x.s.n
	mine, err := json.Marshal(owner{V: 1, Inc: n.Inc()})
	if err != nil {
		return false
	}
	var with func(context.Context) context.Context
	var reads sync.WaitGroup
	if x.s.e.Ahead != nil {
		reads.Go(func() { with = x.s.e.Ahead(ctx, guard.Principal(ctx), x.id) })
	}
	_, err = n.docs.Set(ctx, x.key, mine, 0, takenTTL)
	reads.Wait()
	if err != nil {
		return false
	}
	if with != nil {
		x.r = x.r.WithContext(with(x.r.Context()))
	}
	return true
}

// adopted notes that the session is this node's now.
func (x *exchange) adopted() {
	s := x.s
	s.remember(x.id, s.n.Inc())
	s.n.count.adopted.Add(1)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.taken) >= maxSessions {
		clear(s.taken)
	}
	s.taken[x.id] = time.Now()
}

// local serves the request in this process.
func (x *exchange) local() {
	if x.read {
		x.r.Body = io.NopCloser(bytes.NewReader(x.body))
	}
	defer x.hold()()
	x.s.e.Next.ServeHTTP(x.w, x.r)
}

// readBody reads the body of the request, so that it can be sent more than once. It writes a response if
// that fails.
func (x *exchange) readBody() bool {
	if x.read {
		return true
	}
	x.room = x.s.e.Memory.Hold("principal ", guard.Principal(x.r.Context()))
	body, err := guard.ReadBody(x.w, x.r, x.s.e.MaxBody, nil, &x.room)
	if err != nil {
		k, _ := mcp.KindOf(err)
		guard.WriteError(x.w, k.Info().HTTP, guard.RequestID(err), err)
		return false
	}
	x.body, x.read = body, true
	if x.r.Method == http.MethodPost {
		x.message, _ = jsonrpc.Parse(body) // the owner refuses what is no message
	}
	return true
}

// route serves a request of the public whose session does not live here.
func (x *exchange) route() {
	if x.readBody() {
		x.routeTo("")
	}
}

// moves bounds how often a request follows its session.
const moves = 4

func (x *exchange) routeTo(to string) {
	n := x.s.n
	if to == "" {
		to = x.s.ownerOf(x.id, x.made)
	}
	handed, around := false, false
	for range moves {
		if p, there := n.nodes.of(to); handed || to == n.Inc() || !there || p.State != stateUp && x.message.Kind() == jsonrpc.Request {
			if !handed && there && p.State == stateDraining && to != n.Inc() {
				x.part(to)
			}
			owner, err := x.owner(handed)
			if err != nil {
				x.unavailable(err)
				return
			}
			to, handed = owner, false
		}
		if to == n.Inc() {
			x.local()
			return
		}
		switch next, result := x.forward(to); result {
		case sent:
			return
		case moved:
			// A node never sends a request to itself: another process has the address of a node that was killed, and
			// needs a moment to find that out. See succeed.
			if next == to && pause(x.r.Context(), retryEvery) != nil {
				return
			}
			if next == "" {
				n.nodes.drains(to) // its document may not say so yet
			} else {
				x.s.remember(x.id, next)
			}
			to, handed = next, next == ""
		case notSent:
			if !around && n.link.Detoured(to) { // it has just been found that the link does not answer
				around = true
				continue
			}
			if !n.Suspect(x.r.Context(), to) {
				if err := x.asked(to); err != nil {
					x.unavailable(err) // the node may be gone: the store would know
				} else {
					x.unreached(to)
				}
				return
			}
			to = "" // is looked for again
		}
	}
	x.moving(to)
}

// asked returns an error if the store cannot be asked for a node.
func (x *exchange) asked(inc string) error {
	ctx, cancel := attempt(x.r.Context(), x.s.n)
	defer cancel()
	_, _, err := x.s.n.nodes.lookUp(ctx, inc)
	return err
}

// outcome says what became of a request to another node.
type outcome int

const (
	sent    outcome = iota // a response has been written
	moved                  // the node is not the owner
	notSent                // the node has got nothing, or nothing that runs twice
)

// forward sends the request to another node and copies the response.
func (x *exchange) forward(to string) (next string, result outcome) {
	n := x.s.n
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	defer n.health.watch(to, func() { cancel(errSilent) })()
	n.count.forwarded.Add(1)
	resp, err := n.link.Carry(to, x.outgoing(ctx))
	switch {
	case err == nil:
	case x.r.Context().Err() != nil:
		return "", sent // the client is gone
	case errors.Is(err, link.ErrNotSent), x.repeatable():
		return "", notSent
	default:
		x.gone(to, err)
		return "", sent
	}
	if resp.StatusCode == http.StatusMisdirectedRequest {
		if owners, ok := resp.Header[link.HeaderOwner]; ok {
			_ = resp.Body.Close()
			return strings.Join(owners, ""), moved
		}
	}
	if link.IsStream(resp) { // it ends with the credential of its request
		lasting, end := guard.Lasting(ctx)
		defer end()
		defer context.AfterFunc(lasting, func() { cancel(context.Cause(lasting)) })()
	}
	if err := link.Copy(x.w, resp); err != nil && x.r.Context().Err() == nil {
		x.brokenOff(to, resp, err)
	}
	return "", sent
}

var errSilent = errors.New("the node does not answer")

// outgoing returns the request for another node.
func (x *exchange) outgoing(ctx context.Context) *http.Request {
	out := x.r.WithContext(ctx)
	out.Header = make(http.Header, len(x.r.Header)+link.Headers)
	maps.Copy(out.Header, x.r.Header) // its values are not changed
	link.DropHop(out.Header)
	link.SetCaller(out.Header, identity.From(x.r.Context()))
	out.ContentLength = int64(len(x.body))
	out.TransferEncoding = nil
	out.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.body)), nil }
	if out.Body, _ = out.GetBody(); len(x.body) == 0 {
		out.Body = http.NoBody
	}
	return out
}

// repeatable reports whether the request may run twice. Calls of tools and prompts may not.
func (x *exchange) repeatable() bool {
	if x.r.Method == http.MethodGet {
		return true
	}
	if x.r.Method != http.MethodPost {
		return false
	}
	switch x.message.Kind() {
	case jsonrpc.Notification:
		return true
	case jsonrpc.Request:
		switch x.message.Method {
		case "ping", "tools/list", "resources/list", "resources/templates/list", "resources/read", "prompts/list",
			"completion/complete", "logging/setLevel", "resources/subscribe", "resources/unsubscribe":
			return true
		}
	}
	return false
}

// unavailable answers that the store cannot be asked for the session.
func (x *exchange) unavailable(err error) {
	if x.opensLater() {
		return
	}
	x.w.Header().Set("Retry-After", "2")
	guard.WriteError(x.w, http.StatusServiceUnavailable, x.message.ID, mcp.Errorf(mcp.KindStoreUnavailable, "the store of this gateway cannot be asked where the session lives; try again: %w", err))
}

// moving answers that each node that the request was sent to has named another one.
func (x *exchange) moving(last string) {
	x.s.n.log.Warn("a session moves too often: nodes end one after another, or do not agree on who has it", "inc", last)
	if x.opensLater() {
		return
	}
	ran := x.repeatable()
	e := mcp.Errorf(mcp.KindNodeGone, "the session has moved %d times between nodes during the request: try again", moves)
	if !ran {
		e = mcp.Errorf(mcp.KindNodeGone, "the session has moved %d times between nodes during the request, which did not run: try again", moves)
	}
	e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": last, "maybe_ran": ran}) // texts and a bool
	guard.WriteError(x.w, mcp.KindNodeGone.Info().HTTP, x.message.ID, e)
}

// gone answers that the node of the session ended during the request.
func (x *exchange) gone(inc string, err error) {
	guard.WriteError(x.w, mcp.KindNodeGone.Info().HTTP, x.message.ID, x.goneError(inc, err))
}

// unreached answers that the node of the session lives and that no node can send it the request.
func (x *exchange) unreached(inc string) {
	n := x.s.n
	name := inc
	if p, ok := n.nodes.of(inc); ok && p.Name != "" {
		name = text.Line(p.Name, 80)
	}
	n.log.Warn("a node lives and cannot be reached: cluster.listen and cluster.advertise there, or the network between the nodes", "node", name, "inc", inc)
	if x.opensLater() {
		return
	}
	// A request that may run twice is sent again, so only of the others it is certain that nothing ran.
	ran := x.repeatable()
	e := mcp.Errorf(mcp.KindNodeGone, "the node %s has this session, lives and cannot be reached by the other nodes, so the request did not run: try again; operators check cluster.advertise of %s and the network between the nodes", name, name)
	if ran {
		e = mcp.Errorf(mcp.KindNodeGone, "the node %s has this session, lives and does not answer other nodes: try again; operators check cluster.advertise of %s and the network between the nodes", name, name)
	}
	e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": inc, "maybe_ran": ran}) // texts and a bool
	guard.WriteError(x.w, mcp.KindNodeGone.Info().HTTP, x.message.ID, e)
}

func (x *exchange) goneError(inc string, err error) *mcp.Error {
	n := x.s.n
	n.count.broken.Add(1)
	n.log.Warn("a request was at a node that does not answer any more", "inc", inc, "err", err)
	e := mcp.Errorf(mcp.KindNodeGone, "the node of this session ended during the request, which may have run; the session goes on at another node: make the call again if that does no harm")
	e.Data, _ = json.Marshal(map[string]any{"kind": "node_gone", "node": inc, "maybe_ran": true}) // texts and a bool
	return e
}

// brokenOff ends an event stream whose node ended with an answer to its request. Of another response the
// connection breaks off.
func (x *exchange) brokenOff(inc string, resp *http.Response, err error) {
	failed := x.goneError(inc, err)
	if !link.IsStream(resp) {
		panic(http.ErrAbortHandler)
	}
	if x.message.Kind() != jsonrpc.Request {
		return // the client opens the stream again
	}
	event := append([]byte("event: message\ndata: "), jsonrpc.AppendError(nil, x.message.ID, mcp.WireError(failed, ""))...)
	rc := http.NewResponseController(x.w)
	_ = rc.SetWriteDeadline(time.Now().Add(link.WriteLimit))
	if _, err := x.w.Write(append(event, "\n\n"...)); err == nil {
		_ = rc.Flush()
	}
	_ = rc.SetWriteDeadline(time.Time{})
}
