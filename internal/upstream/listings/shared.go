package listings

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/catalog/primitive"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/internal/upstream"
)

const (
	// firstTTL is how long first definitions stay of a server that no node has in its configuration any more.
	firstTTL = 90 * 24 * time.Hour
	// firstWait bounds how long the first listing of a server waits for the store.
	firstWait = 2 * time.Second
	// relistSpread is the time within which the nodes list again what another node has listed differently.
	relistSpread = time.Second
	// A server that lists differently to each node would be listed for ever. So the wait after such a listing starts
	// with relistPause, doubles up to relistLongest, and starts again after twice that without one.
	relistPause   = 2 * time.Second
	relistLongest = 10 * time.Minute
	// followRetry is the time between two attempts to follow the listings of other nodes, and to write first
	// definitions that the store has not taken.
	followRetry = 30 * time.Second
	// maxFollowed bounds the documents of other nodes that are known here.
	maxFollowed = 4096
)

// listingStore has the listings that the nodes have in common:
//
//	Update ─▶ settle: f.HASH, written by the first node ─▶ judgement and catalog
//	   └─▶ keep: l.HASH ─▶ see, at the other nodes ─▶ another hash ─▶ upstream.Relist
//
// A document l.HASH starts with the hash of its content, so a node reads the content only at its own start. Lists of
// single principals are in no document.
type listingStore struct {
	k    *Listings
	wake chan struct{} // capacity 1: a listing is due

	mu    sync.Mutex                   // guards below
	stop  func()                       // ends the Follow; nil before its start
	start map[string]store.Doc         // what other nodes have listed; nil after the start
	there map[string]string            // hashes of the documents, by key
	mine  map[string]*nodeListing      // what this node has listed, by key
	late  map[string]primitive.Listing // first definitions that the store has not taken, by server
}

// nodeListing is the last listing of a server at this node.
type nodeListing struct {
	server string
	hash   string
	due    time.Time     // when it is listed again; zero: it need not be
	last   time.Time     // when that was last
	pause  time.Duration // after last
}

func newListingStore(k *Listings) *listingStore {
	return &listingStore{
		k: k, wake: make(chan struct{}, 1), start: map[string]store.Doc{}, there: map[string]string{}, mine: map[string]*nodeListing{}, late: map[string]primitive.Listing{},
	}
}

// boot starts to follow the documents, and returns a function that reads one of them. The caller calls booted after its last read.
func (n *listingStore) boot() func(key string) store.Doc {
	n.follow()
	return func(key string) store.Doc {
		n.mu.Lock()
		defer n.mu.Unlock()
		return n.start[key]
	}
}

func (n *listingStore) booted() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.start = nil
}

