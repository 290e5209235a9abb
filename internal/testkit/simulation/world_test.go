package simulation_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/cluster"
	"github.com/weir-mcp/weir/internal/dispatch"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/office/roster"
	"github.com/weir-mcp/weir/internal/queue"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/testkit/memnet"
	"github.com/weir-mcp/weir/internal/testkit/storetest"
	"github.com/weir-mcp/weir/smcp/hub"
)

const (
	nodes     = 5
	breakTime = 30 * time.Second // in which things break
	quietTime = 40 * time.Second // after it: nodes that were fenced are back, and members of nodes that are gone are out
	longest   = 22 * time.Second // that one thing is broken: longer than the life of a node that is not heard of
	// lost is how long a system keeps a connection on which nothing is acknowledged.
	lost = 5 * time.Second
	// aftermath is how long after its mending a break may still end memberships.
	aftermath = 30 * time.Second
)

// world is a cluster in one bubble of time, and what its clients saw.
type world struct {
	t     *testing.T
	docs  store.Docs
	bus   tap
	until time.Time // things break
	end   chan struct{}
	began time.Time

	failing  sync.Mutex // guards failures
	failures []string

	mu       sync.Mutex // guards below; acquired before failing
	random   *rand.Rand
	nodes    []*node
	runs     map[string]int // of calls and tasks
	strict   *node          // has the strict claim
	held     int            // strict claims
	accepted []string       // tasks
	answers  map[string]int // by kind
	counted  []time.Time    // calls with a quota
	offices  offices
	ending   sync.WaitGroup // of killed nodes
}

// node is a node of a world, until it is killed.
type node struct {
	*cluster.Node
	w        *world
	name     string
	docs     *storetest.Faults
	bus      *storetest.BusFaults
	busy     atomic.Int64 // messages of the bus that have failed
	listener *memnet.Listener
	link     *link.Server
	sessions http.Handler
	tasks    *queue.Queue
	hub      *hub.Hub
	shared   *roster.Shared
	server   *http.Server
	door     *memnet.Listener // of the hub
	grants   *dispatch.Grants
	ledger   *dispatch.Ledger

	mu     sync.Mutex // guards below
	apart  bool       // from other nodes
	conns  []net.Conn // to the peer link
	here   map[string]bool
	breaks []broken
	dead   chan struct{} // closed by kill
	guests map[*guest]struct{}
}

// broken is a time in which something of a node was broken.
type broken struct {
	from int64     // stamp of the history of offices
	end  time.Time // zero: not yet
}

// wrong notes that a promise was broken.
func (w *world) wrong(format string, args ...any) {
	w.failing.Lock()
	defer w.failing.Unlock()
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func (w *world) n(most int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.random.IntN(most)
}

func (w *world) ran(id string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[id]++
}

func (w *world) saw(kind string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answers[kind]++
}

// fault lets three of a hundred requests to the store and messages fail until all is mended.
func (w *world) fault() storetest.Fault {
	if !time.Now().Before(w.until) || w.n(100) >= 3 {
		return storetest.None
	}
	return storetest.Fault(1 + w.n(4))
}

func (w *world) pause(most time.Duration) { time.Sleep(time.Duration(w.n(int(most)))) }

// pick returns one of the nodes.
func (w *world) pick() *node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.nodes[w.random.IntN(len(w.nodes))]
}

func (w *world) all() []*node {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]*node(nil), w.nodes...)
}

// over reports whether the work ends.
func (w *world) over() bool {
	select {
	case <-w.end:
		return true
	default:
		return false
	}
}

func (n *node) isApart() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.apart
}

func (n *node) isDead() bool {
	select {
	case <-n.dead:
		return true
	default:
		return false
	}
}

// dial connects to the peer link of another node.
func (n *node) dial(ctx context.Context, network, address string) (net.Conn, error) {
	name, _, _ := strings.Cut(address, ":")
	for _, to := range n.w.all() {
		if to.name == name && !to.isApart() && !n.isApart() {
			conn, err := to.listener.DialContext(ctx, network, address)
			if err == nil {
				to.mu.Lock()
				to.conns = append(to.conns, conn)
				to.mu.Unlock()
			}
			return conn, err
		}
	}
	return nil, errors.New("refused")
}

