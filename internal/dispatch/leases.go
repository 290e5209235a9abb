package dispatch

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Leases make the counts of one Ledger outlast the process, in one document. A lease is written
// before its first call: it lets through a few calls of a scope within a few seconds. Within the
// process, the Ledger counts exactly. Of calls before a restart the document has the leases, and all
// of a lease counts as used, at its end. So a restart lets through no more than a quota, and at most
// one lease of each scope less.
//
// The caller of each method holds the Ledger's lock.
type Leases struct {
	docs store.Docs
	key  string
	by   string // tells documents that these Leases wrote from equal ones of others

	away   *outage
	loaded bool
	rev    uint64
	scopes map[string]*scopeLeases
}

// scopeLeases are the leases of one scope.
type scopeLeases struct {
	leases []lease // of calls that may be within the window
	left   int     // calls that the lease in use still lets through
	timed  bool    // the lease in use is part of the last one of leases
	total  bool    // the calls are limited in all
}

// lease is as many calls as were let through between two times.
type lease struct {
	from, until time.Time
	calls       int
}

const (
	leaseCalls = 16              // most calls of a lease
	leaseShare = 16              // the part of a quota that a lease may be
	leaseTime  = 5 * time.Second // how long a lease lets calls through
	leaseWait  = 2 * time.Second // when a caller may ask again while the store does not answer
	leaseWrite = 2 * time.Second // bounds one request to the store; two are made within leaseTime
	leaseJoin  = 3 * time.Second // leases that begin within it are one, which bounds the document
	// totalTTL is how long calls count that are limited in all: as long as a session can go on.
	totalTTL  = 30 * 24 * time.Hour
	windowTTL = quotaWindow + leaseTime
)

// newLeases returns the leases of a holder, whose name may be secret.
func newLeases(docs store.Docs, holder string) *Leases {
	return &Leases{docs: docs, key: store.QuotaKeys + store.Hash(holder), by: rand.Text(), away: new(outage)}
}

// leaseRecord is the document.
type leaseRecord struct {
	V      int                    `json:"v"`
	By     string                 `json:"by"`
	Scopes map[string]scopeRecord `json:"scopes"`
}

type scopeRecord struct {
	Total  int        `json:"total,omitempty"`
	Leases [][2]int64 `json:"leases,omitempty"` // Unix time in ms, calls
}

const leaseVersion = 1

// load returns the buckets that the document describes, unless it has been loaded. Calls of a later
// version are not known: the holder starts again, and replaces the document.
func (k *Leases) load(now time.Duration, buckets map[string]*bucket) (map[string]*bucket, error) {
	if k.loaded {
		return buckets, nil
	}
	if k.away.now() {
		return buckets, store.ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseWrite)
	defer cancel()
	doc, err := k.docs.Get(ctx, k.key)
	if err != nil {
		k.away.begin()
		return buckets, err
	}
	var r leaseRecord
	if doc.Rev != 0 && (json.Unmarshal(doc.Value, &r) != nil || r.V != leaseVersion) {
		r = leaseRecord{}
	}
	k.rev, k.loaded, k.scopes = doc.Rev, true, map[string]*scopeLeases{}
	buckets = map[string]*bucket{}
	for name, kept := range r.Scopes {
		b, s := &bucket{total: kept.Total}, new(scopeLeases)
		for _, l := range kept.Leases {
			until := time.UnixMilli(l[0])
			at := now - max(0, time.Since(until)) // no call was let through after the process ended
			for range l[1] {
				b.recent = append(b.recent, at)
			}
			s.leases = append(s.leases, lease{until, until, int(l[1])})
		}
		b.n = len(b.recent)
		buckets[name], k.scopes[name] = b, s
	}
	return buckets, nil
}