// follow starts to follow the documents, unless it has done so.
func (n *listingStore) follow() {
	n.mu.Lock()
	begun := n.stop != nil
	n.mu.Unlock()
	if begun {
		return
	}
	stop, err := n.k.needs.Docs.Follow(store.ListingKeys, n.see)
	if err != nil {
		n.k.needs.Log.Warn("what other nodes list is not known; weir tries again", "err", err)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.stop = stop
}

// see takes a document of another node, or of this one.
func (n *listingStore) see(doc store.Doc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if doc.Rev == 0 || doc.Value == nil {
		delete(n.there, doc.Key)
		return
	}
	if n.start != nil {
		n.start[doc.Key] = doc
	}
	hash := labelOf(doc.Value)
	if _, known := n.there[doc.Key]; known || len(n.there) < maxFollowed {
		n.there[doc.Key] = hash
	}
	if m := n.mine[doc.Key]; m != nil && m.hash != hash && m.due.IsZero() {
		m.due = m.next(time.Now().Add(rand.N(relistSpread)))
		n.nudge()
	}
}

// next returns when the server may be listed again, at a time or later.
func (m *nodeListing) next(at time.Time) time.Time {
	if next := m.last.Add(m.pause); at.Before(next) {
		return next
	}
	return at
}

func (n *listingStore) nudge() {
	select {
	case n.wake <- struct{}{}:
	default:
	}
}

// keep writes what this node has listed, unless another node has written the same.
func (n *listingStore) keep(server string, text []byte) {
	sum := sha256.Sum256(text)
	hash, key := hex.EncodeToString(sum[:16]), store.ListingKeys+store.Hash(server)
	n.mu.Lock()
	m := n.mine[key]
	if m == nil {
		m = &nodeListing{server: server}
		n.mine[key] = m
	}
	m.hash = hash
	same := n.there[key] == hash
	if same {
		m.due = time.Time{}
	}
	n.mu.Unlock()
	if same {
		n.k.writer.drop(key)
		return
	}
	n.k.writer.draft(key, draft{text, listingTTL, hash})
}

// settle makes sure that the first definitions of a server are those that a node of the cluster saw first.
func (n *listingStore) settle(l primitive.Listing) {
	k := n.k
	k.mu.Lock()
	known := k.firsts[l.Upstream] || len(k.firsts) >= maxFirsts
	k.mu.Unlock()
	if known || k.over.Load() || k.needs.Servers().Attached(l.Upstream) {
		return
	}
	n.mu.Lock()
	first, late := n.late[l.Upstream]
	n.mu.Unlock()
	if !late { // else the store has not taken what the server listed before
		first = k.needs.Conceal(l)
	}
	err := n.write(first)
	if err != nil {
		k.needs.Log.Warn("the first definitions of a server are those of this node until the store answers", "upstream", l.Upstream, "err", err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil {
		delete(n.late, l.Upstream)
	} else if _, there := n.late[l.Upstream]; !there && len(n.late) < maxFirsts {
		n.late[l.Upstream] = first
	}
}

// write writes the first definitions of a server, or takes the definitions of another node.
func (n *listingStore) write(l primitive.Listing) error {
	ctx, cancel := context.WithTimeout(context.Background(), firstWait)
	defer cancel()
	first, err := n.first(ctx, l.Upstream)
	if err != nil {
		return err
	}
	if first == nil {
		if err := n.create(ctx, l); err != nil && !errors.Is(err, store.ErrConflict) {
			return err
		} else if err != nil {
			if first, err = n.first(ctx, l.Upstream); err != nil {
				return err
			}
		}
	}
	if first != nil {
		n.k.needs.Restore(map[string]*catalog.Catalog{l.Upstream: n.k.catalogOf(*first)})
	}
	n.k.mu.Lock()
	defer n.k.mu.Unlock()
	n.k.firsts[l.Upstream] = true
	return nil
}

// create writes the first definitions of a server. The error is store.ErrConflict if they are there.
func (n *listingStore) create(ctx context.Context, l primitive.Listing) error {
	text, err := encodeListing(l, "")
	if err != nil {
		return err
	}
	value, err := zip(text, "")
	if err != nil {
		return err
	}
	if len(value) > store.MaxValue {
		n.k.writer.large()
		return nil
	}
	_, err = n.k.needs.Docs.Set(ctx, store.FirstKeys+store.Hash(l.Upstream), value, 0, firstTTL)
	return err
}

// first returns the definitions of a server that the cluster saw first, nil if there are none.
func (n *listingStore) first(ctx context.Context, server string) (*primitive.Listing, error) {
	doc, err := n.k.needs.Docs.Get(ctx, store.FirstKeys+store.Hash(server))
	if err != nil || doc.Rev == 0 {
		return nil, err
	}
	l, _, err := decodeListing(doc.Value)
	if err != nil || l.Upstream != server {
		n.k.needs.Log.Warn("the first definitions of a server cannot be read, so its current ones count as the first", "key", doc.Key, "err", err)
		return nil, nil
	}
	return &l, nil
}

// First returns the definitions of a server that the cluster saw first, nil if there are none.
func (k *Listings) First(server string) *primitive.Listing {
	if k.needs.Servers().Attached(server) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), firstWait)
	defer cancel()
	l, err := k.shared.first(ctx, server)
	if err != nil {
		k.needs.Log.Warn("weir.lock begins with the definitions of now, because the store does not say what other nodes saw first", "upstream", server, "err", err)
	}
	return l
}

// run lists what is due, and repeats what the store has not taken, until ctx ends.
func (n *listingStore) run(ctx context.Context) {
	retry := time.NewTicker(followRetry)
	defer retry.Stop()
	for {
		next := time.NewTimer(n.relist(time.Now()))
		select {
		case <-next.C:
		case <-n.wake:
		case <-retry.C:
			n.follow()
			n.again()
		case <-ctx.Done():
			next.Stop()
			return
		}
		next.Stop()
	}
}

// relist lists what is due, and returns the time until the next listing is.
func (n *listingStore) relist(now time.Time) time.Duration {
	todo, wait := n.take(now)
	for _, server := range todo {
		u, ok := n.k.needs.Servers().Upstream(server)
		if ok && !n.k.needs.Remote(u.Config()) {
			n.k.needs.Log.Info("listed again, because another node of the cluster has other definitions", "upstream", server)
			upstream.Relist(u)
		}
	}
	return wait
}

// take returns the servers whose listing is due, and the time until the next one is.
func (n *listingStore) take(now time.Time) (todo []string, wait time.Duration) {
	wait = relistLongest
	n.mu.Lock()
	defer n.mu.Unlock()
	for key, m := range n.mine {
		switch {
		case m.due.IsZero():
		case n.there[key] == m.hash:
			m.due = time.Time{}
		case now.Before(m.due):
			wait = min(wait, m.due.Sub(now))
		default:
			if m.pause = min(2*m.pause, relistLongest); m.pause == 0 || now.Sub(m.last) > 2*relistLongest {
				m.pause = relistPause
			}
			m.due, m.last = time.Time{}, now
			todo = append(todo, m.server)
		}
	}
	return todo, wait
}

// again writes the first definitions that the store has not taken.
func (n *listingStore) again() {
	n.mu.Lock()
	late := slices.Collect(maps.Values(n.late))
	n.mu.Unlock()
	for _, l := range late {
		if n.write(l) != nil {
			return // the store is away
		}
		n.mu.Lock()
		delete(n.late, l.Upstream)
		n.mu.Unlock()
	}
}

// prune forgets the listings of servers that are not there any more.
func (n *listingStore) prune() {
	n.mu.Lock()
	defer n.mu.Unlock()
	maps.DeleteFunc(n.mine, func(_ string, m *nodeListing) bool {
		_, there := n.k.needs.Servers().Upstream(m.server)
		return !there
	})
}

func (n *listingStore) close() {
	n.mu.Lock()
	stop := n.stop
	n.mu.Unlock()
	if stop != nil {
		stop()
	}
}
