package gateway

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/weir-mcp/weir/catalog"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/telemetry"
)

// maxOffered bounds the ids that are remembered as offered to one session, and
// the cards that are frozen for it. What comes after stays new to it.
const maxOffered = 4096

// sessionKey is the key of a gateway's state in a session. Each gateway has its
// own, so that one session may use several.
type sessionKey struct{ _ byte }

// sessionState is what a gateway keeps for one session. In the modern era,
// which has no sessions, there is one for each principal.
type sessionState struct {
	tag       string // for events and statistics; the id is a secret
	principal string
	once      sync.Once // registers it

	usage usage

	mu      sync.Mutex // guards below
	quota   map[string]*bucket
	offered map[string]struct{} // ids of tools that were browsed or hydrated
	listed  bool                // proxy mode: tools/list showed them all
	defined bool                // tools/list was counted
	stable  stablePrefix
}

// state returns what g keeps for a session.
func (g *Gateway) state(s *mcp.Session) *sessionState {
	st := s.Value(g.key, func() any {
		return &sessionState{tag: telemetry.SessionTag(s.ID()), principal: s.Principal()}
	}).(*sessionState)
	st.once.Do(func() { g.register(s, st) })
	return st
}

// register keeps a session in the list of sessions until it ends.
func (g *Gateway) register(s *mcp.Session, st *sessionState) {
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return
	}
	g.sessions[st] = nil
	g.mu.Unlock()
	stop := s.OnClose(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		delete(g.sessions, st)
	})
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, open := g.sessions[st]; open {
		g.sessions[st] = stop
	}
}

// Sessions returns how many sessions that used the gateway are open.
func (g *Gateway) Sessions() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.sessions)
}

// openSessions returns the open sessions in the order of their principals and
// tags.
func (g *Gateway) openSessions() []*sessionState {
	g.mu.Lock()
	list := slices.Collect(maps.Keys(g.sessions))
	g.mu.Unlock()
	slices.SortFunc(list, func(a, b *sessionState) int {
		return strings.Compare(a.principal+"\x00"+a.tag, b.principal+"\x00"+b.tag)
	})
	return list
}

// offerCards notes that tools were shown to the session.
func (st *sessionState) offerCards(cards []catalog.Card) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for i := range cards {
		if cards[i].Kind == catalog.KindTool {
			st.offerLocked(cards[i].ID)
		}
	}
}

func (st *sessionState) offerLocked(id string) {
	if _, known := st.offered[id]; known || len(st.offered) >= maxOffered {
		return
	}
	if st.offered == nil {
		st.offered = make(map[string]struct{})
	}
	st.offered[id] = struct{}{}
}

// offeredIDs returns the ids of tools that the session was shown. In proxy
// mode, which lists every tool, those are all of c once it has asked for them.
func (st *sessionState) offeredIDs(c *catalog.Catalog) []string {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.listed {
		entries := c.Entries()
		ids := make([]string, 0, len(entries))
		for _, e := range entries {
			if e.Kind == catalog.KindTool {
				ids = append(ids, e.ID)
			}
		}
		return ids
	}
	return slices.Collect(maps.Keys(st.offered))
}
