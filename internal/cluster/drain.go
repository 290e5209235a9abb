package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	mathrand "math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// spreadTime is the time over which a draining node ends the streams of its clients, which all connect again.
const spreadTime = 2 * time.Second

// signal is given once, and at the end of the node at the latest: its context ends then.
type signal struct {
	context.Context
	give context.CancelFunc
}

func newSignal(ctx context.Context) signal {
	ctx, give := context.WithCancel(ctx)
	return signal{ctx, give}
}

// ending is the way of a node to its end.
type ending struct {
	drained signal // given by the first Drain
	retired signal // given by Retire
}

func newEnding(ctx context.Context) ending { return ending{newSignal(ctx), newSignal(ctx)} }

// Drain tells the other nodes that this one takes no new work. What it owns stays until Close.
//
//	Drain ─▶ streams of clients end, and connect again elsewhere
//	      ─▶ requests without a session, and of sessions ─▶ another node, if there is one
//	      ─▶ calls that run here go on
func (n *Node) Drain() {
	n.mu.Lock()
	n.state = stateDraining
	n.mu.Unlock()
	n.ending.drained.give()
	n.lease.Renew()
}

// OnDrain calls f in a goroutine of its own when a node starts to drain, or drains already, as soon as another node
// takes work. stop ends that.
func OnDrain(n *Node, f func()) (stop func() bool) {
	ctx, cancel := context.WithCancel(n.ctx)
	var stopped atomic.Bool
	unsubscribe := context.AfterFunc(n.ending.drained, func() {
		defer cancel()
		for !taken(n.Peers(), n.Inc()) {
			if pause(ctx, drainLook) != nil {
				return
			}
		}
		if !stopped.Load() { // it may have been while this looked
			f()
		}
	})
	return func() bool {
		stopped.Store(true)
		cancel()
		return unsubscribe()
	}
}

// drainLook is how often a draining node without another one looks for one that has come.
const drainLook = time.Second

// taken reports whether another node than own takes work.
func taken(peers []Peer, own string) bool {
	return slices.ContainsFunc(peers, func(p Peer) bool { return p.Inc != own && p.State == stateUp })
}

// Drained returns a channel that is closed when a node starts to drain, or ends.
func Drained(n *Node) <-chan struct{} { return n.ending.drained.Done() }

// Retire is Drain for a node that ends. When it returns, the other nodes send it no requests, except for
// those that do not answer until ctx ends. It reports whether there is a node that takes work.
func Retire(ctx context.Context, n *Node) (others bool) {
	if n.Inc() == "" {
		return false
	}
	n.Drain()
	n.ending.retired.give()
	body, _ := json.Marshal(question{Retires: n.Inc()}) // a text
	var asked sync.WaitGroup
	for _, p := range n.Peers() {
		if p.Inc == n.Inc() {
			continue
		}
		others = others || p.State == stateUp
		asked.Go(func() { _, _ = n.health.ask(ctx, subjectCtl(p.Inc), body, pingTime) }) // else it reads the document
	}
	asked.Wait()
	return others
}

// DrainNode makes the node with an INC take no new work, as Drain does there. It returns when the node has
// agreed.
func DrainNode(ctx context.Context, n *Node, inc string) error {
	if inc == n.Inc() {
		n.Drain()
		return nil
	}
	body, _ := json.Marshal(question{Drain: true}) // a bool
	_, err := n.health.ask(ctx, subjectCtl(inc), body, wordTime)
	return err
}

// streaming returns a request whose context ends soon after the node starts to drain, if it asks for a stream
// that clients open again. A stream that starts later is at another node, and ends when this one retires.
func (e *ending) streaming(r *http.Request) (out *http.Request, end func()) {
	if r.Method != http.MethodGet {
		return r, func() {}
	}
	over := e.drained
	if over.Err() != nil {
		over = e.retired
	}
	ctx, cancel := context.WithCancel(r.Context())
	stop := context.AfterFunc(over, func() {
		select {
		case <-time.After(time.Duration(mathrand.Int64N(int64(spreadTime)))):
			cancel()
		case <-ctx.Done():
		}
	})
	return r.WithContext(ctx), func() { stop(); cancel() }
}

// successors returns the nodes other than own that take work, in an order that depends on the text id: many ids are
// spread evenly, and all nodes find the same order for one (rendezvous hashing).
func successors(peers []Peer, own, id string) []string {
	type place struct {
		inc  string
		rank uint64
	}
	var all []place
	for _, p := range peers {
		if p.Inc != own && p.State == stateUp && p.URL != "" {
			sum := sha256.Sum256([]byte(p.Inc + "\x00" + id))
			all = append(all, place{p.Inc, binary.BigEndian.Uint64(sum[:])})
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.rank, b.rank) })
	incs := make([]string, len(all))
	for i, p := range all {
		incs[i] = p.inc
	}
	return incs
}

// away serves a request that belongs to no session, or to one of this draining node, at another node.
func (x *exchange) away() {
	if !x.readBody() {
		return
	}
	for _, inc := range successors(x.s.n.Peers(), x.s.n.Inc(), rand.Text()) {
		if _, result := x.forward(inc); result == sent {
			return
		}
	}
	x.local()
}
