package upstream

import (
	"context"
	"strconv"
	"time"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// eachOwn calls fn for each server that lists for each principal, in the order of the configuration.
func (m *Manager) eachOwn(fn func(name string, ms *members)) {
	t := m.table.Load()
	for _, s := range t.order {
		if u := t.byName[s.Name]; u != nil && u.lists.perCaller() && !u.leftOut.Load() {
			fn(s.Name, u.lists.own)
		}
	}
}

// OwnLists returns what the servers that list for each principal list for the caller of ctx: for the
// principal of its session, or else of its identity. It does not wait. It starts to fetch a listing
// that is not known, or that is too old.
func (m *Manager) OwnLists(ctx context.Context) primitive.Lists {
	return m.ownLists(func(ms *members) (*served, bool) { return ms.of(ctx) })
}

// PeekOwnLists is OwnLists for what looks at the lists without a request of the principal: it starts
// no fetch, and the listings of others are not evicted sooner for it.
func (m *Manager) PeekOwnLists(ctx context.Context) primitive.Lists {
	return m.ownLists(func(ms *members) (*served, bool) { return ms.peek(ctx) })
}

// ownLists puts together what a principal sees of each server.
func (m *Manager) ownLists(of func(*members) (s *served, known bool)) (lists primitive.Lists) {
	var key []byte
	m.eachOwn(func(name string, ms *members) {
		s, known := of(ms)
		if !known {
			lists.Missing = append(lists.Missing, name)
			key = append(key, "- "...)
			return
		}
		lists.Of = append(lists.Of, s.listing)
		key = append(strconv.AppendUint(key, s.id, 36), ' ')
	})
	lists.Key = string(key)
	return lists
}

// AwaitOwnLists waits until no listing that the caller of ctx lacks is being fetched, until most has
// passed, or until ctx ends. Call OwnLists before.
func (m *Manager) AwaitOwnLists(ctx context.Context, most time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	m.eachOwn(func(_ string, ms *members) { ms.wait(ctx) })
}

// OwnListings returns the different listings of a server that lists for each principal, as it lists
// them now. They are immutable. Of another server it returns nil.
func (m *Manager) OwnListings(server string) (all []*primitive.Listing) {
	m.eachOwn(func(name string, ms *members) {
		if name == server {
			for _, l := range ms.shelf.all() {
				all = append(all, &l.raw)
			}
		}
	})
	return all
}

// JudgeOwnLists applies Options.Judge again to the listings of a server that lists for each principal.
// It does not wait.
func (m *Manager) JudgeOwnLists(server string) {
	m.eachOwn(func(name string, ms *members) {
		if name == server {
			ms.again()
		}
	})
}

// OwnListing returns what a server lists for the caller of ctx, before Options.Judge. It returns nil if
// that is not known, or if the server lists the same for all. It waits for a fetch in progress until
// ctx ends.
func (m *Manager) OwnListing(ctx context.Context, server string) (listing *primitive.Listing) {
	m.eachOwn(func(name string, ms *members) {
		if name != server {
			return
		}
		if _, known := ms.of(ctx); !known {
			ms.wait(ctx)
		}
		listing = ms.raw(ctx)
	})
	return listing
}
