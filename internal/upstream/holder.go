package upstream

import (
	"context"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/upstream/subscription"
)

// holder is a principal with the grants for which it has a listing, or waits for one.
type holder struct {
	turn   chan struct{} // holds the fetch in progress
	grants []*member     // guarded by members.mu; at most maxGrants
}

func newHolder() *holder { return &holder{turn: make(chan struct{}, 1)} }

func (h *holder) remove(m *member) {
	h.grants = slices.DeleteFunc(h.grants, func(other *member) bool { return other == m })
}

// oldest returns the grant that was asked for longest ago.
func (h *holder) oldest() *member {
	return slices.MinFunc(h.grants, func(a, b *member) int { return a.asked.Compare(b.asked) })
}

// inTurn runs f while it holds a turn. It returns an error if ctx ends before.
func inTurn(ctx context.Context, turns chan struct{}, f func() error) error {
	select {
	case turns <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-turns }()
	if err := ctx.Err(); err != nil {
		return err
	}
	return f()
}

// maxChanges is how often a listing may change in a minute before it is fetched less often.
const maxChanges = 4

// pace is how often a listing is fetched because its server says that it has changed.
type pace struct {
	pause   time.Duration // between list_changed and a fetch
	changes []time.Time   // of the last minute
}

// fetched follows a fetch. A server may say that lists have changed after each list, or list
// differently each time.
func (p *pace) fetched(now time.Time, changed bool) {
	p.changes = slices.DeleteFunc(p.changes, func(t time.Time) bool { return now.Sub(t) >= time.Minute })
	if changed {
		if len(p.changes) > maxChanges {
			p.changes = p.changes[1:]
		}
		p.changes = append(p.changes, now)
	}
	switch {
	case !changed || len(p.changes) > maxChanges:
		p.pause = min(max(2*p.pause, firstRelist), longestRelist)
	case len(p.changes) > 1:
		p.pause = max(p.pause/2, debounce)
	default:
		p.pause = debounce
	}
}

// watched is a principal that waits for a sign-in, or for the next fetch.
type watched struct {
	who    *identity.Identity // without the credential
	asked  time.Time
	signed bool // it has a credential
}

// await makes watch look after a principal that has asked. The caller holds mu.
func (ms *members) await(key memberKey, who *identity.Identity, signed bool) {
	asked := time.Now()
	if signed {
		m := ms.find(key)
		if m == nil || time.Since(m.asked) > watchTime {
			return
		}
		asked = m.asked
	}
	if ms.watched[key] == nil && !ms.mayWatch(key, signed) {
		return
	}
	ms.watched[key] = &watched{who, asked, signed}
	if !ms.watching {
		ms.watching = ms.conns.spawn(ms.watch)
	}
}

// mayWatch reports whether there is room for a principal that waits. The caller holds mu.
func (ms *members) mayWatch(key memberKey, signed bool) bool {
	grants, strangers := 0, 0
	for other, w := range ms.watched {
		if other.principal == key.principal {
			grants++
		}
		if !w.signed {
			strangers++
		}
	}
	return grants < maxGrants && len(ms.watched) < maxWatched && (signed || strangers < maxStrangers)
}

// watch looks whether principals who wait have signed in, or whether their next fetch is due, until
// none waits. It serves clients that wait for notifications.
func (ms *members) watch() {
	for subscription.Sleep(ms.conns.ctx, signInPause) {
		ms.mu.Lock()
		waiting := map[memberKey]*watched{}
		for key, w := range ms.watched {
			if time.Since(w.asked) > watchTime {
				delete(ms.watched, key)
			} else if m := ms.find(key); m == nil || m.fetching == nil {
				waiting[key] = w
			}
		}
		ms.watching = len(ms.watched) > 0
		over := !ms.watching
		ms.mu.Unlock()
		if over {
			return
		}
		for key, w := range waiting {
			ctx := identity.With(ms.conns.ctx, w.who)
			signed := ms.signedIn(ctx, key)
			ms.mu.Lock()
			if ms.watched[key] == w {
				ms.revisit(ctx, key, w, signed)
			}
			ms.mu.Unlock()
		}
	}
}

// revisit looks after a principal that waits. The caller holds mu.
func (ms *members) revisit(ctx context.Context, key memberKey, w *watched, signed bool) {
	switch m := ms.find(key); {
	case !signed && m != nil:
		ms.signedOut(key)
		ms.watched[key] = &watched{w.who, w.asked, false}
	case signed && m == nil:
		m = ms.member(key)
		m.who, m.asked = w.who, w.asked
		ms.look(ctx, m)
	case signed:
		ms.look(ctx, m)
	}
}
