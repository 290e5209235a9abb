package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// registrations are the documents of the agents that have registered themselves, one for each name.
//
//	heartbeat ─▶ the agent has changed, or its lease there ends ─▶ compare-and-set of a.HASH ─▶ Registry.leases
//	a.HASH ─ Follow ─▶ pending ─ apply ─▶ Registry.leases at the other nodes of a cluster
//
// A store of this process only has registrations without an end, for the next process: a heartbeat that changes
// nothing writes nothing, and changes that the store does not take are written later. Nodes of a cluster share
// registrations that end with their leases. While the store does not answer there, agents that are known go on with
// their leases at the node that hears them, and new ones are refused: another node may have the name.
type registrations struct {
	r      *Registry
	docs   store.Docs
	shared bool
	stop   func()        // of Follow
	wake   chan struct{} // capacity 1: other nodes have changed agents

	mu      sync.Mutex // guards below
	pending map[string]store.Doc
	late    map[string]bool // names whose documents are not as the Registry is
	away    time.Time       // until then the store is not asked
}

const (
	// keepPrefix is the prefix of the keys of the documents.
	keepPrefix = store.AgentKeys
	keepTime   = 2 * time.Second // bounds one request to the store
	keepWait   = 2 * time.Second // when a store that did not answer is asked again
)

// ShareLease is the shortest lease of agents that nodes share.
const ShareLease = time.Minute

// record is an agent in the store.
type record struct {
	V         int             `json:"v"`
	Name      string          `json:"name"`
	URL       string          `json:"url"`
	Principal string          `json:"principal"`
	Server    json.RawMessage `json:"server,omitempty"`
	Since     time.Time       `json:"since"`
	Instance  string          `json:"instance"`
	From      netip.Addr      `json:"from"`
	Until     int64           `json:"until,omitempty"` // Unix time in ms; 0 where nodes do not share it
}

const recordVersion = 1

// errUnreadable says that a later version has written a document.
var errUnreadable = errors.New("registry: a document is of a later version")

func keyOf(name string) string { return keepPrefix + store.Hash(name) }

// agentOf returns the agent of a document.
func agentOf(doc store.Doc) (Agent, bool) {
	var f record
	if doc.Rev == 0 || json.Unmarshal(doc.Value, &f) != nil || f.V != recordVersion || keyOf(f.Name) != doc.Key {
		return Agent{}, false
	}
	a := Agent{
		Name: f.Name, URL: f.URL, Source: FromRegistration, Principal: f.Principal, Server: f.Server,
		Since: f.Since, Instance: f.Instance, From: f.From, rev: doc.Rev,
	}
	if f.Until != 0 {
		a.Until = time.UnixMilli(f.Until)
	}
	return a, true
}

// usable reports whether the URL of an agent in the store may be used.
func (a Agent) usable() bool {
	_, err := config.NewServer(a.Name, a.URL)
	return err == nil
}

// encode returns the document of an agent, and its life.
func (k *registrations) encode(a Agent) (value []byte, ttl time.Duration, err error) {
	f := record{recordVersion, a.Name, a.URL, a.Principal, a.Server, a.Since, a.Instance, a.From, 0}
	if k.shared {
		f.Until, ttl = a.Until.UnixMilli(), k.r.o.Lease
	}
	value, err = json.Marshal(f)
	return value, ttl, err
}

// Kept is the store of agents: it has the agents of an earlier process, and keeps the agents of
// this one.
type Kept struct {
	docs  store.Docs
	found []store.Doc
}

// ReadKept reads the registrations in a store.
func ReadKept(ctx context.Context, docs store.Docs) (*Kept, error) {
	k := &Kept{docs: docs}
	for doc, err := range docs.List(ctx, keepPrefix) {
		if err != nil {
			return nil, fmt.Errorf("restore agents: %w", err)
		}
		k.found = append(k.found, doc)
	}
	return k, nil
}

