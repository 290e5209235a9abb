package metatool

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/cluster/sessionid"
	"github.com/weir-mcp/weir/internal/store"
	"github.com/weir-mcp/weir/mcp"
)

const (
	recallDelay = time.Second      // what a session was shown is kept so late
	recallTTL   = 24 * time.Hour   // after the last change
	recallWrite = 5 * time.Second  // bounds one request to the store
	recallRetry = 30 * time.Second // after a failure
	// recallWait bounds how long the first request of a session waits for what is kept.
	recallWait = time.Second
	// recallBytes bounds a document: the frozen cards go first, then all.
	recallBytes = 256 << 10
	// maxRecallsDirty bounds the documents that are still to be written. With more, because the store does
	// not answer, documents of sessions that end are forgotten.
	maxRecallsDirty = 4096
)

// recalls keep what sessions, and principals of the modern era, were shown and how often they have
// called: for corrected ids, stable prefixes and conditions after a restart. A document is written in
// the background, up to a second late. The zero value keeps nothing. It is safe for concurrent use.
type recalls struct {
	docs   store.Docs   // set before the first use
	log    *slog.Logger // of failures; nil discards them
	self   string       // names this process in the documents; a random name where empty
	shared bool         // nodes of a cluster change the documents of principals; set before the first use

	mu      sync.Mutex // guards below
	of      map[string]*recall
	dirty   map[*recall]struct{}
	writing int  // documents that the goroutine of work has taken from dirty
	busy    bool // a goroutine writes
	closed  bool
	end     chan struct{} // closed by close
	run     sync.WaitGroup
}

// recall is one document, and the sessions that share it: the sessions of a principal at several endpoints, and
// at other nodes of a cluster.
//
//	session ─▶ mark ─▶ merge into p.HASH ─▶ Follow at the other nodes ─▶ arrive ─▶ apply ─▶ sessions
type recall struct {
	key     string
	changed func(*sessionState) // recalls.mark
	ready   chan struct{}       // closed after the first read, successful or not

	// The next are of the writing goroutine.
	rev  uint64 // of the document that this process has written last
	last recallRecord

	// The next are guarded by recalls.mu.
	states map[*sessionState]struct{}
	due    bool         // marked, and not written since
	again  time.Time    // not written before, because it has failed
	kept   recallRecord // what there is without states: of before the restart, or of sessions that have ended
	stop   func()       // ends the Follow; nil before the first successful read
	gone   bool         // forgotten
	news   []byte       // the newest document that is not applied yet
	tally  tally
}

// remember says that what outlasts the process has changed.
func (st *sessionState) remember() {
	if st.recall != nil {
		st.recall.changed(st)
	}
}

// recallRecord is the document.
type recallRecord struct {
	V     int   `json:"v"`
	Calls int64 `json:"calls,omitempty"`
	// By are the calls of each process of a cluster, in addition to Calls.
	By      map[string]int64 `json:"by,omitempty"`
	Listed  bool             `json:"listed,omitempty"`
	Offered []string         `json:"offered,omitempty"`
	Tag     string           `json:"catalog,omitempty"` // of the catalog of the cards
	Seen    []keptCards      `json:"seen,omitempty"`
}

// keptCards is a frozen card; without one, the tool was hydrated and not shown.
type keptCards struct {
	ID     string        `json:"id"`
	Card   *catalog.Card `json:"card,omitempty"`
	Scored bool          `json:"scored,omitempty"`
}

// join gives the data of a session what is kept for it.
func (m *recalls) join(r *mcp.Request, st *sessionState) {
	of := r.Session
	if m.docs == nil || m.shared && !r.Modern() {
		if !r.Modern() {
			handOver(of, st)
		}
		return
	}
	holder, fresh := "session\x00"+of.ID(), !sessionid.Adopted(of)
	if r.Modern() {
		holder, fresh = "principal\x00"+st.principal, false
	} else if _, ok := sessionid.Born(of); !ok {
		return // it ends with the process
	}
	k := m.hold(store.RecallKeys+store.Hash(holder), fresh, st)
	if k == nil {
		return
	}
	wait := time.NewTimer(recallWait)
	defer wait.Stop()
	select {
	case <-k.ready:
	case <-wait.C: // it starts without
	}
	of.OnClose(func() { m.leave(st) })
}

// hold adds a session to the document of a key, of which nothing is kept if it is fresh. It returns nil after close.
func (m *recalls) hold(key string, fresh bool, st *sessionState) *recall {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return nil
	}
	if m.of == nil {
		m.self = cmp.Or(m.self, rand.Text()[:8])
		m.of, m.dirty, m.end = map[string]*recall{}, map[*recall]struct{}{}, make(chan struct{})
	}
	k := m.of[key]
	if k == nil {
		k = &recall{key: key, changed: m.mark, ready: make(chan struct{}), states: map[*sessionState]struct{}{}, tally: tally{self: m.self}}
		m.of[key] = k
		if fresh {
			k.stop, k.tally.begun = func() {}, true
			close(k.ready)
		} else {
			m.run.Go(func() { m.begin(k) })
		}
	}
	first := len(k.states) == 0
	k.states[st] = struct{}{}
	st.recall = k
	kept := k.kept
	if first && st.ledger != nil {
		st.ledger.Resume(kept.Calls, func() { m.mark(st) })
	}
	m.mu.Unlock()
	st.absorb(kept)
	return k
}