// start brings a node into the world, in the place of one of the same name.
func (w *world) start(i int) {
	n := &node{
		w: w, name: fmt.Sprint("n", i), listener: memnet.New(), door: memnet.New(), here: map[string]bool{}, dead: make(chan struct{}),
		guests: map[*guest]struct{}{},
	}
	n.docs = &storetest.Faults{Docs: w.docs, Next: w.fault, Wait: 200 * time.Millisecond}
	n.bus = &storetest.BusFaults{Bus: w.bus, Wait: 200 * time.Millisecond, Next: func() storetest.Fault {
		f := w.fault()
		if f != storetest.None {
			n.busy.Add(1)
		}
		return f
	}}
	var err error
	options := cluster.Options{Docs: n.docs, Bus: n.bus, Name: n.name, URL: "http://" + n.name + ":1", Dial: n.dial}
	for try := 0; ; try++ { // the store may fail
		if n.Node, err = cluster.Start(w.t.Context(), options); err == nil {
			break
		}
		if try == 100 {
			w.t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	n.serveSessions()
	n.link = n.Serve(n.listener, nil, http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		id, _, _ := link.Caller(r.Context())
		n.sessions.ServeHTTP(rw, r.WithContext(identity.With(r.Context(), id)))
	}))
	n.serveTasks()
	n.shared = roster.NewShared(roster.Options{Docs: n.docs, Bus: n.bus, Node: n.Node, Name: "sim"})
	n.hub = hub.New(hub.Options{Auth: anyone{}, MaxComputers: officeSize, PingInterval: time.Hour, Shared: n.shared})
	n.server = &http.Server{Handler: n.hub, ReadHeaderTimeout: time.Minute}
	go func() { _ = n.server.Serve(n.door) }()
	n.grants, n.ledger = dispatch.NewGrants(n.docs, func() int { return nodes }), &dispatch.Ledger{Started: time.Now()}
	n.grants.Principal(n.ledger, "ann")
	w.mu.Lock()
	defer w.mu.Unlock()
	if i == len(w.nodes) {
		w.nodes = append(w.nodes, n)
	} else {
		w.nodes[i] = n
	}
}

// stop ends a node.
func (n *node) stop(ctx context.Context) {
	_ = n.tasks.Close(ctx)
	_ = n.hub.Shutdown(ctx)
	_ = n.server.Close()
	_ = n.door.Close()
	n.grants.Close(ctx)
	_ = n.listener.Close()
	n.listener.Cut()
	n.link.Shutdown(ctx)
	n.Close(ctx)
}

// separate cuts the connections of a node to others, and lets no new ones be made.
func (n *node) separate() {
	n.listener.Cut()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apart = true
	conns := n.conns
	n.conns = nil
	time.AfterFunc(lost, func() {
		for _, c := range conns {
			_ = c.Close()
		}
	})
}

// broke notes that something of a node breaks now.
func (n *node) broke() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.breaks = append(n.breaks, broken{from: n.w.offices.history.Now()})
}

// mend connects a node again.
func (n *node) mend() {
	n.docs.Cut(false)
	n.bus.Cut(false)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.apart = false
	n.breaks[len(n.breaks)-1].end = time.Now()
}

// kill ends a node as kill -9 does: nothing of it reaches another party any more.
func (n *node) kill() {
	n.broke()
	n.docs.Cut(true)
	n.bus.Cut(true)
	n.separate()
	close(n.dead)
	n.w.mu.Lock()
	if n.w.strict == n {
		n.w.strict = nil
	}
	n.w.mu.Unlock()
	n.mu.Lock()
	guests := n.guests
	n.guests = nil
	n.mu.Unlock()
	for g := range guests {
		go func() { _ = g.client.Close() }()
	}
	n.w.ending.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		n.stop(ctx)
	})
}

// breaksThings separates a node from the store, the bus or the other nodes, or kills it, one at a time, until the
// time is over.
func (w *world) breaksThings() {
	for time.Now().Before(w.until) {
		w.pause(4 * time.Second)
		i, what := w.n(nodes), w.n(9)
		n := w.all()[i]
		if what == 0 || what == 8 {
			n.kill()
			w.pause(3 * time.Second)
			w.start(i)
			continue
		}
		n.broke()
		n.docs.Cut(what&1 != 0)
		n.bus.Cut(what&2 != 0)
		if what&4 != 0 {
			n.separate()
		}
		w.pause(max(time.Second, min(longest, time.Until(w.until))))
		n.mend()
	}
}
