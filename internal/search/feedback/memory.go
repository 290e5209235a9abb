package feedback

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"maps"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/limit/bounded"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

const (
	// maxGroups bounds the groups in memory, of at most 50 KB each. The store has the others.
	maxGroups = 256
	// maxDue bounds the groups that wait to be written. While the store does not answer, further ones learn
	// in memory only.
	maxDue = 2 * maxGroups
	// writeDelay is how late counts are written.
	writeDelay = 10 * time.Second
	// maxFailures is the number of failures in a row after which the store counts as away, for retryDelay.
	maxFailures = 2
	retryDelay  = 30 * time.Second
	// rereadAfter is the age at which the counts of a group that searches are read again, with those of
	// other nodes.
	rereadAfter = time.Minute
	// loadWait bounds how long the first search of a group waits for its counts.
	loadWait = time.Second
	// writeWait bounds a request to the store.
	writeWait = 5 * time.Second
	// keepFor is how long a group outlasts its last change: two half-lives.
	keepFor = 2 * halfLife * 24 * time.Hour
	// forgetWait bounds the removal of all documents.
	forgetWait = time.Minute
)

// dayOf returns the day of a time since 1970. Counts are halved by whole days, so that equal searches of
// one day have equal scores.
func dayOf(t time.Time) int64 { return t.Unix() / (24 * 60 * 60) }

// Options are the things that a Memory stands on.
type Options struct {
	Docs store.Docs
	// Off is the switch at the start; see Memory.Use.
	Off bool
	// Secret keys the hashes of words and tools. With another one, the counts of before are of no use.
	Secret []byte
	// Log gets the failures of the store; nil discards them.
	Log *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Memory has what callers have run after their searches. A nil Memory learns nothing. It is safe for
// concurrent use. Its goroutine runs while there is something to be written, and Close waits for it.
type Memory struct {
	docs   store.Docs
	secret []byte
	seed   uint64 // of the hashes of tools
	log    *slog.Logger
	now    func() time.Time
	groups *bounded.Map[string, *group]
	ctx    context.Context // of requests in the background; ends with Close
	end    context.CancelFunc
	run    sync.WaitGroup
	off    atomic.Bool

	io sync.Mutex // held while groups are written, or all are removed; locked before mu

	mu     sync.Mutex        // guards below
	due    map[string]*group // to be written, or to be read again
	busy   bool              // the goroutine runs
	closed bool
}

// New returns a Memory. The caller closes it.
func New(o Options) *Memory {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	m := &Memory{docs: o.Docs, secret: o.Secret, log: o.Log, now: o.Now, due: map[string]*group{}}
	m.groups = bounded.New(bounded.Options[string, *group]{MaxCount: maxGroups, KeepUsed: true})
	sum := sha256.Sum256(append([]byte("tools\x00"), o.Secret...))
	m.seed = binary.BigEndian.Uint64(sum[:])
	m.ctx, m.end = context.WithCancel(context.Background())
	m.off.Store(o.Off)
	return m
}

// word returns the hash of a word. The key makes it useless without the store's secret.
func (m *Memory) word(w []byte) uint64 {
	var room [96]byte
	sum := sha256.Sum256(append(append(room[:0], m.secret...), w...))
	return binary.BigEndian.Uint64(sum[:])
}

// tool returns the hash of a tool's id, without its version and its hash: a new version keeps the counts.
// A search makes 64 of them, so it takes eight bytes at a time.
func (m *Memory) tool(id string) uint64 {
	if i := strings.IndexByte(id, '@'); i >= 0 {
		id = id[:i]
	}
	if i := strings.IndexByte(id, '#'); i >= 0 {
		id = id[:i]
	}
	h := m.seed ^ uint64(len(id))
	for ; len(id) >= 8; id = id[8:] {
		h = mix(h, uint64(id[0])|uint64(id[1])<<8|uint64(id[2])<<16|uint64(id[3])<<24|uint64(id[4])<<32|uint64(id[5])<<40|uint64(id[6])<<48|uint64(id[7])<<56)
	}
	rest := uint64(0)
	for i := range len(id) {
		rest = rest<<8 | uint64(id[i])
	}
	return mix(h, rest)
}

// mix adds eight bytes to a hash, as wyhash does.
func mix(h, x uint64) uint64 {
	high, low := bits.Mul64(h^0x9e3779b97f4a7c15, x^0xd6e8feb86659fd93)
	return high ^ low
}

// group returns a group, which may be new.
func (m *Memory) group(key string) *group {
	m.mu.Lock()
	defer m.mu.Unlock()
	g, ok := m.groups.Get(key)
	if ok {
		return g
	}
	if g = m.due[key]; g == nil { // else it was displaced before it was written
		g = &group{key: key}
	}
	m.groups.Put(key, g, 1)
	return g
}

// Search returns the counts for one search of the caller of a request, nil if m is off. It waits for the store if the
// caller's group is not in memory.
func (m *Memory) Search(ctx context.Context) *Search {
	if m == nil || m.off.Load() {
		return nil
	}
	g, now := m.group(keyOf(ctx)), m.now()
	if g.load(ctx, m.docs, now); g.stale(now) {
		m.mark(g)
	}
	return &Search{of: m, group: g, at: now}
}

// Ran says that a session of the caller of a request has run a tool, after a search that found it or
// not. The run counts if succeeded reports true, and once for each search.
func (m *Memory) Ran(ctx context.Context, session *mcp.Session, id string, succeeded func() bool) {
	if m == nil || m.off.Load() {
		return
	}
	t, _ := session.Value(trailKey{m}, nil).(*trail)
	if t == nil {
		return
	}
	key, tool, now := keyOf(ctx), m.tool(id), m.now()
	if !t.has(key, tool, now) || !succeeded() {
		return
	}
	if words := t.take(key, tool, now); words != nil { // else an equal call was faster
		g := m.group(key)
		g.learn(words, tool, dayOf(now))
		m.mark(g)
	}
}

// mark has a group written or read again, unless too many wait.
func (m *Memory) mark(g *group) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, there := m.due[g.key]; !there && len(m.due) >= maxDue {
		return
	}
	m.due[g.key] = g
	if !m.busy && !m.closed {
		m.busy = true
		m.run.Go(m.work)
	}
}

