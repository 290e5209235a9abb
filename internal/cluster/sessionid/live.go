package sessionid

import (
	"context"
	"encoding/json"

	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/jsonrpc"
)

// live are the sessions of one server, as streamable.ServerOptions.Sessions describes them.
type live = interface {
	Here(id string) bool
	Forget(id string, all bool)
	Unsent(id string, max int) (s *mcp.Session, notes []json.RawMessage)
	IDs() []string
	Count() int
}

// Serves is called by the server of the sessions, before it serves.
func (k *Keeper) Serves(of live) {
	k.live = of
	k.ids.mu.Lock()
	defer k.ids.mu.Unlock()
	k.ids.live[of] = struct{}{}
}

// Ending is called by the server of the sessions before it ends them all.
func (k *Keeper) Ending(ctx context.Context) {
	if k.ending != nil {
		k.ending(ctx)
	}
	k.ids.mu.Lock()
	defer k.ids.mu.Unlock()
	delete(k.ids.live, k.live)
}

// OnEnding sets what is called before the server ends all sessions.
func (k *Keeper) OnEnding(f func(context.Context)) { k.ending = f }

// Open returns how many sessions live in this process.
func (i *Ids) Open() (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for of := range i.live {
		n += of.Count()
	}
	return n
}

// IDs returns the ids of the sessions that live in this process.
func (k *Keeper) IDs() []string { return k.live.IDs() }

// Here reports whether a session lives in this process.
func (k *Keeper) Here(id string) bool { return k.live.Here(id) }

// Forget ends a session in this process, unless it is in use. It may go on in another one.
func (k *Keeper) Forget(id string) { k.live.Forget(id, false) }

// ForgetAll ends all sessions in this process. They may go on in another one.
func (k *Keeper) ForgetAll() { k.live.Forget("", true) }

// maxUnsent bounds the bytes of the notifications that a node hands over.
const maxUnsent = 64 << 10

const handoverPurpose = "session handed over"

// handover is what a node leaves of a session for the next one.
type handover struct {
	Notes []json.RawMessage `json:"notes,omitempty"` // that no stream of the client has carried
	Data  json.RawMessage   `json:"data,omitempty"`  // of OnLeave
}

// OnLeave sets what returns the data of a session that its next node gets from Left; nil is nothing. A session that
// no Keeper serves has no next node.
func OnLeave(s *mcp.Session, f func() json.RawMessage) {
	if m, ok := s.Value(memoKey{}, nil).(*memo); ok {
		m.leaves.Store(&f)
	}
}

// Left returns what the last node of a session has left for this one, once. It is nil if there is nothing.
func Left(s *mcp.Session) json.RawMessage {
	m, ok := s.Value(memoKey{}, nil).(*memo)
	if !ok || m.left == nil {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.left.Data
	m.left.Data = nil // else it stays for as long as the session lives
	return data
}

// Leave returns what the next node of a session needs, sealed, and the key of the document for it. state is "" if
// that is nothing, or the session does not live here. The session keeps what it has, so that it can be handed over
// again while no other node has taken it.
func (k *Keeper) Leave(id string) (key, state string) {
	_, name, ok := k.unseal(id)
	if !ok {
		return "", ""
	}
	s, notes := k.live.Unsent(id, maxUnsent)
	if s == nil {
		return "", ""
	}
	h := handover{Notes: notes}
	if m, ok := s.Value(memoKey{}, nil).(*memo); ok {
		if f := m.leaves.Load(); f != nil {
			h.Data = (*f)()
		} else if m.left != nil { // no request has taken it here
			m.mu.Lock()
			h.Data = m.left.Data
			m.mu.Unlock()
		}
	}
	if len(h.Notes) == 0 && h.Data == nil {
		return "", ""
	}
	plain, err := json.Marshal(h)
	if err != nil {
		return "", "" // a notification that is no JSON: no message of a client depends on it
	}
	_, own := cutNode(name)
	return store.SessionKeys + store.Hash(own), k.ids.seal.Seal(handoverPurpose, plain, k.context(name))
}

type handedKey struct{}

// Handed puts what another node has left of a session into the context in which the session is adopted.
func (k *Keeper) Handed(ctx context.Context, state string) context.Context {
	return context.WithValue(ctx, handedKey{}, state)
}

// handed returns what Handed has put into a context for the session of an id, nil if that is nothing.
func (e *Endpoint) handed(ctx context.Context, id string) *handover {
	state, _ := ctx.Value(handedKey{}).(string)
	if state == "" {
		return nil
	}
	_, name, ok := e.unseal(id)
	if !ok {
		return nil
	}
	h := &handover{}
	if plain, ok := e.ids.seal.OpenKept(handoverPurpose, state, e.context(name)); !ok || json.Unmarshal(plain, h) != nil {
		return nil
	}
	return h
}

// deliver puts the notifications that the last node has left into an adopted session.
func (m *memo) deliver(ctx context.Context, s *mcp.Session) {
	if m.left == nil {
		return
	}
	for _, note := range m.left.Notes {
		if msg, err := jsonrpc.Parse(note); err == nil && msg.Kind() == jsonrpc.Notification {
			_ = s.Peer().Notify(ctx, msg.Method, msg.Params)
		}
	}
	m.left.Notes = nil
}
