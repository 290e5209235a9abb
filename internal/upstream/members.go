package upstream

import (
	"container/list"
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/mcp"
)

// Bounds of the listings of one server that lists for each principal, and times of fetching them.
const (
	maxMembers   = 20_000           // principals with a listing, as many as sign-ins
	maxFetches   = 8                // at once
	listAge      = 15 * time.Minute // after which a listing that is asked for is fetched again
	firstRefetch = time.Second      // after a failure
	lastRefetch  = 5 * time.Minute
	watchTime    = 15 * time.Minute // since a principal asked for a listing that it does not have
	maxWatched   = 256              // principals who wait for one without asking
	maxStrangers = maxWatched / 2   // of them, who have no credential
	maxGrants    = 16               // of one principal, with a listing or waiting for one
	fetchTime    = 2 * time.Minute  // for one listing
	warnPause    = time.Minute      // between two warnings
	unusedTime   = 5 * time.Minute  // after which a listing makes room for another one
)

// members are the listings of a server for each principal at it:
//
//	OwnLists ─▶ of ─▶ listing of the principal
//	            └─ none, or too old ─▶ fetch over the principal's connection ─▶ shelf
//	list_changed of the principal's connection ─▶ fetch
//	sign-out ─▶ the tool sign_in in place of the listing
//
// A listing is of one principal, and of one grant where the credential comes from the token of the
// caller. All methods are safe for concurrent use.
type members struct {
	conns *connections
	srv   *server
	most  int // principals with a listing
	shelf shelf
	turns chan struct{} // holds the fetches in progress

	mu       sync.Mutex // guards below; taken before connections.mu
	byKey    map[memberKey]*list.Element
	byUse    list.List              // of *member, the one asked for longest ago in front
	holders  map[string]*holder     // by principal
	watched  map[memberKey]*watched // that wait for a sign-in or for the next attempt
	watching bool                   // watch runs
	ended    bool
	warned   time.Time // of the last warning that lists cannot be read
	stranger *served   // what principals without a credential see; nil before the first one
}

// memberKey says whose a listing is.
type memberKey struct{ principal, grant string }

// member is one principal with a credential. members.mu guards it.
type member struct {
	key     memberKey
	holder  *holder
	who     *identity.Identity // who asked last, without the credential
	asked   time.Time
	listing *shelved // nil: there is none
	refused bool     // the server lists nothing for the credential

	fetching chan struct{}      // closed after the fetch in progress; nil: there is none
	cancel   context.CancelFunc // of the fetch in progress
	delay    *time.Timer        // starts a fetch; nil: none waits for its time
	gone     bool               // signed out or evicted, so that a fetch is of no use
	stale    bool               // the lists have changed since the last fetch began
	fetched  time.Time          // the last listing
	began    time.Time          // the last fetch
	pace     pace               // between list_changed and a fetch
	err      error              // of the last fetch
	failures int                // since the last listing
	failing  time.Time          // since when; zero: the last fetch did not fail
	next     time.Time          // no fetch before it after a failure
}

func newMembers(c *connections) *members {
	return &members{
		conns: c, srv: c.srv, most: maxMembers, turns: make(chan struct{}, maxFetches), byKey: map[memberKey]*list.Element{}, watched: map[memberKey]*watched{}, holders: map[string]*holder{},
		shelf: shelf{
			conceal: c.srv.opts.Conceal, judge: c.srv.opts.Judge, order: func() int { return int(c.lists.order.Load()) },
			room: c.srv.room(), most: maxShelved, listings: map[[32]byte]*shelved{}, definitions: map[[32]byte]*definition{},
		},
	}
}

// keyOf returns whose listing the caller of ctx sees.
func (ms *members) keyOf(ctx context.Context) memberKey {
	id := identity.From(ctx)
	key := memberKey{principal: id.Principal}
	if session := mcp.Caller(ctx); session != nil {
		key.principal = session.Principal()
	}
	if ms.srv.cfg.FromCaller() && id.Principal == key.principal {
		key.grant = strings.Clone(id.Grant())
	}
	return key
}

