package listings

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/config"
	"github.com/weir-mcp/weir/internal/config/mcpserver"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
)

const (
	// listingTTL is how long a listing fills the catalog of a later process; listingAgain is when a
	// running one writes it again.
	listingTTL   = 24 * time.Hour
	listingAgain = 8 * time.Hour
	// listingWait is how long entries of an earlier process stay if their server does not come up, as
	// the entries of a server that is down do.
	listingWait = 5 * time.Minute
	// maxFirsts bounds the servers whose first definitions are kept.
	maxFirsts = 1024
	// maxListing bounds a listing after it is read from the store.
	maxListing = 64 << 20
)

// Listings keeps the lists of servers, so that the catalog of the next process is filled at once, and the first list
// of each server, with which later definitions are compared. All nodes have the same documents; see listingStore. It
// is safe for concurrent use.
//
//	upstream.Manager ─▶ Listings ─▶ lockfile.Keeper ─▶ catalog.Live
//	                      ▲  └─▶ l.HASH, 24 hours; f.HASH
//	                     Fill: lists that an earlier process had, unless the server has another configuration
type Listings struct {
	needs  Needs
	shared *listingStore
	recent recentChanges // of definitions

	writer *docWriter
	over   atomic.Bool // the gateway ends: what servers say while they end is not kept
	full   atomic.Bool // every server had a listing of an earlier process
	end    context.CancelFunc
	run    sync.WaitGroup
	filled map[string]bool // set by Fill; removed by tidy if they do not come up

	filling sync.Mutex // held while a listing of an earlier process is handed on; guards listed
	listed  map[string]bool

	mu     sync.Mutex // guards below
	firsts map[string]bool
}

var _ upstream.Sink = (*Listings)(nil)

// Needs are the things that Listings stand on. The functions are called after New has returned, except Restore,
// Config and Limits.
type Needs struct {
	Log    *slog.Logger
	Config func() *config.Config // the current one
	Docs   store.Docs
	Key    []byte // for fingerprints of configurations

	Servers func() *upstream.Manager
	// Next gets every listing.
	Next func() upstream.Sink
	// Remote reports whether a server is at another node, which writes its listings.
	Remote func(*config.Server) bool
	// Restore makes definitions the first ones of their servers.
	Restore func(map[string]*catalog.Catalog)
	// Conceal returns a listing without secrets.
	Conceal func(primitive.Listing) primitive.Listing
	// Limits returns the limits on lists of a configuration.
	Limits func(*config.Config) catalog.Limits
	// Unshared is called for each document that is too large for the store.
	Unshared func()
}

// restoreTimeout bounds how long it takes to read the first definitions at the start.
const restoreTimeout = 30 * time.Second

// New returns the listings of a gateway, with the first definitions that the store has.
func New(n Needs) (*Listings, error) {
	k := &Listings{
		needs: n, writer: newWriter(n.Docs, n.Log), end: func() {},
		listed: map[string]bool{}, filled: map[string]bool{}, firsts: map[string]bool{},
	}
	k.shared = newListingStore(k)
	k.writer.large = n.Unshared
	ctx, cancel := context.WithTimeout(context.Background(), restoreTimeout)
	defer cancel()
	if err := k.recent.restore(ctx, n.Docs); err != nil && !errors.Is(err, store.ErrUnavailable) {
		return nil, err
	}
	first := map[string]*catalog.Catalog{}
	for doc, err := range n.Docs.List(ctx, store.FirstKeys) {
		if errors.Is(err, store.ErrUnavailable) {
			break // each is read when its server has listed
		}
		if err != nil {
			return nil, err
		}
		l, _, err := decodeListing(doc.Value)
		if err != nil {
			n.Log.Warn("the first definitions of a server cannot be read, so its current ones count as the first", "key", doc.Key, "err", err)
			continue
		}
		k.firsts[l.Upstream] = true
		first[l.Upstream] = k.catalogOf(l)
	}
	n.Restore(first)
	return k, nil
}

// catalogOf returns a catalog of one listing.
func (k *Listings) catalogOf(l primitive.Listing) *catalog.Catalog {
	c, _ := catalog.New(k.needs.Limits(k.needs.Config())).With(l)
	return c
}

// fingerprint returns a hash of the configuration of a server; for a server on another node, of the configuration that
// all nodes share.
func (k *Listings) fingerprint(s *config.Server) string {
	if s.Scope == mcpserver.ScopeCluster {
		if configured, ok := k.needs.Config().Server(s.Name); ok {
			s = configured
		}
	}
	return s.Fingerprint(k.needs.Key)
}

