package dispatch

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

// Grants make quotas outlast the process. Nodes of a cluster share the quotas of principals, in a
// document for each principal and scope:
//
//	call ─▶ share ─ a lease lets it through ─▶ pass
//	          └─ no lease: compare-and-set of q.PRINCIPAL.SCOPE ─▶ a lease, while the leases of all nodes fit the limit
//
// A lease lets through a part of the limit within a few seconds. What is left of it at its end is given
// back. Until then all of it counts, at its end: so no minute has more calls than the limit, over all nodes,
// and a caller may be refused early. It holds as far as the clocks of the nodes agree. It is safe for
// concurrent use.
type Grants struct {
	docs  store.Docs
	nodes func() int
	away  *outage

	mu     sync.Mutex // guards below
	open   map[*principalShare]struct{}
	busy   bool // a goroutine gives back
	closed bool
	end    chan struct{}
	run    sync.WaitGroup

	ctx    context.Context // of returned calls; ends with the context of Close
	cancel context.CancelFunc
}

// outage is when a store that has not answered is asked again.
type outage struct{ until atomic.Int64 }

func (o *outage) begin()    { o.until.Store(time.Now().Add(leaseWait).UnixNano()) }
func (o *outage) now() bool { return time.Now().UnixNano() < o.until.Load() }

// NewGrants returns the grants of a store. nodes returns the number of the nodes that share it; with nil,
// only this process uses it. The caller closes them.
func NewGrants(docs store.Docs, nodes func() int) *Grants {
	g := &Grants{docs: docs, nodes: nodes, away: new(outage), open: map[*principalShare]struct{}{}, end: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	return g
}

// Session returns what makes the counts of a session outlast the process. One node at a time has the
// session.
func (g *Grants) Session(id string) *Leases { return g.leases("session\x00" + id) }

// Principal sets up the ledger of a principal.
func (g *Grants) Principal(l *Ledger, name string) {
	holder := "principal\x00" + name
	if g.nodes == nil {
		l.Leases = g.leases(holder)
		return
	}
	l.share = &principalShare{grants: g, key: store.QuotaKeys + store.Hash(holder) + ".", turn: make(chan struct{}, 1), granted: map[string]*granted{}}
}

func (g *Grants) leases(holder string) *Leases {
	k := newLeases(g.docs, holder)
	k.away = g.away
	return k
}

// Close gives back what is left of all leases, if the store takes it until ctx ends, and waits for that. What is not
// given back counts until its lease ends.
func (g *Grants) Close(ctx context.Context) {
	if g == nil {
		return
	}
	defer g.cancel()
	defer context.AfterFunc(ctx, g.cancel)()
	g.mu.Lock()
	if !g.closed {
		g.closed = true
		close(g.end)
	}
	left := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	g.run.Wait()
	for _, s := range left {
		s.giveBack(true)
	}
}

// Yield gives back what is left of all leases now. Calls that still come take new ones.
func (g *Grants) Yield() {
	if g == nil {
		return
	}
	g.mu.Lock()
	left := slices.Collect(maps.Keys(g.open))
	g.mu.Unlock()
	for _, s := range left {
		s.giveBack(true)
	}
}

// expect gives back what will be left of the leases of a principal at their end.
func (g *Grants) expect(s *principalShare) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open[s] = struct{}{}
	if !g.busy && !g.closed {
		g.busy = true
		g.run.Go(g.work)
	}
}

// sweepTime is how often ended leases are looked for.
const sweepTime = time.Second

// work gives back until no principal has a lease.
func (g *Grants) work() {
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-g.end:
			return
		}
		g.mu.Lock()
		all := make([]*principalShare, 0, len(g.open))
		for s := range g.open {
			all = append(all, s)
		}
		if len(all) == 0 {
			g.busy = false
			g.mu.Unlock()
			return
		}
		g.mu.Unlock()
		for _, s := range all {
			s.giveBack(false)
		}
	}
}

// principalShare is this node's part of the quotas of one principal.
type principalShare struct {
	grants *Grants
	key    string // what the keys of its documents begin with

	turn    chan struct{} // capacity 1: full while a goroutine uses the next, also while it asks the store
	granted map[string]*granted
}

func (s *principalShare) lock()   { s.turn <- struct{}{} }
func (s *principalShare) unlock() { <-s.turn }

// granted is the lease of a scope at this node.
type granted struct {
	id    string
	calls int // let through
	left  int // calls that it still lets through
	until time.Time
	last  time.Time // when the last call was let through
	total bool      // its calls count in grantRecord.Total
}