// signedIn reports whether requests of a principal carry a credential.
func (ms *members) signedIn(ctx context.Context, key memberKey) bool {
	switch c := ms.srv.opts.Credentials; {
	case key.principal == "":
		return false
	case c == nil:
		return !ms.srv.cfg.FromCaller() // the server needs none
	case ms.srv.cfg.FromCaller():
		return c.Shown(ctx, ms.srv.name) == nil
	}
	return ms.srv.signedIn(key.principal)
}

// of returns what the caller of ctx sees of the server. known is false while its listing is not known.
func (ms *members) of(ctx context.Context) (s *served, known bool) {
	key := ms.keyOf(ctx)
	signed := ms.signedIn(ctx, key)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if ms.ended || key.principal == "" {
		return ms.signIn(), !ms.ended
	}
	who := identity.From(ctx).WithoutCredential()
	if who.Principal != key.principal {
		who = &identity.Identity{Principal: key.principal}
	}
	if !signed {
		ms.signedOut(key)
		ms.await(key, who, false)
		return ms.signIn(), true
	}
	m := ms.member(key)
	m.asked, m.who = time.Now(), who
	ms.look(ctx, m)
	switch {
	case m.listing != nil:
		return m.listing.served.Load(), true
	case m.refused:
		return ms.signIn(), true
	}
	return nil, false
}

// peek returns what of returns now, and changes nothing.
func (ms *members) peek(ctx context.Context) (s *served, known bool) {
	key := ms.keyOf(ctx)
	signed := ms.signedIn(ctx, key)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	switch m := ms.find(key); {
	case ms.ended || !signed || m != nil && m.listing == nil && m.refused:
		return ms.signIn(), !ms.ended
	case m != nil && m.listing != nil:
		return m.listing.served.Load(), true
	}
	return nil, false
}

// look starts to fetch the listing of a principal if it is not known or too old. The caller holds
// mu.
func (ms *members) look(ctx context.Context, m *member) {
	old := m.stale || time.Since(m.fetched) >= listAge
	if m.listing == nil || old && m.delay == nil {
		ms.begin(ctx, m, 0)
	}
	if m.listing == nil || m.stale {
		ms.await(m.key, m.who, true)
	}
}

// signedOut drops what a principal has that has signed out. The caller holds mu.
func (ms *members) signedOut(key memberKey) {
	if m := ms.find(key); m != nil {
		ms.forget(m)
		ms.conns.spawn(func() { ms.tell(key) })
	}
}

// find returns the record of a principal, nil if there is none. The caller holds mu.
func (ms *members) find(key memberKey) *member {
	if at := ms.byKey[key]; at != nil {
		return at.Value.(*member)
	}
	return nil
}

// member returns the record of a principal, which makes it the last to be evicted. The caller holds mu.
func (ms *members) member(key memberKey) *member {
	if at := ms.byKey[key]; at != nil {
		ms.byUse.MoveToBack(at)
		return at.Value.(*member)
	}
	h := ms.holders[key.principal]
	if h == nil {
		h = newHolder()
		ms.holders[key.principal] = h
	}
	if len(h.grants) >= maxGrants {
		ms.evict(h.oldest())
	}
	if len(ms.byKey) >= ms.most {
		ms.evict(ms.byUse.Front().Value.(*member))
	}
	m := &member{key: key, holder: h, pace: pace{pause: debounce}}
	ms.holders[key.principal] = h // which an eviction may have removed
	h.grants = append(h.grants, m)
	ms.byKey[key] = ms.byUse.PushBack(m)
	return m
}

// evict forgets a principal, who is told if it had a listing. The caller holds mu.
func (ms *members) evict(m *member) {
	if m.listing != nil {
		ms.conns.spawn(func() { ms.tell(m.key) })
	}
	ms.forget(m)
}