// restore takes up the agents of an earlier process, before the Registry is used. Their leases start
// again, because no agent could renew its lease meanwhile. An agent that is not permitted any more
// is left out.
func (k *registrations) restore(from *Kept) {
	k.docs = from.docs
	r, now := k.r, time.Now()
	for _, doc := range from.found {
		a, ok := agentOf(doc)
		if !ok {
			continue // of a later version
		}
		if !a.usable() || len(r.leases) >= r.o.Max || !r.o.May(a.Principal, a.Name) || r.o.Owner(a.Name) != "" {
			k.late[a.Name] = true // the first sweep removes it
			continue
		}
		a.Until = now.Add(r.o.Lease)
		r.putLocked(a)
	}
}

// Share shares the agents with the other nodes of a cluster: it takes up those that have registered there,
// and follows them until Close. While the store does not answer, agents of other nodes are not known, and none can
// register here. It is called before the Registry is used, in place of Options.Kept.
func (r *Registry) Share(docs store.Docs) error {
	k := r.kept
	k.docs, k.shared = docs, true
	stop, _, err := store.FollowLater(docs, keepPrefix, k.follow)
	if err != nil {
		return fmt.Errorf("follow the agents of other gateways: %w", err)
	}
	k.stop = stop
	k.apply()
	return nil
}

// Close ends following the agents of other nodes.
func (r *Registry) Close() { r.kept.stop() }

func (k *registrations) follow(d store.Doc) {
	k.mu.Lock()
	k.pending[d.Key] = d
	k.mu.Unlock()
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// apply brings the Registry to the state of the documents, and reports whether an agent came, went
// or moved.
func (k *registrations) apply() (changed bool) {
	k.mu.Lock()
	pending := k.pending
	k.pending = map[string]store.Doc{}
	k.mu.Unlock()
	names := sync.OnceValue(k.r.namesByKey) // registrations and heartbeats need none
	for key, doc := range pending {
		if a, ok := agentOf(doc); ok && a.usable() {
			changed = k.r.adopt(a) || changed
			continue
		}
		if doc.Rev != 0 {
			continue
		}
		if name := names()[key]; name != "" && !k.isLate(name) { // else this node writes it again
			changed = k.r.drop(name) || changed
		}
	}
	return changed
}

func (k *registrations) isLate(name string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.late[name]
}

// namesByKey returns the names of the registered agents by the keys of their documents.
func (r *Registry) namesByKey() map[string]string {
	r.mu.Lock()
	defer r.mu.Unlock()
	names := make(map[string]string, len(r.leases))
	for name := range r.leases {
		names[keyOf(name)] = name
	}
	return names
}

// adopt takes up an agent that has registered at another node, unless this one does not permit it. It
// reports whether requests to the agent go elsewhere now.
func (r *Registry) adopt(a Agent) (changed bool) {
	allowed := r.o.May(a.Principal, a.Name) && r.o.Owner(a.Name) == ""
	r.mu.Lock()
	old, live := r.leases[a.Name]
	if !live && (!allowed || len(r.leases) >= r.o.Max) || live && old.rev > a.rev { // its own write may be heard of first
		r.mu.Unlock()
		return false
	}
	r.putLocked(a)
	r.mu.Unlock()
	changed = !live || old.URL != a.URL || old.From != a.From
	if changed {
		r.ways.forget(a.Name)
		r.log.Info("an agent has registered at another gateway", "agent", a.Name, "url", a.URL, "principal", a.Principal)
	}
	return changed
}

// drop forgets an agent whose document has ended.
func (r *Registry) drop(name string) bool {
	r.mu.Lock()
	a, live := r.leases[name]
	r.dropLocked(name)
	r.mu.Unlock()
	if live {
		r.ways.forget(name)
		r.log.Info("an agent has left, or does not renew its registration, and is forgotten", "agent", name, "url", a.URL)
	}
	return live
}

// renew keeps the registration of an agent that was heard of here, whose older one is known if live. It
// returns the agent as it is registered.
func (k *registrations) renew(parent context.Context, a Agent, old Agent, live bool) (Agent, error) {
	same := live && old.Instance == a.Instance && old.URL == a.URL && old.From == a.From && old.Principal == a.Principal && string(old.Server) == string(a.Server)
	k.mu.Lock()
	late, away := k.late[a.Name], time.Now().Before(k.away)
	k.mu.Unlock()
	switch {
	case same && !late && k.shared && time.Until(old.Until) >= k.r.o.Lease*2/3:
		return old, nil
	case same && !late && !k.shared:
		a.Since, a.rev = old.Since, old.rev
		return a, nil
	}
	err := error(store.ErrUnavailable)
	if !away {
		ctx, cancel := context.WithTimeout(parent, keepTime)
		defer cancel()
		var kept store.Doc
		kept, err = store.Change(ctx, k.docs, keyOf(a.Name), func(doc store.Doc) ([]byte, time.Duration, error) {
			before, ok := agentOf(doc)
			switch {
			case doc.Rev != 0 && !ok:
				return nil, 0, errUnreadable
			case ok && before.usable() && time.Now().Before(before.Until):
				if err := conflict(before, a); err != nil {
					return nil, 0, err
				}
				if before.Instance == a.Instance {
					a.Since = before.Since
				}
			}
			a.Until = time.Now().Add(k.r.o.Lease)
			return k.encode(a)
		})
		a.rev = kept.Rev
		if errors.Is(err, context.DeadlineExceeded) {
			err = store.ErrUnavailable
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		delete(k.late, a.Name)
		return a, nil
	case errors.Is(err, errTaken):
		return a, err
	}
	if parent.Err() != nil {
		return a, parent.Err() // its caller is gone, which says nothing of the store
	}
	if !away {
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull) {
			k.away = time.Now().Add(keepWait) // other agents do not wait as well
		}
		k.r.log.Warn("the registration of an agent could not be kept; it is tried again", "agent", a.Name, "err", err)
	}
	if k.shared && !same {
		return a, mcp.Errorf(mcp.KindStoreUnavailable, "the agent %q cannot be registered at all gateways now; try again: %w", a.Name, err)
	}
	k.late[a.Name] = true
	if same {
		a.Since = old.Since
	}
	a.Until, a.rev = time.Now().Add(k.r.o.Lease), old.rev
	return a, nil
}

// leave removes the document of an agent. If the store does not take that, it ends with its lease, or is
// removed later.
func (k *registrations) leave(principal, name, instance string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	_, err := store.Change(ctx, k.docs, keyOf(name), func(doc store.Doc) ([]byte, time.Duration, error) {
		if a, ok := agentOf(doc); !ok || a.Principal != principal || a.Instance != instance {
			return nil, 0, store.ErrKeep
		}
		return nil, 0, nil
	})
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.late, name)
	if err != nil {
		if !k.shared {
			k.late[name] = true
		}
		k.r.log.Warn("the registration of an agent that has left could not be removed from the store", "agent", name, "err", err)
	}
}

