package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// owner is the value of a document that says which node owns something.
type owner struct {
	V   int    `json:"v"`
	Inc string `json:"inc"`
	// State is what a node that drains has left of a session for the next one.
	State string `json:"state,omitempty"`
}

// Claim is a thing that this node owns, until Release or until the node is fenced.
type Claim struct {
	n    *Node
	key  string
	inc  string
	rev  uint64
	lost chan struct{}
	once sync.Once
}

// heldError says that another node owns what was to be claimed.
type heldError struct {
	Key, Inc string
}

// Error implements error.
func (e *heldError) Error() string { return fmt.Sprintf("the node %s holds %s", e.Inc, e.Key) }

// Holder returns the INC of the node that holds what a Claim was for, from the error of the Claim.
func Holder(err error) (inc string, ok bool) {
	var held *heldError
	if !errors.As(err, &held) {
		return "", false
	}
	return held.Inc, true
}

// claimTries bounds how often a claim is repeated because of other writes.
const claimTries = 20

// Claim makes this node the owner of a document. It fails with a *heldError while another node holds it. A
// strict claim waits, besides that the holder is gone, until 20 s after the holder's last renewal: then the
// holder has fenced itself, so there are never two.
func (n *Node) Claim(ctx context.Context, key string, strict bool) (*Claim, error) {
	l := n.current()
	if Apart(n) { // the others would find that the holder is gone, and the holder would not fence itself
		return nil, fmt.Errorf("%s cannot be claimed before this node is in the cluster: %w", key, store.ErrUnavailable)
	}
	rev, by, err := n.take(ctx, l, claimOptions{key: key, strict: strict})
	switch {
	case err != nil:
		return nil, err
	case by != l.inc:
		return nil, &heldError{key, by}
	}
	c := &Claim{n: n, key: key, inc: l.inc, rev: rev, lost: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.life != l || l.over {
		return nil, fmt.Errorf("%s was claimed by an incarnation that is over: %w", key, store.ErrUnavailable)
	}
	n.claims[c] = struct{}{}
	return c, nil
}

// Take makes this node the owner of a document whose owner is gone or drains, or that is not there, and returns the
// owner's INC: this node's, or the INC of a node that is there. The document ends after ttl. In a partition two
// nodes may count as the owner for some seconds.
func (n *Node) Take(ctx context.Context, key string, ttl time.Duration) (inc string, err error) {
	_, inc, err = n.take(ctx, n.current(), claimOptions{key: key, ttl: ttl, drained: true})
	return inc, err
}

// takeSeen is Take for a caller that has just read the document. It returns the document in whose place the one of
// this node is as well.
func takeSeen(ctx context.Context, n *Node, doc store.Doc, key string, ttl time.Duration) (inc string, was store.Doc, err error) {
	_, inc, err = n.take(ctx, n.current(), claimOptions{key: key, ttl: ttl, drained: true, seen: &doc, was: &was})
	return inc, was, err
}

// claimOptions are the arguments of take.
type claimOptions struct {
	key     string
	ttl     time.Duration
	strict  bool       // waits until the holder has fenced itself
	drained bool       // a node that drains has given it up
	seen    *store.Doc // what the caller has read just now; nil if it has not
	was     *store.Doc // gets the document as it was before; may be nil
}

// take makes an incarnation the owner of a document.
func (n *Node) take(ctx context.Context, l *life, t claimOptions) (rev uint64, by string, err error) {
	mine, err := json.Marshal(owner{V: 1, Inc: l.inc})
	if err != nil {
		return 0, "", err
	}
	for try := range claimTries {
		if try > 0 {
			if err := pause(ctx, time.Duration(rand.Int64N(int64(min(try, 8)*int(10*time.Millisecond))))); err != nil {
				return 0, "", err
			}
		}
		var doc store.Doc
		if try == 0 && t.seen != nil {
			doc = *t.seen
		} else {
			var failed error
			if doc, failed = n.docs.Get(ctx, t.key); failed != nil {
				err = failed
				if !errors.Is(err, store.ErrUnavailable) {
					return 0, "", err
				}
				continue
			}
		}
		if t.was != nil {
			*t.was = doc
		}
		var held owner
		if doc.Rev != 0 && json.Unmarshal(doc.Value, &held) == nil && held.Inc != "" {
			if held.Inc == l.inc {
				return doc.Rev, l.inc, nil
			}
			if !t.drained || !over(n, held.Inc) {
				p, there, failed := n.lookUp(ctx, held.Inc)
				if failed != nil {
					err = failed
					continue
				}
				if there && !(t.drained && p.State == stateDraining) {
					return doc.Rev, held.Inc, nil
				}
			}
			if t.strict {
				if err := outwait(ctx, n, held.Inc); err != nil {
					return 0, "", err
				}
			}
		}
		if rev, err = n.docs.Set(ctx, t.key, mine, doc.Rev, t.ttl); err == nil {
			return rev, l.inc, nil
		}
		if !errors.Is(err, store.ErrConflict) && !errors.Is(err, store.ErrUnavailable) {
			return 0, "", err
		}
	}
	return 0, "", fmt.Errorf("claim %s: %w", t.key, err)
}

// outwait waits until a node that is gone has fenced itself: 20 s after its last renewal that was seen, or
// from now on if none was seen.
func outwait(ctx context.Context, n *Node, inc string) error {
	n.mu.Lock()
	seen, ok := n.gone[inc]
	if !ok {
		seen = time.Now()
		rememberEnd(n.gone, inc, seen) // for a second try
	}
	n.mu.Unlock()
	return pause(ctx, nodeTTL-time.Since(seen))
}

func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Lost returns a channel that is closed when this node owns the thing no longer.
func (c *Claim) Lost() <-chan struct{} { return c.lost }

// Held reports whether this node owns the thing. A nil Claim is of another node, or of none.
func (c *Claim) Held() bool {
	if c == nil {
		return false
	}
	select {
	case <-c.lost:
		return false
	default:
		return true
	}
}

func (c *Claim) lose() { c.once.Do(func() { close(c.lost) }) }

// Release gives the thing up. Another node can claim it at once.
func (c *Claim) Release(ctx context.Context) error {
	c.n.mu.Lock()
	delete(c.n.claims, c)
	c.n.mu.Unlock()
	c.lose()
	return c.release(ctx)
}

func (c *Claim) release(ctx context.Context) error {
	err := c.n.docs.Delete(ctx, c.key, c.rev)
	if errors.Is(err, store.ErrConflict) {
		return nil // another owner has it, or an earlier Delete was made
	}
	return err
}

// HeldBy returns the INC of the node that owns a document, "" if none does. It changes nothing.
func HeldBy(ctx context.Context, n *Node, key string) (inc string, err error) {
	doc, err := n.docs.Get(ctx, key)
	if err != nil || doc.Rev == 0 {
		return "", err
	}
	var held owner
	if err := json.Unmarshal(doc.Value, &held); err != nil {
		return "", fmt.Errorf("the document %s cannot be read: %w", key, err)
	}
	return held.Inc, nil
}

// OwnerIn returns the INC in the value of a document that says which node owns something, "" if the value is
// another one.
func OwnerIn(value []byte) (inc string) {
	var held owner
	if json.Unmarshal(value, &held) != nil {
		return ""
	}
	return held.Inc
}
