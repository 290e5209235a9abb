package upstream

import (
	"context"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// rules returns the rules for calls of a principal.
func (ms *members) rules(key memberKey) *toolRules {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.find(key); m != nil && m.listing != nil {
		return m.listing.rules
	}
	return nil
}

// offersSignIn reports whether the caller of ctx sees signInTool in place of a listing.
func (ms *members) offersSignIn(ctx context.Context) bool {
	key := ms.keyOf(ctx)
	signed := ms.signedIn(ctx, key)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.find(key)
	return (m == nil || m.listing == nil) && (!signed || m != nil && m.refused)
}

// raw returns the listing of the caller of ctx as the server lists it, nil if it is not known.
func (ms *members) raw(ctx context.Context) *primitive.Listing {
	key := ms.keyOf(ctx)
	if !ms.signedIn(ctx, key) {
		return nil
	}
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.find(key); m != nil && m.listing != nil {
		return &m.listing.raw
	}
	return nil
}

// changed fetches the listing of a principal again: the server says that it has changed, or refuses
// the credential. now says that the fetch waits for no further notification.
func (ms *members) changed(key memberKey, now bool) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	m := ms.find(key)
	if m == nil {
		return
	}
	m.stale = true
	delay := m.pace.pause
	if time.Since(m.began) > longestRelist {
		delay = debounce
	}
	if now {
		delay = 0
	}
	ms.begin(ms.conns.ctx, m, delay)
}

// relearn fetches the listing of a principal and waits, unless that has just been done.
func (ms *members) relearn(ctx context.Context, key memberKey) {
	ms.mu.Lock()
	m := ms.find(key)
	if m == nil || m.fetching == nil && time.Since(m.began) < firstRelist {
		ms.mu.Unlock()
		return
	}
	ms.begin(ctx, m, 0)
	done := m.fetching
	ms.mu.Unlock()
	if done == nil {
		return
	}
	select {
	case <-done:
	case <-ctx.Done():
	}
}

// retry makes the next fetch for the caller of ctx due at once and waits for it within bounds. It
// returns why the caller has no listing, nil if it has one or if that is not known yet.
func (ms *members) retry(ctx context.Context, most time.Duration) error {
	key := ms.keyOf(ctx)
	ms.mu.Lock()
	if m := ms.find(key); m != nil {
		m.refused, m.failures, m.next = false, 0, time.Time{}
	}
	ms.mu.Unlock()
	ms.of(ctx)
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	ms.wait(ctx)
	ms.mu.Lock()
	defer ms.mu.Unlock()
	if m := ms.find(key); m != nil && m.listing == nil {
		return m.err
	}
	return nil
}

// signedInError returns why a caller with a connection has no listing: the server takes strangers and
// the caller is one, or it lists nothing for the caller.
func (ms *members) signedInError(ctx context.Context) error {
	key := ms.keyOf(ctx)
	if !ms.signedIn(ctx, key) {
		return ms.srv.credentialOf(key.principal)
	}
	return ms.retry(ctx, signInWait)
}

// again judges the listings again: the lock, or the place of the server, has changed.
func (ms *members) again() {
	ms.conns.spawn(func() {
		changed := ms.shelf.again()
		var keys []memberKey
		ms.mu.Lock()
		for at := ms.byUse.Front(); at != nil; at = at.Next() {
			if m := at.Value.(*member); changed[m.listing] {
				keys = append(keys, m.key)
			}
		}
		ms.mu.Unlock()
		for _, key := range keys {
			ms.tell(key)
		}
	})
}

// end forgets all listings, because the upstream leaves. Its principals are told.
func (ms *members) end() {
	ms.mu.Lock()
	ms.ended = true
	var keys []memberKey
	for at := ms.byUse.Front(); at != nil; at = ms.byUse.Front() {
		m := at.Value.(*member)
		keys = append(keys, m.key)
		ms.forget(m)
	}
	for key := range ms.watched { // and who was to sign in
		keys = append(keys, key)
	}
	clear(ms.watched)
	ms.mu.Unlock()
	for _, key := range keys {
		ms.tell(key)
	}
}

// any reports whether a principal has a listing.
func (ms *members) any() bool { return len(ms.shelf.all()) > 0 }

// reachable reports whether the server answers: it is asked for no lists before the first sign-in.
func (ms *members) reachable() bool {
	shared := ms.conns.shared.calls
	state, _ := shared.now()
	return state == StateReady || state == StateIdle || needsSignIn(shared.lastError())
}

// report completes the state of the server. One that does not greet strangers has the state that its
// principals find.
func (ms *members) report(st *Status) {
	st.OwnLists, st.Listed = true, ms.reachable()
	if st.State != StateSignIn {
		return
	}
	state := StateSignIn
	if ms.any() {
		state = StateIdle
	}
	if ms.conns.isReady(func(principal string) bool { return principal != "" }) {
		state = StateReady
	}
	if st.State = state; state != StateSignIn {
		st.LastError = ""
	}
}
