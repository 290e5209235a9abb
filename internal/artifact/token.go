package artifact

import (
	"container/heap"
	"container/list"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// token leads one fetch to an item. The store knows the hash of its value only, so that a lookup
// takes as long for a wrong value as for a right one.
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

// tokenChars is the length of its random part.
const tokenChars = (tokenBytes*8 + 5) / 6

// newToken returns 256 random bits as a token of letters, digits, "-" and "_". It does not start
// with "-", which a command line would take for a flag.
func newToken() string {
	var secret [tokenBytes]byte
	for {
		rand.Read(secret[:]) // never fails: crypto/rand ends the program instead
		if value := base64.RawURLEncoding.EncodeToString(secret[:]); value[0] != '-' {
			return value
		}
	}
}

func (o *Options) tokenTTL(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return o.TokenTTL
	}
	return ttl
}

// Offer implements Tokens.
func (s *Local) Offer(ctx context.Context, principal, handle string, ttl time.Duration) (Token, error) {
	if err := ctx.Err(); err != nil {
		return Token{}, err
	}
	now, err := s.ledger.lock()
	defer s.ledger.unlock()
	if err != nil {
		return Token{}, err
	}
	it, err := s.ledger.lookup(owner{principal: principal}, handle)
	if err == nil {
		err = s.ledger.tokenRoom(it.space)
	}
	if err != nil {
		return Token{}, err
	}
	return s.ledger.issue(it, ttl, now), nil
}

// Check implements Tokens.
func (s *Local) Check(value string) error {
	hash := sha256.Sum256([]byte(value))
	_, err := s.ledger.lock()
	defer s.ledger.unlock()
	if err == nil {
		_, err = s.ledger.claimable(hash)
	}
	return err
}

// TokenOwner returns the principal that a token was made for, "" for a token that is unknown, spent
// or expired.
func (s *Local) TokenOwner(value string) string {
	hash := sha256.Sum256([]byte(value))
	_, err := s.ledger.lock()
	defer s.ledger.unlock()
	if t := s.ledger.tokens[hash]; err == nil && t != nil {
		return t.item.space.principal
	}
	return ""
}

// issue makes a token for an item, which stays at least as long as the token. The caller holds mu.
func (l *ledger) issue(it *item, ttl time.Duration, now time.Time) Token {
	value := l.opts.Nodes.mark() + newToken()
	t := &token{hash: sha256.Sum256([]byte(value)), item: it, expires: now.Add(l.opts.tokenTTL(ttl))}
	sp := it.space
	if it.tokens == nil {
		it.tokens = map[*token]bool{}
	}
	it.tokens[t] = true
	l.tokens[t.hash] = t
	t.order = sp.tokens.PushBack(t)
	l.push(t)
	if it.Expires.Before(t.expires) {
		it.Expires = t.expires
		heap.Fix(&l.byAge, it.at)
	}
	return Token{Value: value, Expires: t.expires}
}

// revoke removes a token, and the artifact that was deposited for it. The caller holds mu.
func (l *ledger) revoke(t *token, now time.Time) {
	if l.tokens[t.hash] != t {
		return
	}
	delete(l.tokens, t.hash)
	delete(t.item.tokens, t)
	t.item.space.tokens.Remove(t.order)
	heap.Remove(&l.byAge, t.at)
	if t.item.single {
		l.remove(t.item, ErrExpired, now)
	}
	l.release(t.item.space)
}

// claimable returns the token with a hash, unless it is claimed. The caller holds mu.
func (l *ledger) claimable(hash [sha256.Size]byte) (*token, error) {
	t := l.tokens[hash]
	if t == nil || t.claimed {
		return nil, ErrToken
	}
	return t, nil
}
