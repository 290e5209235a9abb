package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
)

// maxGone bounds the nodes of which the end is remembered.
const maxGone = 256

// directory is what a node knows of the nodes of its cluster, itself included: from their documents, and from what
// they say before their documents do. With it, the node decides who owns a thing. It is safe for concurrent use, and
// does not hold its lock while it asks the store.
type directory struct {
	docs  store.Docs
	ended func(inc string) // is called when a node is found to be gone, without the lock

	mu    sync.Mutex // guards below
	peers map[string]*peerState
	gone  map[string]time.Time // last renewal seen of nodes that are gone; bounded by maxGone
}

// peerState is a node as it was last seen.
type peerState struct {
	Peer
	rev  uint64
	seen time.Time     // when its last renewal was seen
	skew time.Duration // how far its clock is ahead; 0 before its second renewal
}

// follow takes a change of a node's document.
func (d *directory) follow(doc store.Doc) {
	if inc := strings.TrimPrefix(doc.Key, store.NodeKeys); d.apply(inc, doc) {
		d.ended(inc)
	}
}

// apply is follow without the call of ended, which is due if it returns true.
func (d *directory) apply(inc string, changed store.Doc) (ended bool) {
	var doc nodeDoc
	there := changed.Rev != 0 && json.Unmarshal(changed.Value, &doc) == nil && doc.Inc == inc
	d.mu.Lock()
	defer d.mu.Unlock()
	p := d.peers[inc]
	if _, over := d.gone[inc]; over {
		return false // an incarnation does not come back: this is an older state
	}
	switch {
	case !there && p != nil:
		delete(d.peers, inc)
		d.note(inc, p.seen)
		return true
	case there && p == nil:
		d.peers[inc] = &peerState{Peer: doc.Peer, rev: changed.Rev, seen: time.Now()}
	case there && changed.Rev > p.rev: // the same document again is no renewal
		if p.State == stateDraining { // for good: the document may be of before
			doc.State = stateDraining
		}
		p.Peer, p.rev, p.seen = doc.Peer, changed.Rev, time.Now()
		p.skew = time.UnixMilli(doc.Clock).Sub(p.seen).Truncate(time.Millisecond)
	}
	return false
}

// end notes that a node is gone, whatever its document says.
func (d *directory) end(inc string) {
	d.mu.Lock()
	p := d.peers[inc]
	seen := time.Now()
	if p != nil {
		seen = p.seen
		delete(d.peers, inc)
	}
	d.note(inc, seen)
	d.mu.Unlock()
	if p != nil {
		d.ended(inc)
	}
}

// note remembers when the last renewal of a node that is gone was seen. The oldest ones are forgotten. The caller holds
// mu.
func (d *directory) note(inc string, seen time.Time) {
	if _, known := d.gone[inc]; !known && len(d.gone) >= maxGone {
		oldest := ""
		for inc, at := range d.gone {
			if oldest == "" || at.Before(d.gone[oldest]) {
				oldest = inc
			}
		}
		delete(d.gone, oldest)
	}
	d.gone[inc] = seen
}

// all returns the nodes of the cluster, sorted by name.
func (d *directory) all() []Peer {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]Peer, 0, len(d.peers))
	for _, p := range d.peers {
		all = append(all, p.Peer)
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Inc, b.Inc)) })
	return all
}

// statuses returns the nodes of the cluster with the differences of their clocks.
func (d *directory) statuses() []NodeStatus {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := make([]NodeStatus, 0, len(d.peers)+1)
	for _, p := range d.peers {
		all = append(all, NodeStatus{Peer: p.Peer, Skew: p.skew})
	}
	return all
}

// of returns a node that is not gone.
func (d *directory) of(inc string) (Peer, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.peers[inc]; p != nil {
		return p.Peer, true
	}
	return Peer{}, false
}

// links and link are all and of for the link.
func (d *directory) links() []link.Peer {
	peers := d.all()
	all := make([]link.Peer, len(peers))
	for i, p := range peers {
		all[i] = link.Peer{Inc: p.Inc, Name: p.Name, URL: p.URL}
	}
	return all
}