// keptListing is the document of a listing, before it is compressed. Equal listings have equal documents.
type keptListing struct {
	V      int    `json:"v"`
	Config string `json:"config,omitempty"` // fingerprint of the server's configuration

	Upstream, Namespace, Title, About, Instructions string
	Found                                           bool `json:",omitempty"`
	Tags                                            []string
	Folders                                         []string        `json:",omitempty"`
	ServerInfo                                      json.RawMessage `json:",omitempty"`
	Greeting                                        string          `json:",omitempty"`
	Tools, Resources, ResourceTemplates, Prompts    []json.RawMessage
	Cut                                             []string `json:",omitempty"`
}

// encodeListing returns the document of a listing; it copies the definitions.
func encodeListing(l primitive.Listing, fingerprint string) ([]byte, error) {
	return json.Marshal(keptListing{
		V: 1, Config: fingerprint, Upstream: l.Upstream, Namespace: l.Namespace, Title: l.Title, About: l.About, Instructions: l.Instructions,
		Found: l.Found, Tags: l.Tags, Folders: l.Folders, ServerInfo: l.Greeting.ServerInfo, Greeting: l.Greeting.Instructions,
		Tools: l.Tools, Resources: l.Resources, ResourceTemplates: l.ResourceTemplates, Prompts: l.Prompts, Cut: l.Cut,
	})
}

func decodeListing(data []byte) (l primitive.Listing, fingerprint string, err error) {
	text, err := unzip(data)
	if err != nil {
		return l, "", err
	}
	var k keptListing
	if json.Unmarshal(text, &k) != nil || k.V != 1 || k.Upstream == "" {
		return l, "", errors.New("it is of another version")
	}
	return primitive.Listing{
		Upstream: k.Upstream, Namespace: k.Namespace, Title: k.Title, About: k.About, Instructions: k.Instructions, Found: k.Found, Tags: k.Tags, Folders: k.Folders,
		Greeting: primitive.Greeting{ServerInfo: k.ServerInfo, Instructions: k.Greeting},
		Tools:    k.Tools, Resources: k.Resources, ResourceTemplates: k.ResourceTemplates, Prompts: k.Prompts, Cut: k.Cut,
	}, k.Config, nil
}

// Update implements upstream.Sink.
func (k *Listings) Update(l primitive.Listing) {
	k.filling.Lock()
	k.listed[l.Upstream] = true
	k.filling.Unlock()
	k.shared.settle(l)
	k.needs.Next().Update(l)
	u, ok := k.needs.Servers().Upstream(l.Upstream)
	if !ok || k.over.Load() || k.needs.Servers().Attached(l.Upstream) {
		return // a Computer lists when it joins
	}
	if k.needs.Remote(u.Config()) {
		return // the node of the server writes
	}
	// What is kept has no more than what is shown.
	if doc, err := encodeListing(k.needs.Conceal(l), k.fingerprint(u.Config())); err == nil {
		k.shared.keep(l.Upstream, doc)
	}
}

// Remove implements upstream.Sink.
func (k *Listings) Remove(upstream string) { k.needs.Next().Remove(upstream) }

// Fill hands on what an earlier process knew of the servers that are starting.
func (k *Listings) Fill() {
	get := k.shared.boot()
	defer k.shared.booted()
	all := true
	k.needs.Servers().Each(func(s *config.Server, u *upstream.Upstream) {
		if u == nil || s.ListsPerCaller() || k.needs.Servers().Attached(s.Name) {
			return
		}
		doc := get(store.ListingKeys + store.Hash(s.Name))
		if doc.Rev == 0 {
			all = false
			return
		}
		l, fingerprint, err := decodeListing(doc.Value)
		if err != nil || l.Upstream != s.Name || fingerprint != k.fingerprint(s) {
			all = false
			return
		}
		l.Order = upstream.OrderOf(u)
		k.filling.Lock()
		defer k.filling.Unlock()
		if !k.listed[s.Name] {
			k.filled[s.Name] = true
			k.shared.settle(l)
			k.needs.Next().Update(l)
		}
	})
	k.full.Store(all && len(k.filled) > 0)
}

