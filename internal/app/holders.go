package app

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/oauth"
	"github.com/weir-mcp/weir/internal/vault"
)

// holdersTime is how long a list of the store is used. Another process may sign a principal in.
const holdersTime = 2 * time.Second

// holders knows which principals have credentials of their own at servers. It lists the store at most
// every two seconds, and takes at most a twentieth of the time for that. All methods are safe for
// concurrent use.
type holders struct {
	store vault.Store
	now   func() time.Time

	mu    sync.Mutex          // guards below
	known map[string][]string // principals by server, each list sorted
	until time.Time           // when known is too old
}

func newHolders(store vault.Store) *holders { return &holders{store: store, now: time.Now} }

// next returns a principal for which has is true, "" if there is none. It begins with the first one
// behind after, in the order of names, and comes to after last.
func (h *holders) next(server, after string, has func(principal string) bool) string {
	all := h.of(server)
	from, found := slices.BinarySearch(all, after)
	if found {
		from++
	}
	for i := range all {
		if principal := all[(from+i)%len(all)]; has(principal) {
			return principal
		}
	}
	return ""
}

// of returns the principals with a record at a server, sorted.
func (h *holders) of(server string) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	began := h.now()
	if began.Before(h.until) {
		return h.known[server]
	}
	entries, err := h.store.List(context.Background())
	if err == nil { // else the older list serves
		h.known = map[string][]string{}
		for _, e := range entries {
			if e.Principal != oauth.Shared && e.Kind == vault.Token {
				name := oauth.ServerName(e.ID)
				h.known[name] = append(h.known[name], e.Principal)
			}
		}
		for name, principals := range h.known {
			slices.Sort(principals)
			h.known[name] = slices.Compact(principals)
		}
	}
	now := h.now()
	h.until = now.Add(max(holdersTime, 20*now.Sub(began)))
	return h.known[server]
}

// forget makes the next call list the store again.
func (h *holders) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Time{}
}
