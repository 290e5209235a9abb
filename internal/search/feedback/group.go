package feedback

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/store"
)

// keyOf returns the key of the group that learns from the caller of a request. A caller with groups
// that the issuer did not write down learns for itself.
func keyOf(ctx context.Context) string {
	id := identity.From(ctx)
	holder := strconv.AppendQuote(make([]byte, 0, 256), identity.RouteOf(ctx).Profile)
	if len(id.Groups) == 0 || id.GroupsMissing {
		holder = strconv.AppendQuote(append(holder, " principal "...), id.Principal)
	} else {
		holder = strconv.AppendQuote(append(holder, " groups "...), id.Issuer)
		for _, name := range id.Groups { // they are sorted
			holder = strconv.AppendQuote(append(holder, ' '), name)
		}
	}
	return store.FeedbackKeys + store.Hash(string(holder))
}

// group is what callers learn together.
//
//	learn ─▶ fresh ─▶ sending ─▶ document ─▶ all, with what is fresh since
type group struct {
	key string

	io sync.Mutex // held during requests to the store; locked before mu

	mu     sync.Mutex // guards below
	all    counts     // of the document, as it was read last, with sending and fresh
	fresh  counts     // learnt here since the last write
	mark   uint64     // of sending in the document; 0: nothing is being sent
	sent   counts     // what may be in the document already
	loaded bool
	read   time.Time // when the document was read, or could not be read
}

// learn counts a run after a search with words.
func (g *group) learn(words []uint64, tool uint64, day int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, c := range []*counts{&g.all, &g.fresh} {
		c.age(day)
		for _, word := range words {
			c.add(pair{word, tool}, 1)
		}
		c.bound()
	}
}

// load reads the document if it was not read before.
func (g *group) load(ctx context.Context, docs store.Docs, now time.Time) {
	g.mu.Lock()
	loaded := g.loaded
	g.mu.Unlock()
	if loaded {
		return
	}
	g.io.Lock()
	defer g.io.Unlock()
	g.mu.Lock()
	loaded = g.loaded
	g.mu.Unlock()
	if !loaded {
		// Others wait for it as well, so the end of this request does not end it.
		timed, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadWait)
		defer cancel()
		_ = g.reload(timed, docs, now) // a search goes on without it, and it is read again later
	}
}

// sync writes what is fresh, or else reads the document again.
func (g *group) sync(ctx context.Context, docs store.Docs, now time.Time) error {
	g.io.Lock()
	defer g.io.Unlock()
	g.mu.Lock()
	if g.mark == 0 && g.fresh.n > 0 {
		g.mark, g.sent, g.fresh = cmp.Or(rand.Uint64(), 1), g.fresh, counts{}
	}
	mark, sent := g.mark, g.sent // which does not change while there is a mark
	g.mu.Unlock()
	if mark == 0 {
		return g.reload(ctx, docs, now)
	}
	doc, err := store.Change(ctx, docs, g.key, func(doc store.Doc) ([]byte, time.Duration, error) {
		r := recordOf(doc, dayOf(now))
		if slices.Contains(r.marks, mark) {
			return nil, 0, store.ErrKeep
		}
		r.merge(sent)
		r.bound()
		r.mark(mark)
		return r.encode(), keepFor, nil
	})
	if err != nil {
		return err
	}
	g.mu.Lock()
	g.mark, g.sent = 0, counts{}
	g.mu.Unlock()
	g.take(doc, now)
	return nil
}

// recordOf returns the record of a document as of a day. One of another form, or of a day that has not come yet, has
// no counts.
func recordOf(doc store.Doc, day int64) record {
	r, err := decode(doc.Value)
	if err != nil || r.day > day+1 {
		r = record{}
	}
	r.age(day)
	return r
}

// reload reads the document. The caller holds io.
func (g *group) reload(ctx context.Context, docs store.Docs, now time.Time) error {
	doc, err := docs.Get(ctx, g.key)
	if err != nil {
		g.mu.Lock()
		g.loaded, g.read = true, now
		g.mu.Unlock()
		return err
	}
	g.take(doc, now)
	return nil
}

// take replaces what the document had. The caller holds io.
func (g *group) take(doc store.Doc, now time.Time) {
	r := recordOf(doc, dayOf(now))
	g.mu.Lock()
	defer g.mu.Unlock()
	g.loaded, g.read = true, now
	g.all = r.counts
	if !slices.Contains(r.marks, g.mark) {
		g.all.merge(g.sent)
	}
	g.all.merge(g.fresh)
	g.all.bound()
}

// unwritten reports whether there are counts that the document may not have.
func (g *group) unwritten() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.mark != 0 || g.fresh.n > 0
}

// stale reports whether other nodes may have changed the document since it was read.
func (g *group) stale(now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.loaded && now.Sub(g.read) >= rereadAfter
}
