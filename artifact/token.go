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

	"github.com/weir-mcp/weir/table"
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

// tokenBytes is the randomness of a token: 256 bits (s2sp-protocol, Security
// Model).
const tokenBytes = 32

// Deposit implements Tokens.
func (s *Local) Deposit(ctx context.Context, principal, label string, t *table.Table, ttl time.Duration) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	data, index := t.Size()
	if data > s.opts.MaxBytes {
		return Token{}, s.tooLarge(data)
	}
	if s.reserve(data + index) {
		return s.deposit(principal, label, &content{store: s, size: data, index: index, rows: t, holders: 1}, ttl)
	}
	// A table that has a _row_id of its own was read so, and is again.
	w := s.NewTable(principal, label, table.Options{KeepRowID: t.Has(table.RowID)})
	for i, row := range t.Rows() {
		if i%1024 == 0 && ctx.Err() != nil {
			w.Abort()
			return Token{}, ctx.Err()
		}
		if err := w.Append(row); err != nil {
			w.Abort()
			return Token{}, err
		}
	}
	return w.Deposit(ttl)
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
	a := Artifact{Handle: "single_" + hex.EncodeToString(name[:]), Label: bounded(label), SizeBytes: c.size, Created: now, Expires: now.Add(s.tokenTTL(ttl))}
	it := s.add(sp, a, c, now)
	it.single = true
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

// issue makes a token. Callers hold mu.
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
	for sp.tokens.Len() > s.opts.MaxTokens {
		s.revoke(sp.tokens.Front().Value.(*token), now)
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
	store *Local
	token *token

	spent bool // of one that Pass made, as is end
	end   func(spent bool)
}

// Pass is a claim on rows that no store has room for: whoever calls keeps them,
// and end is called once, with Close, and with whether they were spent.
func Pass(label string, t *table.Table, end func(spent bool)) *Claim {
	size, _ := t.Size()
	c := &content{size: size, rows: t, holders: 1}
	return &Claim{Lease: &Lease{Artifact: Artifact{Label: bounded(label), SizeBytes: size}, c: c}, end: end}
}

// Claim implements Tokens.
func (s *Local) Claim(ctx context.Context, value string) (*Claim, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	hash := sha256.Sum256([]byte(value))
	t, a, c, err := s.claim(hash)
	if err != nil {
		return nil, err
	}
	l, err := newLease(a, c)
	if err != nil {
		s.unclaim(t)
		return nil, err
	}
	return &Claim{Lease: l, store: s, token: t}, nil
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

func (s *Local) claim(hash [sha256.Size]byte) (*token, Artifact, *content, error) {
	s.mu.Lock()
	defer s.unlock()
	t, err := s.findLocked(hash)
	if err != nil {
		return nil, Artifact{}, nil, err
	}
	t.claimed = true
	t.item.space.recent.MoveToFront(t.item.recent)
	t.item.content.hold()
	return t, t.item.Artifact, t.item.content, nil
}

func (s *Local) unclaim(t *token) {
	s.mu.Lock()
	t.claimed = false
	s.unlock()
}

// Spend makes the claim final: the token is gone, and with it what was deposited
// for it. The bytes stay readable until Close. It may be called more than once.
func (c *Claim) Spend() {
	if c.store == nil {
		c.spent = true
		return
	}
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
	if c.store == nil {
		c.end(c.spent)
		return
	}
	c.store.unclaim(c.token) // a token that is gone is found by nobody
}
