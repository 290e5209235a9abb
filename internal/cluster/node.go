package cluster

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/lease"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
)

// Times of the documents of nodes; the times of n.INC are the lease's.
const (
	renewEvery = lease.RenewEvery
	nodeTTL    = lease.TTL
	retryEvery = lease.RetryEvery
	heirTTL    = 24 * time.Hour
	writeTime  = 5 * time.Second // of one write, at most
)

// incLength is the number of characters of an INC.
const incLength = 6

// States of a node.
const (
	stateUp       = "up"
	stateDraining = "draining"
)

// Peer is a node of the cluster, as its document says.
type Peer struct {
	Inc     string `json:"inc"`
	Name    string `json:"name"`
	URL     string `json:"url,omitempty"` // of its peer link; "" if it has none
	Version string `json:"version,omitempty"`
	Proto   [2]int `json:"proto"` // the versions that it understands; see written
	State   string `json:"state"`
	Config  string `json:"config,omitempty"` // Self.Config
	Load    Load   `json:"load"`
	Started int64  `json:"started"` // seconds
	Clock   int64  `json:"clock"`   // when the node wrote this, in milliseconds
}

// nodeDoc is the value of n.INC.
type nodeDoc struct {
	V int `json:"v"`
	Peer
}

// Options configures a Node.
type Options struct {
	Docs store.Docs
	Bus  store.Bus
	// Name is the node's name for people, such as its host. URL is where other nodes reach its peer
	// link.
	Name, URL string
	// Listener is where other nodes reach this one. Close closes it. Nil: what serves the peer link has it.
	Listener net.Listener
	// TLS is for connections to the peer links of other nodes. Nil does not encrypt, for tests.
	TLS *tls.Config
	// Dial connects to other nodes. Nil dials TCP.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Late makes Start return a Node although the store has not answered when its context ends. The Node then serves under
	// its INC and owns nothing by a document. It joins when the store answers; see Joined.
	Late bool
	// Fenced is called when the node has lost its INC, before it takes another one. What it owned may have
	// another owner from then on. It must not block.
	Fenced func(inc string)
	// Logger gets what happens to nodes; nil discards it.
	Logger *slog.Logger

	proto [2]int // for tests: the versions of another build
}

// Node is this process in its cluster. It is safe for concurrent use.
//
// No method holds the lock while it asks the store or another node.
type Node struct {
	o       Options
	docs    store.Docs // Options.Docs for all but the lease
	log     *slog.Logger
	link    *link.Link
	count   counters
	nodes   directory
	health  detector
	contact contact

	ctx    context.Context // ends with Close
	end    context.CancelFunc
	work   sync.WaitGroup // all goroutines but the goroutine of the lease
	unwind []func()       // of Follow and Listen
	lease  *lease.Holder  // of n.INC

	self   atomic.Pointer[func() Self]
	ending ending

	mu       sync.Mutex // guards below
	life     *life
	own      Peer // as its document says, whether or not the store has it
	state    string
	sessions map[string]*sessions // by path of an endpoint
}

// life is one incarnation, with what it owns. It is safe for concurrent use.
type life struct {
	inc    string
	ready  chan struct{} // closed when n.INC is first acknowledged
	fenced chan struct{} // closed when the incarnation is over
	stop   func()        // of its subscriptions

	mu     sync.Mutex // guards below
	over   bool       // it owns nothing any more
	claims map[*Claim]struct{}
}

// apart reports whether the store has not acknowledged the incarnation yet, or it is over.
func (l *life) apart() bool {
	l.mu.Lock()
	over := l.over
	l.mu.Unlock()
	select {
	case <-l.ready:
		return over
	default:
		return true
	}
}

// add makes the incarnation own a thing. It returns false if it is over.
func (l *life) add(c *Claim) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	if l.claims == nil {
		l.claims = map[*Claim]struct{}{}
	}
	l.claims[c] = struct{}{}
	return true
}

func (l *life) remove(c *Claim) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.claims, c)
}

// end makes the incarnation own nothing any more, and returns what it has lost.
func (l *life) end() (lost map[*Claim]struct{}) {
	l.mu.Lock()
	lost, l.over, l.claims = l.claims, true, nil
	l.mu.Unlock()
	for c := range lost {
		c.lose()
	}
	return lost
}

// newInc returns a random INC of lower case letters and digits.
func newInc() string { return strings.ToLower(rand.Text()[:incLength]) }