func (g *granted) lets(now time.Time) bool { return g != nil && g.left > 0 && now.Before(g.until) }

// grantRecord is the document of a principal and a scope.
type grantRecord struct {
	V      int     `json:"v"`
	Scope  string  `json:"scope"`
	Total  int     `json:"total,omitempty"` // calls in all, where they are limited; calls of leases count
	Grants []grant `json:"grants,omitempty"`
}

// grant is a lease, or the calls of one that has ended.
type grant struct {
	ID    string `json:"id,omitempty"`
	Until int64  `json:"until"` // Unix time in ms: no call came later
	Calls int    `json:"calls"`
}

const (
	// grantShare is the part of a limit that the leases of all nodes may be: a quarter.
	grantShare = 4
	// grantSingle: with a limit below so many calls for each node, a lease is one call.
	grantSingle = 8
	// grantMost is the most calls of a lease.
	grantMost = 1 << 20
	// grantMerge bounds the calls that a document tells apart; beyond it, calls of one second are
	// one entry.
	grantMerge = 64
	// grantTTL is the life of a document without a limit in all.
	grantTTL = 2 * time.Minute
)

// leaseSize returns the calls of a lease.
func leaseSize(limit, nodes int) int {
	if limit < grantSingle*nodes {
		return 1
	}
	return (limit + grantShare*nodes - 1) / (grantShare * nodes)
}

// take lets a call through, or returns the quota that is exhausted. With record false it only looks.
func (s *principalShare) take(record bool, scopes []scope) *breach {
	scopes = slices.DeleteFunc(slices.Clone(scopes), func(one scope) bool { return one.limit == RateLimit{} })
	s.lock()
	defer s.unlock()
	for range 3 { // a lease can end while the next one is written
		for _, one := range scopes {
			if s.granted[one.name].lets(time.Now()) {
				continue
			}
			if b := s.renew(record, one); b != nil {
				return b
			}
		}
		now := time.Now()
		if !record {
			return nil
		}
		if slices.ContainsFunc(scopes, func(one scope) bool { return !s.granted[one.name].lets(now) }) {
			continue
		}
		for _, one := range scopes {
			g := s.granted[one.name]
			g.left, g.calls, g.last = g.left-1, g.calls+1, now
		}
		return nil
	}
	return awayBreach(scopes[0])
}

func awayBreach(of scope) *breach { return &breach{scope: of.name, retryAfter: leaseWait, away: true} }

// renew replaces the lease of a scope. With record false it only looks whether there would be one. The
// caller holds the lock.
func (s *principalShare) renew(record bool, of scope) *breach {
	g := s.grants
	if g.away.now() {
		return awayBreach(of)
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaseWrite)
	defer cancel()
	key := s.key + store.Hash(of.name)
	var refused *breach
	if !record {
		doc, err := g.docs.Get(ctx, key)
		if err != nil {
			g.away.begin()
			return awayBreach(of)
		}
		r := readGrants(doc, of.name)
		r.settle(s.granted[of.name], time.Now())
		_, refused = r.free(of, 1, time.Now())
		return refused
	}
	old, next := s.granted[of.name], &granted{id: rand.Text()[:12], total: of.limit.PerSession > 0}
	_, err := store.Change(ctx, g.docs, key, func(doc store.Doc) ([]byte, time.Duration, error) {
		r, now := readGrants(doc, of.name), time.Now()
		refused = nil
		if i := slices.IndexFunc(r.Grants, func(one grant) bool { return one.ID == next.id }); i >= 0 {
			// An earlier attempt was made: the document says what other nodes know of the lease.
			next.left, next.until = r.Grants[i].Calls, now.Add(time.UnixMilli(r.Grants[i].Until).Sub(now))
			return nil, 0, store.ErrKeep
		}
		settled := r.settle(old, now)
		if next.left, refused = r.free(of, g.nodes(), now); refused != nil && !settled {
			return nil, 0, store.ErrKeep
		}
		if refused == nil {
			next.until = now.Add(leaseTime)
			r.Grants = append(r.Grants, grant{next.id, next.until.UnixMilli(), next.left})
			if next.total {
				r.Total += next.left
			}
		}
		return r.write()
	})
	delete(s.granted, of.name) // it has been given back, or counts as used
	if err != nil {
		g.away.begin()
		return awayBreach(of)
	}
	if refused == nil {
		s.granted[of.name] = next
		g.expect(s)
	}
	return refused
}

