package metatool

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/weir-mcp/weir/internal/store"
)

const (
	// maxCounters bounds the processes that a document counts calls for. Beyond it they are put together.
	maxCounters = 32
)

// tally counts the calls of a principal over all processes. Each process has a counter of its own in the document, so
// that a write may be repeated.
type tally struct {
	self   string // the name of the counter of this process
	base   int64  // what it had when this process started
	told   int64  // what the ledger has of the document: base, and others
	others int64  // the sum of the other counters
	wrote  int64  // the counter in the document, as far as known
	folded int64  // what other processes have put together of the counter
	begun  bool   // the document has been read
}

// notice looks what became of the counter of this process in a document.
func (t *tally) notice(r recallRecord) (mine int64) {
	mine, there := r.By[t.self]
	if !there && r.Calls >= t.folded+t.wrote {
		t.folded += t.wrote // else the document has ended, and starts again
	}
	t.wrote = mine
	return mine
}

// hear takes a document, and returns how many calls the ledger does not have.
func (t *tally) hear(r recallRecord) (more int64) {
	mine := t.notice(r)
	if !t.begun {
		t.begun, t.base, more = true, mine, mine
	}
	others := r.Calls - t.folded
	for name, n := range r.By {
		if name != t.self {
			others += n
		}
	}
	more += others - t.others
	t.others, t.told = others, t.told+more
	return more
}

// put sets the counter in a document. calls is what the ledger has. The caller sets wrote when the document is written.
func (t *tally) put(r *recallRecord, calls int64) {
	t.notice(*r)
	r.By = maps.Clone(r.By)
	n := t.base + calls - t.told - t.folded
	if n <= 0 {
		return
	}
	if r.By == nil {
		r.By = map[string]int64{}
	}
	r.By[t.self] = n
	for len(r.By) > maxCounters {
		for _, name := range slices.Sorted(maps.Keys(r.By)) {
			if name != t.self {
				r.Calls += r.By[name]
				delete(r.By, name)
				break
			}
		}
	}
}

// begin reads the document, and follows it if other nodes change it. Without an answer of the store, the next write
// tries again.
func (m *recalls) begin(k *recall) {
	stop, err := func() {}, error(nil)
	if m.shared {
		stop, err = m.docs.Follow(k.key, func(doc store.Doc) { m.arrive(k, doc) })
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), recallWrite)
		defer cancel()
		var doc store.Doc
		doc, err = m.docs.Get(ctx, k.key)
		m.arrive(k, doc)
	}
	m.apply(k)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case err != nil:
	case m.closed || k.gone || k.stop != nil:
		stop()
	default:
		k.stop, k.tally.begun = stop, true
	}
	select {
	case <-k.ready:
	default:
		close(k.ready)
	}
}

// arrive takes a state of the document. It does not wait.
func (m *recalls) arrive(k *recall, doc store.Doc) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if doc.Rev == 0 || doc.Value == nil || m.closed || k.gone {
		return
	}
	k.news = doc.Value
	select {
	case <-k.ready:
		m.run.Go(func() { m.apply(k) })
	default: // begin applies it
	}
}

// apply gives the sessions of a principal here what other nodes have shown to it, and how often it has called there.
func (m *recalls) apply(k *recall) {
	var r recallRecord
	m.mu.Lock()
	if k.news == nil || json.Unmarshal(k.news, &r) != nil || r.V != 1 {
		m.mu.Unlock()
		return
	}
	k.news = nil
	more := k.tally.hear(r)
	k.kept.add(r)
	k.kept.Calls += more
	states := slices.Collect(maps.Keys(k.states))
	if len(states) > 0 && states[0].ledger != nil { // all have one ledger
		states[0].ledger.Resume(more, func() { m.mark(states[0]) })
	}
	m.mu.Unlock()
	for _, st := range states {
		st.absorb(r)
	}
}

// calls returns what the ledger of the sessions has. The caller holds recalls.mu, so that it belongs to the tally.
func (k *recall) calls() int64 {
	for st := range k.states {
		if st.ledger != nil {
			return st.ledger.Calls()
		}
	}
	return k.kept.Calls
}

// absorb adds what was shown before, or at other nodes. That is in the document already.
func (st *sessionState) absorb(r recallRecord) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, id := range r.Offered {
		if len(st.offered) >= maxOffered {
			break
		}
		if st.offered == nil {
			st.offered = make(map[string]struct{})
		}
		st.offered[id] = struct{}{}
	}
	st.listed = st.listed || r.Listed
	if len(r.Seen) == 0 || len(st.stable.seen) > 0 && st.stable.tag != r.Tag {
		return // of another catalog
	}
	if len(st.stable.seen) == 0 {
		st.stable = stablePrefix{tag: r.Tag}
	}
	for _, c := range r.Seen {
		old, known := st.stable.seen[c.ID]
		switch {
		case old != nil || !known && len(st.stable.seen) >= maxOffered:
		case c.Card != nil:
			st.stable.put(c.ID, &frozenCard{*c.Card, c.Scored})
		case !known:
			st.stable.put(c.ID, nil)
		}
	}
}

// add adds what another record says was shown. Cards of the record stay; cards of another catalog replace them if the
// record has none.
func (r *recallRecord) add(more recallRecord) {
	r.V, r.Listed = 1, r.Listed || more.Listed
	offered := map[string]struct{}{}
	for _, id := range slices.Concat(r.Offered, more.Offered) {
		if len(offered) < maxOffered {
			offered[id] = struct{}{}
		}
	}
	r.Offered = slices.Sorted(maps.Keys(offered))
	if len(more.Seen) == 0 || len(r.Seen) > 0 && r.Tag != more.Tag {
		return
	}
	seen := map[string]keptCards{}
	for _, c := range slices.Concat(r.Seen, more.Seen) {
		if old, known := seen[c.ID]; !known && len(seen) < maxOffered || known && old.Card == nil {
			seen[c.ID] = c
		}
	}
	r.Tag, r.Seen = more.Tag, nil
	for _, id := range slices.Sorted(maps.Keys(seen)) {
		r.Seen = append(r.Seen, seen[id])
	}
}

// merge writes a document over what other nodes have written.
func (m *recalls) merge(k *recall, own recallRecord) error {
	m.mu.Lock()
	done := m.closed || k.stop != nil || k.gone
	m.mu.Unlock()
	if !done {
		m.begin(k)
	}
	ctx, cancel := context.WithTimeout(context.Background(), recallWrite)
	defer cancel()
	next := recallRecord{}
	doc, err := store.Change(ctx, m.docs, k.key, func(doc store.Doc) ([]byte, time.Duration, error) {
		var there recallRecord
		switch {
		case doc.Rev == 0:
		case doc.Rev == k.rev:
			there = k.last
		case json.Unmarshal(doc.Value, &there) != nil || there.V != 1:
			there = recallRecord{}
		}
		next = there
		if next.Tag != own.Tag && len(own.Seen) > 0 {
			next.Seen, next.Tag = nil, "" // cards of a catalog of before
		}
		next.add(own)
		m.mu.Lock()
		if k.tally.begun {
			k.tally.put(&next, k.calls())
		}
		m.mu.Unlock()
		value := next.encode()
		if value == nil || bytes.Equal(value, doc.Value) {
			return nil, 0, store.ErrKeep
		}
		return value, recallTTL, nil
	})
	if err == nil {
		k.rev, k.last = doc.Rev, next
		m.mu.Lock()
		defer m.mu.Unlock()
		k.tally.wrote = next.By[m.self]
	}
	return err
}