// forget removes a principal, its listing, and a fetch that is in progress. The caller holds mu.
func (ms *members) forget(m *member) {
	if m.gone {
		return
	}
	m.gone = true
	ms.byUse.Remove(ms.byKey[m.key])
	delete(ms.byKey, m.key)
	delete(ms.watched, m.key)
	if m.holder.remove(m); len(m.holder.grants) == 0 {
		delete(ms.holders, m.key.principal)
	}
	if m.cancel != nil {
		m.cancel()
	}
	m.undelay()
	if old := m.listing; old != nil && !ms.conns.spawn(func() { ms.shelf.drop(old) }) {
		ms.shelf.drop(old) // the upstream ends
	}
	m.listing, m.stale = nil, false
}

// signIn returns what principals without a credential see. The caller holds mu.
func (ms *members) signIn() *served {
	if order := int(ms.conns.lists.order.Load()); ms.stranger == nil || ms.stranger.listing.Order != order {
		ms.stranger = newServed(ms.conns.lists.signIn())
	}
	return ms.stranger
}

// begin starts to fetch the listing of a principal after a delay, unless a fetch is in progress or not
// due. A fetch at once replaces one that waits for its time. ctx has the credential of the principal, if weir
// keeps none. The caller holds mu.
func (ms *members) begin(ctx context.Context, m *member, delay time.Duration) {
	if m.fetching != nil || m.gone || time.Now().Before(m.next) || ms.ended {
		return
	}
	if delay > 0 {
		if m.delay != nil {
			return
		}
		var timer *time.Timer
		timer = time.AfterFunc(delay, func() {
			ms.mu.Lock()
			defer ms.mu.Unlock()
			if m.delay == timer {
				ms.begin(ms.conns.ctx, m, 0)
			}
		})
		m.delay = timer
		return
	}
	m.undelay()
	id := m.who
	if shown := identity.From(ctx); shown.Principal == m.key.principal && ms.srv.cfg.FromCaller() && shown.Bearer != "" {
		id = shown
	}
	run, cancel := context.WithCancel(identity.With(ms.conns.ctx, id))
	m.fetching, m.cancel = make(chan struct{}), cancel
	if !ms.conns.spawn(func() { defer cancel(); ms.fetch(run, m) }) {
		cancel()
		m.fetching, m.cancel = nil, nil // the upstream ends
	}
}

// undelay makes a fetch that waits for its time be of no use. members.mu is held.
func (m *member) undelay() {
	if m.delay != nil {
		m.delay.Stop()
		m.delay = nil
	}
}

// fetch fetches the listing of a principal, with the credential in ctx, in turn: one of a principal at
// a time, and maxFetches of all.
func (ms *members) fetch(ctx context.Context, m *member) {
	var fresh *shelved
	err := inTurn(ctx, m.holder.turn, func() error {
		return inTurn(ctx, ms.turns, func() (err error) {
			ctx, cancel := context.WithTimeout(ctx, fetchTime)
			defer cancel()
			ms.mu.Lock()
			m.stale, m.began = false, time.Now()
			ms.mu.Unlock()
			listing, rules, err := ms.read(ctx, m.key)
			if err == nil {
				fresh, err = ms.shelve(m, listing, rules)
			}
			return err
		})
	})
	ms.settle(m, fresh, err)
}

// shelve puts the listing of a principal on the shelf. Where it has no room, the listings that were
// asked for longest ago go, but none of the last minutes.
func (ms *members) shelve(m *member, l primitive.Listing, rules *toolRules) (*shelved, error) {
	for {
		if fresh := ms.shelf.put(l, rules); fresh != nil {
			return fresh, nil
		}
		if !ms.evictUnused(m) {
			return nil, mcp.Errorf(mcp.KindOverloaded, "%s: there is no room for the lists of another principal; raise limits.memory (at most %d bytes serve for the lists of one server), or set mcpServers.%s.lists to shared", ms.srv.who, maxShelved, ms.srv.name)
		}
	}
}

// evictUnused evicts the listing that was asked for longest ago, if that is more than unusedTime ago.
func (ms *members) evictUnused(except *member) bool {
	ms.mu.Lock()
	var gone *member
	var old *shelved
	for at := ms.byUse.Front(); at != nil && gone == nil; at = at.Next() {
		m := at.Value.(*member)
		if time.Since(m.asked) < unusedTime {
			break
		}
		if m != except && m.listing != nil {
			gone, old = m, m.listing
			m.listing = nil
			ms.forget(m)
		}
	}
	ms.mu.Unlock()
	if gone == nil {
		return false
	}
	ms.shelf.drop(old)
	ms.tell(gone.key)
	return true
}

