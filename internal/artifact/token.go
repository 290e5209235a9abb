package artifact

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"time"

	"github.com/weir-mcp/weir/s2sp/table"
)

// token is the way of one fetch to an item. The store knows its hash only, so
// that looking one up takes as long for a wrong one as for a right one.
type token struct {
	hash    [sha256.Size]byte
	item    *item
	expires time.Time
	claimed bool
	order   *list.Element // in its space
	at      int           // in byAge
}

func (t *token) expiry() time.Time { return t.expires }
func (t *token) place() *int       { return &t.at }

// tokenBytes is the randomness of a token: 256 bits (spec/tables §4).
const tokenBytes = 32

// Deposit implements Tokens.
func (s *Local) Deposit(ctx context.Context, principal, label string, t *table.Table, ttl time.Duration) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	c, err := s.store(principal, label, t, ctx.Err)
	if err != nil {
		return Token{}, err
	}
	return s.deposit(principal, label, c, ttl)
}

// deposit takes the caller's reference to c over.
func (s *Local) deposit(principal, label string, c *content, ttl time.Duration) (Token, error) {
	var name [16]byte
	rand.Read(name[:])
	s.mu.Lock()
	defer s.unlock()
	if s.closed {
		s.dead = append(s.dead, c)
		return Token{}, ErrClosed
	}
	now := s.opts.Now()
	s.expire(now)
	sp := s.space(principal)
	// Its age is its token's: where a token has a time of its own, so has this.
	it := &item{content: c, single: true,
		Artifact: Artifact{Handle: "single_" + hex.EncodeToString(name[:]), Label: bounded(label), SizeBytes: c.size, Created: now, Expires: now.Add(s.tokenTTL(ttl))}}
	err := s.tokenRoom(sp)
	if err == nil {
		err = s.settle(sp, it, now)
	}
	if err != nil {
		s.dead = append(s.dead, c)
		s.release(sp)
		return Token{}, err
	}
	s.add(sp, it)
	return s.issue(it, ttl, now), nil
}

func (s *Local) tokenTTL(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return s.opts.TokenTTL
	}
	return ttl
}

// Offer implements Tokens.
func (s *Local) Offer(ctx context.Context, principal, handle string, ttl time.Duration) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	s.mu.Lock()
	defer s.unlock()
	it, err := s.lookup(principal, handle)
	if err == nil {
		err = s.tokenRoom(it.space)
	}
	if err != nil {
		return Token{}, err
	}
	return s.issue(it, ttl, s.opts.Now()), nil
}

// NewToken returns 256 random bits as a token of letters, digits, "-" and "_". It
// does not begin with "-", which a command line would take for a flag.
func NewToken() string {
	var secret [tokenBytes]byte
	for {
		rand.Read(secret[:]) // never fails: crypto/rand ends the program instead
		if value := base64.RawURLEncoding.EncodeToString(secret[:]); value[0] != '-' {
			return value
		}
	}
}

// issue makes a token for an item, which stays as long as it. Callers hold mu.
func (s *Local) issue(it *item, ttl time.Duration, now time.Time) Token {
	value := NewToken()
	t := &token{hash: sha256.Sum256([]byte(value)), item: it, expires: now.Add(s.tokenTTL(ttl))}
	sp := it.space
	if it.tokens == nil {
		it.tokens = map[*token]bool{}
	}
	it.tokens[t] = true
	s.tokens[t.hash] = t
	t.order = sp.tokens.PushBack(t)
	s.push(t)
	if it.Expires.Before(t.expires) {
		it.Expires = t.expires
		heap.Fix(&s.byAge, it.at)
	}
	return Token{Value: value, Expires: t.expires}
}

// revoke takes a token out, and what was deposited for it. Callers hold mu.
func (s *Local) revoke(t *token, now time.Time) {
	if s.tokens[t.hash] != t {
		return
	}
	delete(s.tokens, t.hash)
	delete(t.item.tokens, t)
	t.item.space.tokens.Remove(t.order)
	heap.Remove(&s.byAge, t.at)
	if t.item.single {
		s.remove(t.item, ErrExpired, now)
	}
	s.release(t.item.space)
}

// Claim is a token that one holder has to itself. It is for one goroutine.
type Claim struct {
	*Lease
	store   *Local
	token   *token
	limited *table.Selection
}

// Limited returns what the claim's rows are of the table, where that is not all:
// the reader of a source went away, and what it had asked for is all that is left.
func (c *Claim) Limited() (sel table.Selection, limited bool) {
	if c.limited == nil {
		return sel, false
	}
	return *c.limited, true
}

// Claim implements Tokens.
func (s *Local) Claim(ctx context.Context, value string) (*Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	claim, err := s.claim(sha256.Sum256([]byte(value)))
	if err != nil {
		return nil, err
	}
	if claim.Lease, err = newLease(claim.Artifact, claim.c); err != nil {
		s.unclaim(claim.token)
		return nil, err
	}
	return claim, nil
}

// Check implements Tokens.
func (s *Local) Check(value string) error {
	hash := sha256.Sum256([]byte(value))
	s.mu.Lock()
	defer s.unlock()
	_, err := s.findLocked(hash)
	return err
}

// findLocked returns the token with a hash that nobody has claimed.
func (s *Local) findLocked(hash [sha256.Size]byte) (*token, error) {
	if s.closed {
		return nil, ErrClosed
	}
	s.expire(s.opts.Now())
	t := s.tokens[hash]
	if t == nil || t.claimed {
		return nil, ErrToken
	}
	return t, nil
}

// claim takes a token; the lease is not attached yet.
func (s *Local) claim(hash [sha256.Size]byte) (*Claim, error) {
	s.mu.Lock()
	defer s.unlock()
	t, err := s.findLocked(hash)
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

func (s *Local) unclaim(t *token) {
	s.mu.Lock()
	t.claimed = false
	s.unlock()
}

// Spend makes the claim final: the token is gone, and with it what was deposited
// for it. The bytes stay readable until Close. It may be called more than once.
func (c *Claim) Spend() {
	c.store.mu.Lock()
	defer c.store.unlock()
	if !c.store.closed {
		c.store.revoke(c.token, c.store.opts.Now())
	}
}

// Close ends the access. A token that was not spent can be claimed again, unless
// it has expired. It may be called more than once.
func (c *Claim) Close() {
	if c.closed {
		return
	}
	c.Lease.Close()
	c.store.unclaim(c.token) // a token that is gone is found by nobody
}
