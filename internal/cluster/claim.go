package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	docs store.Docs
	of   *life
	key  string
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
	rev, by, _, err := n.nodes.own(ctx, l.inc, claimOptions{key: key, strict: strict})
	switch {
	case err != nil:
		return nil, err
	case by != l.inc:
		return nil, &heldError{key, by}
	}
	c := &Claim{docs: n.docs, of: l, key: key, rev: rev, lost: make(chan struct{})}
	if !l.add(c) {
		return nil, fmt.Errorf("%s was claimed by an incarnation that is over: %w", key, store.ErrUnavailable)
	}
	return c, nil
}

// Take makes this node the owner of a document whose owner is gone or drains, or that is not there, and returns the
// owner's INC: this node's, or the INC of a node that is there. The document ends after ttl. In a partition two
// nodes may count as the owner for some seconds.
func (n *Node) Take(ctx context.Context, key string, ttl time.Duration) (inc string, err error) {
	_, inc, _, err = n.nodes.own(ctx, n.Inc(), claimOptions{key: key, ttl: ttl, drained: true})
	return inc, err
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
	c.of.remove(c)
	c.lose()
	return c.release(ctx)
}

func (c *Claim) release(ctx context.Context) error {
	err := c.docs.Delete(ctx, c.key, c.rev)
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