// work writes until nothing is due.
func (m *Memory) work() {
	wait := writeDelay
	for {
		select {
		case <-time.After(wait):
		case <-m.ctx.Done():
		}
		m.mu.Lock()
		if m.closed || len(m.due) == 0 {
			m.busy = false
			m.mu.Unlock()
			return
		}
		m.mu.Unlock()
		if wait = writeDelay; !m.sync(m.ctx) {
			wait = retryDelay
		}
	}
}

// sync writes and reads the groups that are due. It returns false if the store does not answer.
func (m *Memory) sync(ctx context.Context) bool {
	m.io.Lock()
	defer m.io.Unlock()
	m.mu.Lock()
	todo := maps.Clone(m.due)
	m.mu.Unlock()
	failures := 0
	for key, g := range todo {
		timed, cancel := context.WithTimeout(ctx, writeWait)
		err := g.sync(timed, m.docs, m.now())
		cancel()
		if err == nil {
			failures = 0
			m.mu.Lock()
			if !g.unwritten() { // else it has learnt meanwhile
				delete(m.due, key)
			}
			m.mu.Unlock()
			continue
		}
		if ctx.Err() == nil {
			m.log.Warn("the store did not keep which tools were run after searches; weir tries again", "key", key, "err", err)
		}
		if failures++; failures == maxFailures {
			return false
		}
	}
	return true
}

// Use switches m on or off. Off, it learns and prefers nothing, and what was learnt is removed in the
// background, in memory and in the store.
func (m *Memory) Use(on bool) {
	m.off.Store(!on)
	m.mu.Lock()
	defer m.mu.Unlock()
	if on || m.closed {
		return
	}
	m.run.Go(func() {
		m.io.Lock()
		defer m.io.Unlock()
		m.mu.Lock()
		clear(m.due)
		m.groups.Clear()
		m.mu.Unlock()
		ctx, cancel := context.WithTimeout(m.ctx, forgetWait)
		defer cancel()
		if err := m.remove(ctx); err != nil && m.ctx.Err() == nil {
			m.log.Warn("the store still has which tools were run after searches; weir removes it at its next start with search.learn: false", "err", err)
		}
	})
}

// remove removes all documents.
func (m *Memory) remove(ctx context.Context) error {
	var all []store.Doc
	for doc, err := range m.docs.List(ctx, store.FeedbackKeys) {
		if err != nil {
			return err
		}
		all = append(all, store.Doc{Key: doc.Key, Rev: doc.Rev})
	}
	for _, doc := range all {
		if _, err := store.Change(ctx, m.docs, doc.Key, func(store.Doc) ([]byte, time.Duration, error) { return nil, 0, nil }); err != nil {
			return err
		}
	}
	return nil
}

// Close writes what is left, until ctx ends.
func (m *Memory) Close(ctx context.Context) {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.end()
	m.run.Wait()
	m.sync(ctx)
}