// handOver takes what the last node of a session has left for this one, and leaves it for the next one. Quotas are
// given back before, so that the next node lets through what this one has not used.
func handOver(of *mcp.Session, st *sessionState) {
	var kept recallRecord
	if left := sessionid.Left(of); left != nil && json.Unmarshal(left, &kept) == nil && kept.V == 1 {
		st.absorb(kept)
		st.ledger.Resume(kept.Calls, func() {})
	}
	sessionid.OnLeave(of, func() json.RawMessage {
		st.mu.Lock()
		st.moved = true
		st.mu.Unlock()
		st.ledger.End()
		r := snapshotOf([]*sessionState{st})
		if r.Calls == 0 && !r.Listed && len(r.Offered) == 0 && len(r.Seen) == 0 {
			return nil
		}
		return r.encode()
	})
}

// leave writes what is to be written of a session that has ended, and forgets it.
func (m *recalls) leave(st *sessionState) {
	last := snapshotOf([]*sessionState{st})
	m.mu.Lock()
	defer m.mu.Unlock()
	k := st.recall
	if k == nil {
		return
	}
	delete(k.states, st)
	if len(k.states) > 0 {
		return
	}
	if k.kept = last; st.ledger != nil {
		k.kept.Calls = st.ledger.Calls()
	}
	if !k.due || len(m.dirty)+m.writing > maxRecallsDirty {
		delete(m.dirty, k)
		m.forget(k)
	}
}

// forget removes a document without sessions from memory. The caller holds mu.
func (m *recalls) forget(k *recall) {
	if m.of[k.key] == k {
		delete(m.of, k.key)
	}
	k.gone = true
	if k.stop != nil {
		k.stop()
	}
}

// mark says that what is kept of a session has changed.
func (m *recalls) mark(st *sessionState) {
	if st.recall == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	st.recall.due = true
	m.dirty[st.recall] = struct{}{}
	if !m.busy && !m.closed {
		m.busy = true
		m.run.Go(m.work)
	}
}

// work writes until nothing is left to be written.
func (m *recalls) work() {
	wait := recallDelay
	for {
		select {
		case <-time.After(wait):
		case <-m.end:
		}
		m.mu.Lock()
		now, closed := time.Now(), m.closed
		var todo []*recall
		for k := range m.dirty {
			if closed || !now.Before(k.again) {
				todo = append(todo, k)
				delete(m.dirty, k)
			}
		}
		if len(todo) == 0 && (len(m.dirty) == 0 || closed) {
			m.busy = false
			m.mu.Unlock()
			return
		}
		m.writing = len(todo)
		m.mu.Unlock()
		wait = m.writeAll(todo, now)
		if closed {
			return
		}
	}
}

// recallFailures is the number of failures in a row after which the store counts as away. A document that
// cannot be written does not delay the others.
const recallFailures = 2

// writeAll writes documents, and returns when to look for further ones. What fails is written again after
// recallRetry.
func (m *recalls) writeAll(todo []*recall, now time.Time) time.Duration {
	failures := 0
	for _, k := range todo {
		if failures < recallFailures {
			err := m.write(k)
			if err == nil {
				failures = 0
				m.mu.Lock()
				m.writing--
				m.mu.Unlock()
				continue
			}
			failures++
			if m.log != nil {
				m.log.Warn("the store did not keep what a session was shown; weir tries again", "key", k.key, "err", err)
			}
		}
		m.mu.Lock()
		m.writing--
		k.again = now.Add(recallRetry)
		if m.of[k.key] == k {
			m.dirty[k] = struct{}{}
		}
		m.mu.Unlock()
	}
	if failures >= recallFailures {
		return recallRetry
	}
	return recallDelay
}

// write writes a document.
func (m *recalls) write(k *recall) error {
	m.mu.Lock()
	states, record := slices.Collect(maps.Keys(k.states)), k.kept
	m.mu.Unlock()
	if len(states) > 0 {
		record = snapshotOf(states)
	}
	if err := m.merge(k, record); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, dirty := m.dirty[k]; !dirty {
		k.due = false
		if len(k.states) == 0 {
			m.forget(k)
		}
	}
	return nil
}

// snapshotOf returns what is kept of sessions that share a document.
func snapshotOf(states []*sessionState) recallRecord {
	// Cards of the same tool may differ: which of them is kept does not depend on the order of a map.
	states = slices.SortedFunc(slices.Values(states), func(a, b *sessionState) int { return strings.Compare(a.tag, b.tag) })
	r := recallRecord{V: 1}
	offered, seen := map[string]struct{}{}, map[string]keptCards{}
	for _, st := range states {
		st.mu.Lock()
		r.Listed = r.Listed || st.listed
		maps.Copy(offered, st.offered)
		for id, f := range st.stable.seen {
			c := keptCards{ID: id}
			if f != nil {
				card := f.card
				c.Card, c.Scored = &card, f.scored
			}
			if old, there := seen[id]; !there || old.Card == nil {
				seen[id] = c
			}
		}
		if len(st.stable.seen) > 0 {
			r.Tag = st.stable.tag
		}
		st.mu.Unlock()
		if st.ledger != nil {
			r.Calls = max(r.Calls, st.ledger.Calls())
		}
	}
	r.Offered = slices.Sorted(maps.Keys(offered))
	if r.Tag != "" {
		for _, id := range slices.Sorted(maps.Keys(seen)) {
			r.Seen = append(r.Seen, seen[id])
		}
	}
	return r
}

// encode returns the document, within its bound.
func (r recallRecord) encode() []byte {
	for range 3 {
		value, err := json.Marshal(r)
		if err == nil && len(value) <= recallBytes {
			return value
		}
		if len(r.Seen) > 0 {
			r.Seen, r.Tag = nil, ""
			continue
		}
		r.Offered = nil
	}
	return nil
}

// close writes what is left.
func (m *recalls) close() {
	m.mu.Lock()
	if !m.closed && m.end != nil {
		close(m.end)
	}
	m.closed = true
	for _, k := range m.of {
		if k.stop != nil {
			k.stop()
		}
	}
	m.mu.Unlock()
	m.run.Wait()
}