func (d *directory) link(inc string) (link.Peer, bool) {
	p, ok := d.of(inc)
	return link.Peer{Inc: p.Inc, Name: p.Name, URL: p.URL}, ok
}

// drains notes that a node drains, before its document says so.
func (d *directory) drains(inc string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if p := d.peers[inc]; p != nil {
		p.State = stateDraining
	}
}

// over reports whether a node is known to be gone or to drain. Both are for good, so the store need not be asked:
// the document of a node that has just started to drain may still say that it is up.
func (d *directory) over(inc string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, gone := d.gone[inc]; gone {
		return true
	}
	p := d.peers[inc]
	return p != nil && p.State == stateDraining
}

// lookUp asks the store for a node. there is false if it is gone.
func (d *directory) lookUp(ctx context.Context, inc string) (p Peer, there bool, err error) {
	if !validInc(inc) {
		return Peer{}, false, nil
	}
	doc, err := d.docs.Get(ctx, store.NodeKeys+inc)
	if err != nil || doc.Rev == 0 {
		return Peer{}, false, err
	}
	d.follow(doc)
	var node nodeDoc
	if json.Unmarshal(doc.Value, &node) != nil {
		return Peer{Inc: inc, State: stateUp}, true, nil // of a later version
	}
	return node.Peer, true, nil
}

// claimOptions are the arguments of own.
type claimOptions struct {
	key     string
	ttl     time.Duration
	strict  bool       // waits until the holder has fenced itself
	drained bool       // a node that drains has given it up
	seen    *store.Doc // what the caller has read just now; nil if it has not
}

// own makes an incarnation the owner of a document whose owner is gone. It returns the owner: that incarnation, or a
// node that is there. was is the document as it was before.
func (d *directory) own(ctx context.Context, inc string, t claimOptions) (rev uint64, by string, was store.Doc, err error) {
	mine, err := json.Marshal(owner{V: 1, Inc: inc})
	if err != nil {
		return 0, "", was, err
	}
	for try := range claimTries {
		if try > 0 {
			if err := pause(ctx, time.Duration(rand.Int64N(int64(min(try, 8)*int(10*time.Millisecond))))); err != nil {
				return 0, "", was, err
			}
		}
		var doc store.Doc
		if try == 0 && t.seen != nil {
			doc = *t.seen
		} else {
			var failed error
			if doc, failed = d.docs.Get(ctx, t.key); failed != nil {
				err = failed
				if !errors.Is(err, store.ErrUnavailable) {
					return 0, "", was, err
				}
				continue
			}
		}
		was = doc
		var held owner
		if doc.Rev != 0 && json.Unmarshal(doc.Value, &held) == nil && held.Inc != "" {
			if held.Inc == inc {
				return doc.Rev, inc, was, nil
			}
			if !t.drained || !d.over(held.Inc) {
				p, there, failed := d.lookUp(ctx, held.Inc)
				if failed != nil {
					err = failed
					continue
				}
				if there && !(t.drained && p.State == stateDraining) {
					return doc.Rev, held.Inc, was, nil
				}
			}
			if t.strict {
				if err := d.outwait(ctx, held.Inc); err != nil {
					return 0, "", was, err
				}
			}
		}
		if rev, err = d.docs.Set(ctx, t.key, mine, doc.Rev, t.ttl); err == nil {
			return rev, inc, was, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnavailable) {
			return 0, "", was, err
		}
	}
	return 0, "", was, fmt.Errorf("claim %s: %w", t.key, err)
}

// outwait waits until a node that is gone has fenced itself: 20 s after its last renewal that was seen, or
// from now on if none was seen.
func (d *directory) outwait(ctx context.Context, inc string) error {
	d.mu.Lock()
	seen, ok := d.gone[inc]
	if !ok {
		seen = time.Now()
		d.note(inc, seen) // for a second try
	}
	d.mu.Unlock()
	return pause(ctx, nodeTTL-time.Since(seen))
}