// cover uses a call of a lease of each scope, and writes new leases if one is wanting. After an error
// it has used none. After store.ErrConflict, what the document says must be loaded.
func (k *Leases) cover(scopes []scope, buckets map[string]*bucket) error {
	now, write := time.Now(), false
	for _, s := range scopes {
		have := k.scopes[s.name]
		if have == nil {
			have = new(scopeLeases)
			k.scopes[s.name] = have
		}
		write = write || !have.lets(now, s.limit)
	}
	if write {
		for _, s := range scopes {
			k.scopes[s.name].renew(now, s.limit, buckets[s.name])
		}
		if err := k.write(now, buckets); err != nil {
			k.loaded = false // the document tells what is leased
			if !errors.Is(err, store.ErrConflict) {
				k.away.begin()
			}
			return err
		}
	}
	for _, s := range scopes {
		k.scopes[s.name].left--
	}
	return nil
}

// lets reports whether the lease in use lets a call through.
func (s *scopeLeases) lets(now time.Time, limit RateLimit) bool {
	return s.left > 0 && (limit.PerMinute == 0 || s.timed && now.Before(s.leases[len(s.leases)-1].until))
}

// giveBack ends the lease in use: calls that it has not let through count no more.
func (s *scopeLeases) giveBack(now time.Time) {
	if s.timed {
		last := &s.leases[len(s.leases)-1]
		last.calls -= s.left
		if now.Before(last.until) {
			last.until = now
		}
	}
	s.left, s.timed = 0, false
}

// renew replaces the lease in use, within the limit.
func (s *scopeLeases) renew(now time.Time, limit RateLimit, b *bucket) {
	s.giveBack(now)
	if b == nil {
		b = new(bucket)
	}
	s.left, s.total = leaseCalls, limit.PerSession > 0
	if limit.PerSession > 0 {
		s.left = min(s.left, max(1, limit.PerSession/leaseShare), limit.PerSession-b.total)
	}
	if limit.PerMinute == 0 {
		return
	}
	s.left, s.timed = min(s.left, max(1, limit.PerMinute/leaseShare), limit.PerMinute-b.n), true
	next := lease{now, now.Add(leaseTime), s.left}
	if n := len(s.leases); n > 0 && now.Sub(s.leases[n-1].from) < leaseJoin {
		next.from, next.calls = s.leases[n-1].from, next.calls+s.leases[n-1].calls
		s.leases = s.leases[:n-1]
	}
	s.leases = append(s.leases, next)
}

// write writes the document, of calls that may still count.
func (k *Leases) write(now time.Time, buckets map[string]*bucket) error {
	r, ttl := leaseRecord{leaseVersion, k.by, map[string]scopeRecord{}}, windowTTL
	for name, s := range k.scopes {
		var kept scopeRecord
		if b := buckets[name]; b != nil {
			kept.Total = b.total
		}
		if s.total {
			kept.Total += s.left
		}
		for len(s.leases) > 0 && now.Sub(s.leases[0].until) >= quotaWindow {
			s.leases = s.leases[1:]
		}
		for _, l := range s.leases {
			if l.calls > 0 {
				kept.Leases = append(kept.Leases, [2]int64{l.until.UnixMilli(), int64(l.calls)})
			}
		}
		if kept.Total > 0 {
			ttl = totalTTL
		}
		r.Scopes[name] = kept
	}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseWrite)
	defer cancel()
	rev, err := k.docs.Set(ctx, k.key, value, k.rev, ttl)
	if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrConflict) {
		// The write may have been made.
		doc, failed := k.docs.Get(ctx, k.key)
		if failed == nil && doc.Rev != 0 && bytes.Equal(doc.Value, value) {
			rev, err = doc.Rev, nil
		}
	}
	if err == nil {
		k.rev = rev
	}
	return err
}

// end gives back what is left of the leases, so that it does not count after a restart. If the store
// does not take that, it counts.
func (k *Leases) end(buckets map[string]*bucket) {
	left := 0
	for _, s := range k.scopes {
		left += s.left
	}
	if !k.loaded || left == 0 || k.away.now() {
		return
	}
	now := time.Now()
	for _, s := range k.scopes {
		s.giveBack(now)
	}
	if err := k.write(now, buckets); err != nil && !errors.Is(err, store.ErrConflict) {
		k.away.begin() // other holders that end now do not wait as well
	}
	k.loaded = false
}
