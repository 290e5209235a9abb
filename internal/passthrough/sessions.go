package passthrough

import (
	"container/list"
	"net/http"
	"sync"

	"github.com/weir-mcp/weir/internal/net/guard"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// ownSession returns the upstream's own id of the session that a request names. lasts says that the
// id proves whose session it is, without a binding: an earlier Router may have given it out.
func (f *face) ownSession(r *http.Request, t *Target) (id string, lasts bool) {
	id = r.Header.Get(streamable.HeaderSession)
	if f.ids == nil || id == "" {
		return id, false
	}
	if own, ok := f.ids.Unwrap(guard.Principal(r.Context()), t.URL.String(), id); ok {
		return own, true
	}
	return id, false
}

// bindings records which principal got which session id from which upstream. Forwarded sessions
// live in the upstream, which knows no principals: without this table, any principal that learns a
// session id could use it.
//
// The table is bounded. At the bound the least recently used id is removed, of the principal with the
// most ids.
type bindings struct {
	max       int
	onSession func(change int, replaced string)

	mu    sync.Mutex // guards below
	byKey map[bindingKey]*list.Element
	users map[string]*list.List // of *binding, the latest used in front
}

type bindingKey struct{ upstream, principal, session string }

// binding is a session id that an upstream gave to a principal.
type binding struct {
	key bindingKey
	// shared says that the upstream assigned the same id more than once, so that several clients,
	// each with its own request ids, use it.
	shared bool
}

func newBindings(limit int, onSession func(change int, replaced string)) *bindings {
	return &bindings{onSession: onSession, max: limit, byKey: map[bindingKey]*list.Element{}, users: map[string]*list.List{}}
}

// add records that an upstream assigned a session id to a principal.
func (b *bindings) add(k bindingKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.users[k.principal]
	if e := b.byKey[k]; e != nil {
		e.Value.(*binding).shared = true
		own.MoveToFront(e)
		return
	}
	if len(b.byKey) >= b.max {
		var most *list.List
		for _, l := range b.users {
			if most == nil || l.Len() > most.Len() {
				most = l
			}
		}
		principal := most.Back().Value.(*binding).key.principal
		b.drop(most.Back())
		b.onSession(0, principal)
	}
	if own = b.users[k.principal]; own == nil {
		own = list.New()
		b.users[k.principal] = own
	}
	b.byKey[k] = own.PushFront(&binding{key: k})
}

// drop removes an element. The caller holds mu.
func (b *bindings) drop(e *list.Element) {
	k := e.Value.(*binding).key
	own := b.users[k.principal]
	own.Remove(e)
	if own.Len() == 0 {
		delete(b.users, k.principal)
	}
	delete(b.byKey, k)
}

// owns reports whether the principal got this session id from the upstream, and whether several of
// its clients did.
func (b *bindings) owns(k bindingKey) (owned, shared bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.byKey[k]
	if e == nil {
		return false, false
	}
	b.users[k.principal].MoveToFront(e)
	return true, e.Value.(*binding).shared
}

// remove removes a session that has ended.
func (b *bindings) remove(k bindingKey) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if e := b.byKey[k]; e != nil {
		b.drop(e)
	}
}