// read reads the lists over the connection of a principal.
func (ms *members) read(ctx context.Context, key memberKey) (primitive.Listing, *toolRules, error) {
	for ended := 0; ; ended++ {
		s, err := ms.conns.forPrincipal(key.principal, key.grant)
		if err != nil {
			return primitive.Listing{}, nil, err
		}
		l, err := s.calls.acquire(ctx)
		if errors.Is(err, errSlotEnded) && ended < 3 {
			ms.conns.drop(s)
			continue
		}
		if err != nil {
			return primitive.Listing{}, nil, ms.srv.public(err)
		}
		defer s.calls.release(l)
		return ms.conns.lists.gather(ctx, l)
	}
}

// settle takes the outcome of a fetch.
func (ms *members) settle(m *member, fresh *shelved, err error) {
	ms.mu.Lock()
	close(m.fetching)
	m.fetching, m.cancel = nil, nil
	old, changed, warn := fresh, false, false // of a principal that has signed out or was evicted meanwhile
	current := !m.gone && ms.conns.ctx.Err() == nil
	if current {
		old, changed = ms.take(m, fresh, err)
		if warn = err != nil && time.Since(ms.warned) >= warnPause; warn {
			ms.warned = time.Now()
		}
	}
	ms.mu.Unlock()
	switch {
	case warn:
		ms.srv.log.Warn("the lists of a principal cannot be read", "err", err)
	case err != nil && current:
		ms.srv.log.Debug("the lists of a principal cannot be read", "err", err)
	}
	if old != nil {
		ms.shelf.drop(old)
	}
	if changed {
		ms.tell(m.key)
	}
}

// take stores the outcome of a fetch. It returns the listing that has no user any more, and whether
// the principal sees something else now. The caller holds mu.
func (ms *members) take(m *member, fresh *shelved, err error) (old *shelved, changed bool) {
	now := time.Now()
	m.err = err
	if err == nil {
		old, changed = m.listing, m.listing != fresh
		m.listing, m.fetched, m.refused, m.failures, m.failing, m.next = fresh, now, false, 0, time.Time{}, time.Time{}
		m.pace.fetched(now, changed)
		delete(ms.watched, m.key)
		if m.stale {
			ms.begin(ms.conns.ctx, m, m.pace.pause)
		}
		return old, changed
	}
	if m.failures++; m.failing.IsZero() {
		m.failing = now
	}
	m.next = now.Add(refetchWait(m.failures))
	refused := refusesHolder(ms.srv.cfg, err)
	switch {
	case refused:
		changed = m.listing != nil || !m.refused
	case m.listing != nil:
		changed, m.stale = now.Sub(m.failing) >= ms.srv.opts.Grace, true
	}
	if m.refused = m.refused || refused; changed {
		old, m.listing = m.listing, nil
	}
	ms.await(m.key, m.who, true)
	return old, changed
}

// refetchWait returns the wait after a number of consecutive failures.
func refetchWait(failures int) time.Duration {
	d := lastRefetch
	if n := max(failures-1, 0); n < 9 {
		d = min(firstRefetch<<n, lastRefetch)
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/4))
}

// tell says that what a principal sees has changed. The caller holds no lock.
func (ms *members) tell(key memberKey) {
	if f := ms.srv.opts.ListsChanged; f != nil {
		f(key.principal, key.grant)
	}
}

// wait waits until a listing of the caller of ctx that is not known is no longer being fetched.
func (ms *members) wait(ctx context.Context) {
	key := ms.keyOf(ctx)
	for ctx.Err() == nil {
		ms.mu.Lock()
		var done chan struct{}
		if m := ms.find(key); m != nil && m.listing == nil && !m.refused {
			done = m.fetching
		}
		ms.mu.Unlock()
		if done == nil {
			return
		}
		select {
		case <-done:
		case <-ctx.Done():
		}
	}
}
