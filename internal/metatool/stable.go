package metatool

import (
	"slices"
	"strings"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
)

// cacheBreakpointID is the id of the card between seen and new cards (spec/gateway §5.1). No
// tool_id starts with "_".
const cacheBreakpointID = "__cache_breakpoint__"

// markerTokens is the minimum number of tokens in that card's line.
const markerTokens = 12

// stablePrefix holds the cards that a session has seen, as it first saw them, for cache-stable
// browsing. It belongs to one catalog.
type stablePrefix struct {
	of   *catalog.Catalog       // nil: the catalog before a restart, which tag names
	tag  string                 // of the catalog: another one with equal entries is the same
	seen map[string]*frozenCard // nil values: hydrated, and in no answer yet
}

type frozenCard struct {
	card   catalog.Card
	scored bool
}

// shownCards holds cards in the order of the answer. Those that a query found when they were first seen
// have a score in JSON.
type shownCards struct {
	cards  []catalog.Card
	scored []bool
}

// follow resets the prefix if the catalog has changed (spec/gateway §4.6).
func (p *stablePrefix) follow(of *catalog.Catalog) {
	if p.of == of {
		return
	}
	if tag := of.Tag(); tag == "" || tag != p.tag {
		*p = stablePrefix{of: of, tag: tag}
	}
	p.of = of
}

// hydrated records that a session has received a tool's definition.
func (st *sessionState) hydrated(of *catalog.Catalog, id string, stable bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.offerLocked(shownKey(of, id))
	if !stable {
		return
	}
	st.stable.follow(of)
	if _, known := st.stable.seen[id]; !known && len(st.stable.seen) < maxOffered {
		st.stable.put(id, nil)
	}
}

func (p *stablePrefix) put(id string, f *frozenCard) {
	if p.seen == nil {
		p.seen = make(map[string]*frozenCard)
	}
	p.seen[id] = f
}

// arrange puts cards into cache-stable order (spec/gateway §5.1): seen cards with the bytes of
// their first answer, then the marker, then new cards, both parts by ascending id. It keeps all
// cards. The marker appears only between two non-empty parts.
func (st *sessionState) arrange(of *catalog.Catalog, cards []catalog.Card, scored bool) shownCards {
	st.mu.Lock()
	defer st.mu.Unlock()
	p := &st.stable
	p.follow(of)
	var old, fresh []*frozenCard
	for i := range cards {
		id := cards[i].ID
		frozen, seen := p.seen[id]
		if frozen != nil {
			old = append(old, frozen)
			continue
		}
		now := &frozenCard{cards[i], scored}
		if seen {
			old = append(old, now) // hydrated, and shown for the first time
		} else {
			fresh = append(fresh, now)
		}
		if seen || len(p.seen) < maxOffered { // without room it counts as new again
			p.put(id, now)
			st.remember()
		}
	}
	byID := func(a, b *frozenCard) int { return strings.Compare(a.card.ID, b.card.ID) }
	slices.SortFunc(old, byID)
	slices.SortFunc(fresh, byID)
	out := shownCards{make([]catalog.Card, 0, len(cards)+1), make([]bool, 0, len(cards)+1)}
	add := func(list []*frozenCard) {
		for i := range list {
			out.cards, out.scored = append(out.cards, list[i].card), append(out.scored, list[i].scored)
		}
	}
	add(old)
	if len(old) > 0 && len(fresh) > 0 {
		out.cards = append(out.cards, catalog.Card{ID: cacheBreakpointID, Name: cacheBreakpointID, Kind: primitive.KindInternal})
		out.scored = append(out.scored, false)
	}
	add(fresh)
	return out
}