// Start follows up on the listings that Fill has handed on.
func (k *Listings) Start() {
	ctx, cancel := context.WithCancel(context.Background())
	k.end = cancel
	k.run.Go(func() { k.writer.run(ctx) })
	k.run.Go(func() { k.shared.run(ctx) })
	k.run.Go(func() {
		select {
		case <-time.After(listingWait):
			k.tidy()
		case <-ctx.Done():
			return
		}
		again := time.NewTicker(listingAgain)
		defer again.Stop()
		for renewed := map[string]uint64{}; ; {
			select {
			case <-again.C:
				k.again(ctx, renewed)
				k.shared.prune()
			case <-ctx.Done():
				return
			}
		}
	})
}

// tidy removes the entries of servers that have not come up.
func (k *Listings) tidy() {
	k.filling.Lock()
	defer k.filling.Unlock()
	for name := range k.filled {
		if !k.listed[name] {
			k.needs.Log.Warn("its entries of before the restart are removed: it was unavailable for too long", "upstream", name, "grace", listingWait)
			k.needs.Next().Remove(name)
		}
	}
}

// again writes the listings of servers that are there, so that they do not expire, and the first definitions of configured servers. revs are the revisions of before: another node may have written since.
func (k *Listings) again(ctx context.Context, revs map[string]uint64) {
	renew := func(key string, ttl time.Duration) {
		doc, err := k.needs.Docs.Get(ctx, key)
		if err != nil || doc.Rev == 0 {
			return
		}
		if before, known := revs[key]; !known || before == doc.Rev {
			if rev, err := k.needs.Docs.Set(ctx, key, doc.Value, doc.Rev, ttl); err == nil {
				doc.Rev = rev
			}
		}
		revs[key] = doc.Rev
	}
	for _, name := range k.needs.Servers().Names() {
		renew(store.ListingKeys+store.Hash(name), listingTTL)
		if _, configured := k.needs.Config().Server(name); configured {
			renew(store.FirstKeys+store.Hash(name), firstTTL)
		}
	}
}

// Full reports whether every server had a listing of an earlier process.
func (k *Listings) Full() bool { return k.full.Load() }

// Since returns the changes of definitions that weir has seen after a time.
func (k *Listings) Since(t time.Time) []TimedChange { return k.recent.since(t) }

// Ending says that the gateway is about to end its servers.
func (k *Listings) Ending() { k.over.Store(true) }

// Close writes what is still to be written.
func (k *Listings) Close() {
	k.end()
	k.run.Wait()
	k.shared.close()
}

// Changed keeps the changes of definitions.
func (k *Listings) Changed(changes []catalog.Change) {
	if k.over.Load() || len(changes) == 0 {
		return
	}
	recent := k.recent.add(changes, time.Now())
	if doc, err := json.Marshal(recent); err == nil {
		k.writer.write(recentKey, doc, 0)
	}
}

// recentKey is the document of the last changes. All nodes see the same ones, so the last node that writes is right.
const recentKey = store.ChangeKeys + "recent"

// TimedChange is a change of a definition, and when weir saw it.
type TimedChange struct {
	Time time.Time `json:"time"`
	catalog.Change
}

// recentChanges are the last changes of definitions.
type recentChanges struct {
	mu  sync.Mutex // guards below
	all []TimedChange
}

// maxRecent bounds the changes that are remembered.
const maxRecent = 500

// add appends changes, and returns all.
func (r *recentChanges) add(changes []catalog.Change, now time.Time) []TimedChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range changes {
		r.all = append(r.all, TimedChange{now.UTC(), c})
	}
	if over := len(r.all) - maxRecent; over > 0 {
		r.all = slices.Delete(r.all, 0, over)
	}
	return slices.Clone(r.all)
}

// since returns the changes after a time.
func (r *recentChanges) since(t time.Time) []TimedChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := []TimedChange{}
	for _, c := range r.all {
		if c.Time.After(t) {
			out = append(out, c)
		}
	}
	return out
}

// restore reads the changes of earlier processes.
func (r *recentChanges) restore(ctx context.Context, docs store.Docs) error {
	doc, err := docs.Get(ctx, recentKey)
	if err != nil || doc.Rev == 0 {
		return err
	}
	text, err := unzip(doc.Value)
	if err == nil {
		_ = json.Unmarshal(text, &r.all) // changes of another version are forgotten
	}
	return nil
}

func unzip(data []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(r, maxListing+1))
	if err == nil && len(text) > maxListing {
		err = errors.New("it is too long")
	}
	return text, err
}