// validInc reports whether a text has the form of an INC.
func validInc(inc string) bool {
	return len(inc) == incLength && !strings.ContainsFunc(inc, func(r rune) bool { return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9') })
}

// Start joins the cluster. It returns when the node is known to the store, or with an error when ctx ends
// before.
func Start(ctx context.Context, o Options) (*Node, error) {
	n := newNode(o)
	o = n.o
	var err error
	if n.life, err = n.born(); err != nil {
		n.end()
		return nil, err
	}
	first := n.life
	n.own = Peer{Inc: first.inc, Name: o.Name, URL: o.URL, Proto: o.proto, Started: time.Now().Unix()}
	stop, known, err := store.FollowLater(o.Docs, store.NodeKeys, n.nodes.follow)
	if err != nil {
		n.end()
		first.stop()
		return nil, err
	}
	n.unwind = append(n.unwind, stop)
	n.join(known)
	n.work.Go(func() { look(n) })
	select {
	case <-first.ready:
		return n, nil
	case <-ctx.Done():
	}
	_, refused := Joined(n)
	if o.Late && refused == nil {
		return n, nil
	}
	n.Close(context.WithoutCancel(ctx))
	if refused != nil {
		return nil, refused
	}
	return nil, fmt.Errorf("%w: %w", store.ErrUnavailable, ctx.Err())
}

// join holds a lease for the node once known is closed and no node that is present is foreign.
func (n *Node) join(known <-chan struct{}) {
	var t loggedState
	n.lease = lease.Hold(lease.Options{
		Docs: n.o.Docs, Prefix: store.NodeKeys, Value: n.document, Held: n.held, Lost: n.fence, Logger: n.log.With("node", n.o.Name),
		Name: func(context.Context) string {
			if !enter(n, known) {
				return ""
			}
			return n.Inc()
		},
		Tried: func(sent time.Time, err error) {
			if err == nil {
				n.count.renewals.Add(1)
				n.count.renewing.Add(int64(time.Since(sent)))
				n.contact.answered(sent)
			}
			t.compare(n.log, written(n.o.proto, n.Peers()), Status(n))
		},
	})
}

// newNode returns a Node without an incarnation.
func newNode(o Options) *Node {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.proto == [2]int{} {
		o.proto = builds
	}
	if o.Dial == nil {
		o.Dial = link.Dialer().DialContext
	}
	n := &Node{o: o, log: o.Logger, state: stateUp, contact: contact{heard: time.Now()}}
	n.ctx, n.end = context.WithCancel(context.Background())
	n.docs = hasty{o.Docs, n}
	n.nodes = directory{docs: n.docs, ended: n.health.end, peers: map[string]*peerState{}, gone: map[string]time.Time{}}
	n.link = link.New(link.Options{
		Inc: n.Inc, Peers: n.nodes.links, Peer: n.nodes.link, Lives: n.Ping, Answer: n.answer, Ping: pathPing, TLS: o.TLS, Dial: o.Dial, Logger: n.log,
	})
	n.health = detector{
		ctx: n.ctx, work: &n.work, bus: o.Bus, docs: n.docs, nodes: &n.nodes, link: n.link, dial: o.Dial, log: n.log, own: n.Inc,
		patience: func() time.Duration { return patience(Apart(n), Silence(n)) }, suspects: map[string]*suspicion{}, watches: map[string]*watch{},
	}
	n.ending = newEnding(n.ctx)
	return n
}

// born makes an incarnation that listens to the other nodes.
func (n *Node) born() (*life, error) {
	l := &life{inc: newInc(), ready: make(chan struct{}), fenced: make(chan struct{})}
	var err error
	if l.stop, err = n.listen(l.inc); err != nil {
		return nil, err
	}
	return l, nil
}

// Inc returns the current INC. It changes when the node is fenced.
func (n *Node) Inc() string { return n.current().inc }

// Name returns the node's name.
func (n *Node) Name() string { return n.o.Name }

// Fenced returns a channel that is closed when the current incarnation is over.
func (n *Node) Fenced() <-chan struct{} { return n.current().fenced }

func (n *Node) current() *life {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.life
}

// Ready reports whether the node may get new work: the store knows it, and it does not drain.
func (n *Node) Ready() bool {
	return !Apart(n) && !n.Draining()
}

// Apart reports whether the store has not acknowledged the current INC of a node yet. No other node knows what is named
// by it then.
func Apart(n *Node) bool { return n.current().apart() }

// Joined reports whether the store has ever acknowledged the node. If it has not because the build of the node is
// foreign to another one, err says so.
func Joined(n *Node) (joined bool, err error) { return n.contact.joining() }

// Draining reports whether Drain was called.
func (n *Node) Draining() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.state == stateDraining
}

// held says that the store has acknowledged the current incarnation.
func (n *Node) held() {
	l := n.current()
	n.contact.join()
	close(l.ready)
	n.log.Info("this node is in the cluster", "node", n.o.Name, "inc", l.inc)
}

// document returns the value of n.INC.
func (n *Node) document(inc string) []byte {
	var self Self
	if f := n.self.Load(); f != nil {
		self = (*f)()
	}
	n.mu.Lock()
	n.own = Peer{
		Inc: inc, Name: n.o.Name, URL: n.o.URL, Version: self.Version, Proto: n.o.proto, State: n.state, Config: self.Config, Load: self.Load,
		Started: n.own.Started, Clock: time.Now().UnixMilli(),
	}
	own := n.own
	n.mu.Unlock()
	value, err := json.Marshal(nodeDoc{1, own})
	if err != nil {
		panic(err) // cannot happen: texts and numbers
	}
	return value
}

// fence ends the current incarnation, whose lease is lost, and starts another one.
func (n *Node) fence(string) {
	old := n.current()
	n.count.fenced.Add(1)
	old.end() // before what may wait for the bus: another node has its claims soon
	old.stop()
	var next *life
	var s seldom
	for next == nil {
		var err error
		if next, err = n.born(); err != nil {
			if s.due() {
				n.log.Warn("the messages of the cluster cannot be received", "err", err)
			}
			if pause(n.ctx, retryEvery) != nil {
				return
			}
		}
	}
	// The document of the older incarnation may be there for seconds. Without this, this node would send requests for its
	// own sessions to that incarnation, and other nodes with it.
	n.nodes.end(old.inc)
	n.mu.Lock()
	n.life = next
	endings := slices.Collect(maps.Values(n.sessions))
	n.mu.Unlock()
	close(old.fenced)
	for _, s := range endings {
		s.forgetAll()
	}
	if n.o.Fenced != nil {
		n.o.Fenced(old.inc)
	}
	n.work.Go(func() { bequeath(n, old.inc, next) })
}

// bequeath writes who goes on for an older incarnation of this process.
func bequeath(n *Node, old string, next *life) {
	select {
	case <-next.ready:
	case <-next.fenced:
		return
	case <-n.ctx.Done():
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, writeTime)
	defer cancel()
	value, _ := json.Marshal(owner{V: 1, Inc: next.inc}) // a text and a number
	if _, err := n.o.Docs.Set(ctx, store.SuccessorKeys+old, value, 0, heirTTL); err != nil {
		n.log.Warn("the cluster was not told what became of an older incarnation", "inc", old, "err", err)
	}
}

// Heir returns the incarnation that goes on for an older one of the same process, "" if there is none.
func (n *Node) Heir(ctx context.Context, inc string) string {
	for range 8 { // of heirs of heirs
		doc, err := n.docs.Get(ctx, store.SuccessorKeys+inc)
		var o owner
		if err != nil || doc.Rev == 0 || json.Unmarshal(doc.Value, &o) != nil {
			return ""
		}
		if inc = o.Inc; !n.Gone(inc) {
			return inc
		}
	}
	return ""
}

// Peers returns the nodes of the cluster, this one included, sorted by name.
func (n *Node) Peers() []Peer { return n.nodes.all() }

// Gone reports whether this node knows of no node with an INC. A node that has just joined may count as
// gone for a moment: a decision asks the store.
func (n *Node) Gone(inc string) bool {
	_, there := n.nodes.of(inc)
	return !there && inc != n.Inc()
}

// Ping reports whether a node answers within a moment.
func (n *Node) Ping(ctx context.Context, inc string) error { return n.health.ping(ctx, inc) }

// Suspect finds out whether a node that did not answer is dead, and reports it. The document of a dead node
// is deleted, so that all nodes know at once. Callers that suspect the same node share one check.
func (n *Node) Suspect(ctx context.Context, inc string) (dead bool) {
	return n.health.suspect(ctx, inc)
}

// Watch returns a channel that is closed when a node with requests in flight leaves three pings
// unanswered, on the bus or on the peer link, or is gone: within 5 seconds. A node that neither listens on the bus nor
// takes connections is found within 1.5 seconds. Call stop when the request is over.
func (n *Node) Watch(inc string) (gone <-chan struct{}, stop func()) {
	silent := make(chan struct{})
	return silent, n.health.watch(inc, func() { close(silent) })
}

// Close leaves the cluster: claims are free and the node is gone when it returns, if the store answers
// until ctx ends. It waits for all goroutines.
func (n *Node) Close(ctx context.Context) {
	n.end()
	n.lease.Stop()
	n.work.Wait()
	n.link.End()
	for _, stop := range n.unwind {
		stop()
	}
	l := n.current()
	l.stop()
	for c := range l.end() {
		_ = c.release(ctx) // it ends with the node
	}
	n.lease.Close(ctx)
	if n.o.Listener != nil {
		_ = n.o.Listener.Close() // what serves it may have closed it
	}
	n.link.Close()
}