// readGrants reads a document. What a later version has written is not known: it counts as empty.
func readGrants(doc store.Doc, scope string) *grantRecord {
	var r grantRecord
	if doc.Rev != 0 && (json.Unmarshal(doc.Value, &r) != nil || r.V != 1) {
		r = grantRecord{}
	}
	r.V, r.Scope = 1, scope
	return &r
}

// settle gives back what is left of a lease, which may be nil, and reports whether it found the lease. It
// removes what has left the window.
func (r *grantRecord) settle(old *granted, now time.Time) (found bool) {
	for i := range r.Grants {
		one := &r.Grants[i]
		if old == nil || one.ID != old.id {
			continue
		}
		found = true
		if old.total {
			r.Total = max(0, r.Total-(one.Calls-old.calls))
		}
		*one = grant{"", old.last.UnixMilli() + 1, old.calls}
	}
	window := now.Add(-quotaWindow).UnixMilli()
	r.Grants = slices.DeleteFunc(r.Grants, func(one grant) bool { return one.Calls == 0 || one.Until < window })
	if len(r.Grants) > grantMerge {
		r.merge(now)
	}
	return found
}

// merge joins the calls of leases that have ended within the same second.
func (r *grantRecord) merge(now time.Time) {
	slots := map[int64]int{}
	kept := r.Grants[:0]
	for _, one := range r.Grants {
		if one.Until > now.UnixMilli() {
			kept = append(kept, one)
			continue
		}
		slots[(one.Until+999)/1000*1000] += one.Calls
	}
	for until, calls := range slots {
		kept = append(kept, grant{"", until, calls})
	}
	r.Grants = kept
}

// free returns the calls of a lease that fits the limit, or the breach.
func (r *grantRecord) free(of scope, nodes int, now time.Time) (int, *breach) {
	nodes = max(1, nodes)
	n := grantMost
	if most := of.limit.PerSession; most > 0 {
		if n = min(n, leaseSize(most, nodes), most-r.Total); n <= 0 {
			return 0, &breach{scope: of.name + "/session", limit: most, retryAfter: -1}
		}
	}
	if most := of.limit.PerMinute; most > 0 {
		used := 0
		for _, one := range r.Grants {
			used += one.Calls
		}
		if n = min(n, leaseSize(most, nodes), most-used); n <= 0 {
			return 0, &breach{scope: of.name + "/minute", limit: most, retryAfter: r.wait(used-most+1, now)}
		}
	}
	return n, nil
}

// wait returns when so many calls have left the window.
func (r *grantRecord) wait(calls int, now time.Time) time.Duration {
	sorted := slices.SortedFunc(slices.Values(r.Grants), func(a, b grant) int { return cmp.Compare(a.Until, b.Until) })
	for _, one := range sorted {
		if calls -= one.Calls; calls <= 0 {
			return max(time.Millisecond, time.UnixMilli(one.Until+1).Add(quotaWindow).Sub(now))
		}
	}
	return quotaWindow
}

// write returns the document and its life.
func (r *grantRecord) write() ([]byte, time.Duration, error) {
	if len(r.Grants) == 0 && r.Total == 0 {
		return nil, 0, nil
	}
	ttl := grantTTL
	if r.Total > 0 {
		ttl = totalTTL
	}
	value, err := json.Marshal(r)
	return value, ttl, err
}

// giveBack gives back what is left of leases that have ended, or of all. A store that does not take that
// counts them for a minute.
func (s *principalShare) giveBack(all bool) {
	g := s.grants
	s.lock()
	defer s.unlock()
	now := time.Now()
	for name, old := range s.granted {
		if !all && old.left > 0 && now.Before(old.until) {
			continue
		}
		delete(s.granted, name)
		if old.left == 0 || g.away.now() || g.ctx.Err() != nil {
			continue
		}
		ctx, cancel := context.WithTimeout(g.ctx, leaseWrite)
		_, err := store.Change(ctx, g.docs, s.key+store.Hash(name), func(doc store.Doc) ([]byte, time.Duration, error) {
			r := readGrants(doc, name)
			if doc.Rev == 0 || !r.settle(old, time.Now()) {
				return nil, 0, store.ErrKeep
			}
			return r.write()
		})
		cancel()
		if err != nil && !errors.Is(err, store.ErrFull) {
			g.away.begin()
		}
	}
	if len(s.granted) == 0 {
		g.mu.Lock()
		delete(g.open, s)
		g.mu.Unlock()
	}
}
