package cluster

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
)

// What a node tells of its state, and sees of others, while the store does not say it.
const (
	stateApart   = "apart"   // its store does not answer it
	stateUnknown = "unknown" // it does not answer, or is of an older build
)

// pathPing is where a node shows that it answers other nodes.
const pathPing = "/peer/v1/ping"

// headerState has the state of a node in its answer to a ping over the peer link.
const headerState = "Weir-State"

const (
	freshTime = 2 * renewEvery // within which a store that works has acknowledged a renewal
	lookEvery = time.Second    // how often a node that is apart asks the others for their state
)

// Silence returns for how long the store has not answered a node, 0 while it acknowledges renewals as they are due.
func Silence(n *Node) time.Duration {
	if n.Inc() == "" {
		return 0
	}
	return n.contact.silence()
}

// standing is the state that a node tells the others over the peer link.
func standing(n *Node) string {
	switch {
	case n.Draining():
		return stateDraining
	case Apart(n) || Silence(n) > 0:
		return stateApart
	}
	return stateUp
}

// Worse reports whether a node is apart while another one is not, so that requests are served better there. A node that
// cannot know this is not worse: where the store of all nodes is away, all of them go on with what needs nothing of it.
func Worse(n *Node) bool {
	if !Apart(n) {
		return false
	}
	return n.contact.othersHave()
}

// contact is how a node stands with the store, and what the other nodes told of their state while it is apart. It is
// safe for concurrent use.
type contact struct {
	mu      sync.Mutex        // guards below
	joined  bool              // an incarnation of the process has been acknowledged
	refused error             // why the node does not join; nil if it may
	heard   time.Time         // when the last acknowledged renewal was sent; the start before the first one
	state   map[string]string // of the other nodes, by INC; nil while this node is not apart
}

// join notes that the store has acknowledged the node.
func (c *contact) join() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.joined = true
}

// refuse notes why the node does not join, nil if it may, and returns the reason before.
func (c *contact) refuse(why error) (before error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before, c.refused = c.refused, why
	return before
}

// joining is Joined.
func (c *contact) joining() (joined bool, refused error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.joined, c.refused
}

// answered notes that the store has acknowledged a renewal.
func (c *contact) answered(sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard = sent
}

// silence returns for how long the store has not answered, 0 while it acknowledges renewals as they are due.
func (c *contact) silence() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if d := time.Since(c.heard); d > freshTime {
		return d
	}
	return 0
}

// told returns the state of another node, "" if it was not asked.
func (c *contact) told(inc string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state[inc]
}

// othersHave reports whether another node has the store that this one has not: it said so, or the store has refused
// this one.
func (c *contact) othersHave() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused != nil {
		return true // by a store that answers
	}
	for _, state := range c.state {
		if state == stateUp {
			return true
		}
	}
	return false
}

// tell replaces what the other nodes told.
func (c *contact) tell(state map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state = state
}

// look asks the other nodes for their state while a node is apart.
//
//	apart ─▶ GET pathPing at each node that it knows of, over the peer link ─▶ Weir-State: up | draining | apart
func look(n *Node) {
	for {
		l := n.current()
		var wait <-chan time.Time // for as long as the incarnation lasts
		var seen map[string]string
		if l.apart() {
			wait, seen = time.After(lookEvery), states(n.ctx, n.link, n.Peers(), l.inc)
		}
		n.contact.tell(seen)
		select {
		case <-wait:
		case <-l.fenced:
		case <-n.ctx.Done():
			return
		}
	}
}

// states returns what the nodes other than own tell of themselves, by INC.
func states(ctx context.Context, l *link.Link, peers []Peer, own string) map[string]string {
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	var mu sync.Mutex // guards all
	all := map[string]string{}
	var asked sync.WaitGroup
	for _, p := range peers {
		if p.Inc == own {
			continue
		}
		asked.Go(func() {
			state := stateOf(ctx, l, p.Inc)
			mu.Lock()
			defer mu.Unlock()
			all[p.Inc] = state
		})
	}
	asked.Wait()
	return all
}

// stateOf asks a node for its state.
func stateOf(ctx context.Context, l *link.Link, inc string) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, pathPing, nil)
	if err != nil {
		return stateUnknown
	}
	resp, err := l.RoundTrip(inc, r)
	if err != nil {
		return stateUnknown
	}
	_ = resp.Body.Close()
	switch state := resp.Header.Get(headerState); state {
	case stateUp, stateDraining, stateApart:
		return state
	}
	return stateUnknown
}

// seldom lets a message of a kind into the log once a minute. One goroutine owns it.
type seldom struct{ last time.Time }

func (s *seldom) due() bool {
	if !s.last.IsZero() && time.Since(s.last) < time.Minute {
		return false
	}
	s.last = time.Now()
	return true
}

// awayTime bounds one request to the store while a node is apart: clients hear in time that it does not answer.
const awayTime = 500 * time.Millisecond

// Docs returns the documents of a node for requests. While the node is apart, each reading and writing of one fails after
// awayTime, and not after the time that its caller has.
func Docs(n *Node) store.Docs { return n.docs }

// hasty is Docs.
type hasty struct {
	store.Docs
	n *Node
}

func (h hasty) bound(ctx context.Context) (context.Context, context.CancelFunc) {
	if Apart(h.n) {
		return context.WithTimeout(ctx, awayTime)
	}
	return ctx, func() {}
}

// Get implements store.Docs.
func (h hasty) Get(ctx context.Context, key string) (store.Doc, error) {
	ctx, cancel := h.bound(ctx)
	defer cancel()
	return h.Docs.Get(ctx, key)
}

// Set implements store.Docs.
func (h hasty) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	ctx, cancel := h.bound(ctx)
	defer cancel()
	return h.Docs.Set(ctx, key, value, rev, ttl)
}

// Delete implements store.Docs.
func (h hasty) Delete(ctx context.Context, key string, rev uint64) error {
	ctx, cancel := h.bound(ctx)
	defer cancel()
	return h.Docs.Delete(ctx, key, rev)
}

// patience returns how long a request waits for a store that may elect its leader. A store that has been silent for the
// time of an election is away.
func patience(apart bool, silence time.Duration) time.Duration {
	if apart {
		return 0
	}
	return max(0, electionTime-silence)
}

// attempt returns a context for one question that a request has for the store.
func attempt(ctx context.Context, n *Node) (context.Context, context.CancelFunc) {
	if Apart(n) {
		return context.WithTimeout(ctx, awayTime)
	}
	return context.WithTimeout(ctx, attemptTime)
}
