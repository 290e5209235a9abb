package credentials

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/signin/oauth"
	"github.com/weir-mcp/weir/internal/signin/vault"
)

// holdersTime is how long a list of the store is used. Another process may sign a principal in.
const holdersTime = 2 * time.Second

// holders knows which principals have credentials of their own at servers. It lists the store at most
// every two seconds, and takes at most a twentieth of the time for that. All methods are safe for
// concurrent use.
type holders struct {
	store vault.Store
	now   func() time.Time

	mu    sync.Mutex           // guards below
	known map[holding][]string // principals, each list sorted
	until time.Time            // when known is too old
}

func newHolders(store vault.Store) *holders { return &holders{store: store, now: time.Now} }

// next returns a principal for which has is true, "" if there is none. It begins with the first one
// behind after, in the order of names, and comes to after last.
func (h *holders) next(kind vault.Kind, name, after string, has func(principal string) bool) string {
	all := h.of(holding{kind, name})
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

// holding is a kind of credential at a server, or a text of a name.
type holding struct {
	kind vault.Kind
	name string
}

// of returns the principals with a record, sorted.
func (h *holders) of(key holding) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	began := h.now()
	if began.Before(h.until) {
		return h.known[key]
	}
	entries, err := h.store.List(context.Background())
	if err == nil { // else the older list serves
		h.known = map[holding][]string{}
		for _, e := range entries {
			if e.Principal != oauth.Shared && e.Kind != vault.Client {
				key := holding{e.Kind, oauth.ServerName(e.ID)}
				h.known[key] = append(h.known[key], e.Principal)
			}
		}
		for key, principals := range h.known {
			slices.Sort(principals)
			h.known[key] = slices.Compact(principals)
		}
	}
	now := h.now()
	h.until = now.Add(max(holdersTime, 20*now.Sub(began)))
	return h.known[key]
}

// forget makes the next call list the store again.
func (h *holders) forget() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = time.Time{}
}
