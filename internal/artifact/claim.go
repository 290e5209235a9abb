package artifact

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/weir-mcp/weir/s2sp/table"
)

// Claim is exclusive access to the artifact of a token. It is for one goroutine.
type Claim struct {
	*Lease
	store   *Local
	token   *token
	limited *table.Selection
}

// Claim implements Tokens.
func (s *Local) Claim(ctx context.Context, value string) (*Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	claim, err := s.claim(sha256.Sum256([]byte(value)))
	if errors.Is(err, ErrToken) {
		claim, err = s.claimElsewhere(value)
	}
	if err != nil {
		return nil, err
	}
	if claim.Lease, err = newLease(claim.Artifact, claim.c); err != nil {
		claim.release()
		if it := claim.token.item; lost(err) && !it.single {
			s.discard(it)
			err = fmt.Errorf("%w: %w", ErrToken, damaged(it.Handle))
		}
		return nil, err
	}
	return claim, nil
}

// claim takes a token. The content of the lease is not attached yet.
func (s *Local) claim(hash [sha256.Size]byte) (*Claim, error) {
	_, err := s.ledger.lock()
	defer s.ledger.unlock()
	if err != nil {
		return nil, err
	}
	t, err := s.ledger.claimable(hash)
	if err != nil {
		return nil, err
	}
	t.claimed = true
	it := t.item
	if it.recent != nil {
		it.space.recent.MoveToFront(it.recent)
	}
	it.content.hold()
	return &Claim{Lease: &Lease{Artifact: it.Artifact, c: it.content}, store: s, token: t, limited: it.limited}, nil
}

// Limited returns the rows that are left, if not all are: a reader of a source asked for a
// selection and went away, and the store has kept only that selection.
func (c *Claim) Limited() (sel table.Selection, limited bool) {
	if c.limited == nil {
		return sel, false
	}
	return *c.limited, true
}

// Spend makes the claim final: it removes the token and the artifact that was deposited for it. The
// bytes stay readable until Close. It may be called more than once.
func (c *Claim) Spend() {
	now, err := c.store.ledger.lock()
	defer c.store.ledger.unlock()
	if err == nil {
		c.store.ledger.revoke(c.token, now)
	}
}

// Close ends the access. A token that was not spent can be claimed again, unless it has expired. It
// may be called more than once.
func (c *Claim) Close() {
	if c.closed {
		return
	}
	c.Lease.Close()
	c.release()
}

// release makes the token claimable again. For a token that is gone this has no effect.
func (c *Claim) release() {
	c.store.ledger.mu.Lock()
	c.token.claimed = false
	c.store.ledger.mu.Unlock()
}
