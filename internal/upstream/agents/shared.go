package agents

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

// sharer shares the agents that have registered themselves among the nodes of a cluster, in a document for
// each, which ends with its lease:
//
//	heartbeat ─▶ less than 2/3 of the lease is left, or the agent has changed ─▶ compare-and-set of a.HASH
//	a.HASH ─ Follow ─▶ pending ─ apply ─▶ Registry.leases at each node
//
// While the store does not answer, agents that are known go on with their leases at the node that hears them,
// and new ones are refused.
type sharer struct {
	r    *Registry
	docs store.Docs
	stop func() // of Follow
	wake chan struct{}

	mu      sync.Mutex // guards below
	pending map[string]store.Doc
	late    map[string]bool // names whose lease only this node has prolonged
	away    time.Time       // until then the store is not asked
}

// ShareLease is the shortest lease of agents that nodes share.
const ShareLease = time.Minute

// shared is the document of an agent that nodes share.
type shared struct {
	record
	Until int64 `json:"until"` // Unix time in ms
}

// errUnreadable says that a later version has written a document.
var errUnreadable = errors.New("registry: a document is of a later version")

// Share shares the agents with the other nodes of a cluster: it takes up those that have registered there,
// and follows them until Close. While the store does not answer, agents of other nodes are not known, and none can
// register here. It is called before the Registry is used, in place of Options.Kept.
func (r *Registry) Share(docs store.Docs) error {
	s := &sharer{r: r, docs: docs, wake: make(chan struct{}, 1), pending: map[string]store.Doc{}, late: map[string]bool{}}
	stop, _, err := store.FollowLater(docs, keepPrefix, s.follow)
	if err != nil {
		return fmt.Errorf("follow the agents of other gateways: %w", err)
	}
	s.stop, r.sharer = stop, s
	s.apply()
	return nil
}

// Close ends following the agents of other nodes.
func (r *Registry) Close() {
	if r.sharer != nil {
		r.sharer.stop()
	}
}

// changes reports agents that other nodes have changed; nil without others.
func (s *sharer) changes() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.wake
}

func (s *sharer) follow(d store.Doc) {
	s.mu.Lock()
	s.pending[d.Key] = d
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// apply brings the Registry to the state of the documents, and reports whether an agent came, went
// or moved.
func (s *sharer) apply() (changed bool) {
	s.mu.Lock()
	pending := s.pending
	s.pending = map[string]store.Doc{}
	s.mu.Unlock()
	r := s.r
	names := sync.OnceValue(r.namesByKey) // registrations and heartbeats need none
	for key, doc := range pending {
		if a, ok := agentOf(doc); ok {
			changed = r.adopt(a) || changed
			continue
		}
		if doc.Rev != 0 {
			continue
		}
		name := names()[key]
		s.mu.Lock()
		late := s.late[name]
		s.mu.Unlock()
		if name != "" && !late { // else this node writes it again
			changed = r.drop(name) || changed
		}
	}
	return changed
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

// agentOf returns the agent of a document.
func agentOf(doc store.Doc) (Agent, bool) {
	var f shared
	if doc.Rev == 0 || json.Unmarshal(doc.Value, &f) != nil || f.V != recordVersion || keyOf(f.Name) != doc.Key {
		return Agent{}, false
	}
	if _, err := config.NewServer(f.Name, f.URL); err != nil {
		return Agent{}, false
	}
	return Agent{
		Name: f.Name, URL: f.URL, Source: FromRegistration, Principal: f.Principal, Server: f.Server,
		Since: f.Since, Until: time.UnixMilli(f.Until), Instance: f.Instance, From: f.From, rev: doc.Rev,
	}, true
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
func (s *sharer) renew(parent context.Context, a Agent, old Agent, live bool) (Agent, error) {
	same := live && old.Instance == a.Instance && old.URL == a.URL && old.From == a.From && old.Principal == a.Principal && string(old.Server) == string(a.Server)
	s.mu.Lock()
	late, away := s.late[a.Name], time.Now().Before(s.away)
	s.mu.Unlock()
	if same && !late && time.Until(old.Until) >= s.r.o.Lease*2/3 {
		return old, nil
	}
	err := store.ErrUnavailable
	if !away {
		ctx, cancel := context.WithTimeout(parent, keepTime)
		defer cancel()
		var kept store.Doc
		kept, err = store.Change(ctx, s.docs, keyOf(a.Name), func(doc store.Doc) ([]byte, time.Duration, error) {
			if before, ok := agentOf(doc); ok && time.Now().Before(before.Until) {
				if err := conflict(before, a); err != nil {
					return nil, 0, err
				}
				if before.Instance == a.Instance {
					a.Since = before.Since
				}
			} else if doc.Rev != 0 && !ok {
				return nil, 0, errUnreadable
			}
			a.Until = time.Now().Add(s.r.o.Lease)
			value, err := json.Marshal(shared{record{recordVersion, a.Name, a.URL, a.Principal, a.Server, a.Since, a.Instance, a.From}, a.Until.UnixMilli()})
			return value, s.r.o.Lease, err
		})
		a.rev = kept.Rev
		if errors.Is(err, context.DeadlineExceeded) {
			err = store.ErrUnavailable
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case err == nil:
		delete(s.late, a.Name)
		return a, nil
	case errors.Is(err, errTaken):
		return a, err
	}
	if parent.Err() != nil {
		return a, parent.Err() // its caller is gone, which says nothing of the store
	}
	if !away {
		if errors.Is(err, store.ErrUnavailable) || errors.Is(err, store.ErrFull) {
			s.away = time.Now().Add(keepWait) // other agents do not wait as well
		}
		s.r.log.Warn("the registration of an agent could not be shared with the other gateways", "agent", a.Name, "err", err)
	}
	if !same {
		return a, mcp.Errorf(mcp.KindStoreUnavailable, "the agent %q cannot be registered at all gateways now; try again: %w", a.Name, err)
	}
	s.late[a.Name] = true
	a.Since, a.Until, a.rev = old.Since, time.Now().Add(s.r.o.Lease), old.rev
	return a, nil
}

// leave removes the document of an agent. If the store does not take that, it ends with its lease.
func (s *sharer) leave(principal, name, instance string) {
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	_, err := store.Change(ctx, s.docs, keyOf(name), func(doc store.Doc) ([]byte, time.Duration, error) {
		if a, ok := agentOf(doc); !ok || a.Principal != principal || a.Instance != instance {
			return nil, 0, store.ErrKeep
		}
		return nil, 0, nil
	})
	s.mu.Lock()
	delete(s.late, name)
	s.mu.Unlock()
	if err != nil {
		s.r.log.Warn("the other gateways were not told that an agent has left; its registration ends with its lease", "agent", name, "err", err)
	}
}

// grace is how much longer than its lease an agent stays whose document should have ended.
func (s *sharer) grace() time.Duration {
	if s == nil {
		return 0
	}
	return s.r.o.Lease
}

// expired forgets that this node has prolonged a lease.
func (s *sharer) expired(name string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.late, name)
}
