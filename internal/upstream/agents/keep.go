package agents

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/store"
)

// keeper keeps the agents that have registered themselves over a restart of the router, in a document
// for each. A heartbeat that changes nothing writes nothing. Agents can register while the store does
// not answer: their documents are written later.
type keeper struct {
	r    *Registry
	docs store.Docs

	mu   sync.Mutex // guards below; held while the store is asked, and taken before Registry.mu
	kept map[string]*document
	late map[string]bool // names whose documents are to be written again
	away time.Time       // until then the store is not asked
}

// document is the document of an agent's name.
type document struct {
	doc   *store.Sole
	value []byte // as it was written
}

const (
	// keepPrefix is the prefix of the keys of the documents.
	keepPrefix = "a."
	keepTime   = 2 * time.Second // bounds one request to the store
	keepWait   = 2 * time.Second // when a store that did not answer is asked again
)

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
}

const recordVersion = 1

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
func (r *Registry) restore(from *Kept) {
	if from == nil {
		return
	}
	k := &keeper{r: r, docs: from.docs, kept: map[string]*document{}, late: map[string]bool{}}
	r.keeper = k
	now := time.Now()
	for _, doc := range from.found {
		var f record
		if json.Unmarshal(doc.Value, &f) != nil || f.V != recordVersion || keyOf(f.Name) != doc.Key {
			continue // of a later version
		}
		k.kept[f.Name] = &document{store.NewSole(from.docs, doc.Key, doc.Rev), doc.Value}
		_, wrong := config.NewServer(f.Name, f.URL)
		if wrong != nil || len(r.leases) >= r.o.Max || !r.o.May(f.Principal, f.Name) || r.o.Owner(f.Name) != "" {
			k.late[f.Name] = true // the first sweep removes it
			continue
		}
		r.putLocked(Agent{
			Name: f.Name, URL: f.URL, Source: FromRegistration, Principal: f.Principal, Server: f.Server,
			Since: f.Since, Until: now.Add(r.o.Lease), Instance: f.Instance, From: f.From,
		})
	}
}

func keyOf(name string) string { return keepPrefix + store.Hash(name) }

// sync brings the document of a name to the state of the Registry. k may be nil.
func (k *keeper) sync(name string) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.syncLocked(name)
}

func (k *keeper) syncLocked(name string) {
	k.r.mu.Lock()
	a, there := k.r.leases[name]
	k.r.mu.Unlock()
	d := k.kept[name]
	if !there && d == nil {
		delete(k.late, name)
		return
	}
	var value []byte
	if there {
		var err error
		if value, err = json.Marshal(record{recordVersion, a.Name, a.URL, a.Principal, a.Server, a.Since, a.Instance, a.From}); err != nil {
			return // cannot happen: Server is JSON
		}
		if d != nil && bytes.Equal(value, d.value) {
			return
		}
	}
	k.late[name] = true
	if time.Now().Before(k.away) {
		return
	}
	if d == nil {
		d = &document{doc: store.NewSole(k.docs, keyOf(name), 0)}
		k.kept[name] = d
	}
	ctx, cancel := context.WithTimeout(context.Background(), keepTime)
	defer cancel()
	var err error
	if d.value = nil; there {
		err = d.doc.Write(ctx, value, 0)
	} else {
		err = d.doc.Remove(ctx)
	}
	switch {
	case err != nil:
		k.away = time.Now().Add(keepWait)
		k.r.log.Warn("the registration of an agent could not be kept for a restart; it is tried again", "agent", name, "err", err)
		return
	case there:
		d.value = value
	default:
		delete(k.kept, name)
	}
	delete(k.late, name)
}

// sweep writes the documents that could not be written before. k may be nil.
func (k *keeper) sweep() {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.late {
		k.syncLocked(name)
	}
}
