package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/upstream/subscription"
)

// Bounds of what connections of single sessions add to the listing of one server.
const (
	maxAdders    = 64      // connections
	maxAddedSize = 1 << 20 // bytes of the definitions of one of them
)

// added is what a server lists on connections that sessions have for themselves, in addition to what it
// lists on the shared one: some servers switch on tools at run time, for the connection that asks.
//
//	list_changed of a session's connection ─▶ its lists ─▶ set ─▶ the shared lists are read again ─▶ merge
//	the connection ends ────────────────────────────────▶ drop ─▶ likewise
//
// Only sessions without a principal add, because all callers see the result. It is safe for concurrent
// use. The zero value is ready.
type added struct {
	mu    sync.Mutex // guards below
	names map[string]bool
	of    map[slotKey]map[string]json.RawMessage // definitions by the key of their entry
}

// entryNames are the members that name the entries of the lists of rawLists.
var entryNames = [...]string{"name", "uri", "uriTemplate", "name"}

// eachEntry calls f with the definitions of a listing, the index of their list and their key.
func eachEntry(l *primitive.Listing, f func(list int, key string, raw json.RawMessage)) {
	for i, list := range rawLists(l) {
		for _, raw := range *list {
			f(i, strconv.Itoa(i)+rawjson.Text(rawjson.Get(raw, entryNames[i])), raw)
		}
	}
}

// set stores what a connection lists, and reports whether its additions have changed.
func (a *added) set(key slotKey, l *primitive.Listing) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	more, size := map[string]json.RawMessage{}, 0
	eachEntry(l, func(_ int, name string, raw json.RawMessage) {
		if size += len(raw); !a.names[name] && size <= maxAddedSize {
			more[name] = slices.Clone(raw)
		} else if a.names[name] {
			size -= len(raw)
		}
	})
	if len(more) == 0 {
		_, had := a.of[key]
		delete(a.of, key)
		return had
	}
	before, had := a.of[key]
	if !had && len(a.of) >= maxAdders {
		return false
	}
	if a.of == nil {
		a.of = map[slotKey]map[string]json.RawMessage{}
	}
	a.of[key] = more
	return !maps.EqualFunc(before, more, func(x, y json.RawMessage) bool { return string(x) == string(y) })
}

// drop forgets a connection, and reports whether it has added something.
func (a *added) drop(key slotKey) (changed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, had := a.of[key]
	delete(a.of, key)
	return had
}

// merge adds to the listing of the shared connection what others list in addition.
func (a *added) merge(l *primitive.Listing) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.names = map[string]bool{}
	eachEntry(l, func(_ int, key string, _ json.RawMessage) { a.names[key] = true })
	all := map[string]json.RawMessage{}
	for _, more := range a.of {
		for key, raw := range more {
			if other := all[key]; !a.names[key] && (other == nil || string(raw) < string(other)) {
				all[key] = raw
			}
		}
	}
	lists := rawLists(l)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		list := lists[key[0]-'0']
		*list = append(slices.Clip(*list), all[key])
	}
}

// adds reports whether the lists of the connection add to the lists of the shared one.
func (s *slot) adds() bool {
	session := s.key.session
	return session != nil && (session.Principal() == "" || session.Principal() == identity.Local) && !s.key.modern && !s.srv.cfg.PerPrincipal() && !s.conns.lists.perCaller()
}

// listAdded reads the lists over a session's own connection whenever the server says that they have
// changed, until ctx ends.
func (s *slot) listAdded(ctx context.Context, l *link) {
	lists, shared := s.conns.lists, s.conns.shared
	defer func() {
		if lists.added.drop(s.key) {
			shared.listAgain()
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.relist:
		}
		if !subscription.Sleep(ctx, debounce) {
			return
		}
		select {
		case <-s.relist: // the lists include this change
		default:
		}
		listing, _, err := lists.gather(ctx, l)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			s.srv.log.Debug("the lists of a session's connection cannot be read", "err", err)
		case lists.added.set(s.key, &listing):
			shared.listAgain()
		}
	}
}

// listAgain makes the lists of the shared connection be read again, also if it is idle.
func (s *slot) listAgain() {
	s.refresh()
	if state, _ := s.calls.now(); state == StateIdle {
		nudge(s.calls.wake) // it lists when it is back
	}
}