// ended notes that the lease of an agent has run out, whose document ends with it at other nodes.
func (k *registrations) ended(name string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.late, name)
	if !k.shared {
		k.late[name] = true
	}
}

// grace is how much longer than its lease an agent stays whose document should have ended.
func (k *registrations) grace() time.Duration {
	if k.shared {
		return k.r.o.Lease
	}
	return 0
}

// sweep brings the documents of a store of this process to the state of the Registry.
func (k *registrations) sweep() {
	k.mu.Lock()
	var names []string
	if !k.shared && !time.Now().Before(k.away) {
		for name := range k.late {
			names = append(names, name)
		}
	}
	k.mu.Unlock()
	for _, name := range names {
		k.mu.Lock()
		delete(k.late, name) // before the write: a later change that fails makes it late again
		k.mu.Unlock()
		if k.put(name) != nil {
			k.mu.Lock()
			k.late[name], k.away = true, time.Now().Add(keepWait)
			k.mu.Unlock()
			return
		}
	}
}

// put writes the document of a name as the Registry has it.
func (k *registrations) put(name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	_, err := store.Change(ctx, k.docs, keyOf(name), func(doc store.Doc) ([]byte, time.Duration, error) {
		k.r.mu.Lock()
		a, there := k.r.leases[name]
		k.r.mu.Unlock()
		if !there {
			return nil, 0, nil
		}
		return k.encode(a)
	})
	return err
}
