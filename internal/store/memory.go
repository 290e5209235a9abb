package store

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is Docs that last as long as the process, or as long as what Keep writes.
type Memory struct {
	o MemoryOptions

	disk sync.Mutex // held while a batch is kept; locked before mu

	mu    sync.Mutex // guards below
	rev   uint64     // the last one given
	docs  map[string]Kept
	bytes int64             // of docs, and of what open batches add
	next  *batch            // collects changes for the next call of Keep; nil if there are none
	open  map[string]*batch // by the keys that they change
	// sweep is the revision at which documents that have ended are removed, even if no caller asks
	// for them: as many changes apart as there are documents.
	sweep uint64

	follows map[*follow]struct{}
}

// MemoryOptions configures a Memory. The zero value keeps nothing beyond the process and has no bound.
type MemoryOptions struct {
	// MaxBytes bounds keys and values together. A change that has no room returns ErrFull. 0 is no bound.
	MaxBytes int64
	// MaxValue bounds the value of one document. 0 is the MaxValue of the package.
	MaxValue int
	// Keep writes changes before they count. A document of revision 0 is deleted. If Keep returns an
	// error, the changes are not made, and their callers get the error. Calls do not overlap: changes
	// that come during a call share the next one.
	Keep func(changes []Kept) error
	// Docs are documents that Keep has written before.
	Docs []Kept
}

// Kept is a document, and when it ends by itself; the zero time is never.
type Kept struct {
	Doc
	Ends time.Time
}

// Ended reports whether the document is gone by now.
func (k Kept) Ended() bool { return !k.Ends.IsZero() && !time.Now().Before(k.Ends) }

func (k Kept) size() int64 { return int64(len(k.Key) + len(k.Value)) }

// sweepMin is the least number of changes between two sweeps.
const sweepMin = 1000

var _ Docs = (*Memory)(nil)

// NewMemory returns a Memory with the documents of the options.
func NewMemory(o MemoryOptions) *Memory {
	if o.MaxValue == 0 {
		o.MaxValue = MaxValue
	}
	m := &Memory{o: o, docs: map[string]Kept{}, open: map[string]*batch{}, follows: map[*follow]struct{}{}}
	for _, k := range o.Docs {
		m.bytes += m.grows(k)
		m.put(k)
		m.rev = max(m.rev, k.Rev)
	}
	m.o.Docs = nil
	m.sweep = m.rev + uint64(len(m.docs)) + sweepMin
	return m
}

// get returns the document of a key that has not ended. The caller holds mu.
func (m *Memory) get(key string) Doc {
	if k, ok := m.docs[key]; ok && !k.Ended() {
		return k.Doc
	}
	return Doc{Key: key}
}

// put makes a change that is in bytes already. The caller holds mu.
func (m *Memory) put(k Kept) {
	if k.Rev == 0 {
		delete(m.docs, k.Key)
	} else {
		m.docs[k.Key] = k
	}
}

// grows returns how many bytes more a change needs. The caller holds mu.
func (m *Memory) grows(k Kept) int64 {
	if k.Rev == 0 {
		return -m.docs[k.Key].size()
	}
	return k.size() - m.docs[k.Key].size()
}

// change makes a change over the revision rev, and removes documents that have ended when it is time for
// that, or when the change has no room without it. It returns the new revision.
func (m *Memory) change(k Kept, rev uint64) (uint64, error) {
	m.mu.Lock()
	for b := m.open[k.Key]; b != nil; b = m.open[k.Key] {
		m.mu.Unlock()
		m.keep(b)
		m.mu.Lock()
	}
	if m.get(k.Key).Rev != rev {
		m.mu.Unlock()
		return 0, ErrConflict
	}
	if k.Value != nil {
		k.Rev = m.rev + 1
	}
	changes := []Kept{k}
	room := m.grows(k)
	full := m.o.MaxBytes > 0 && k.Rev != 0 && m.bytes+room > m.o.MaxBytes
	swept := full || m.rev >= m.sweep
	if swept {
		for key, old := range m.docs {
			if key != k.Key && old.Ended() && m.open[key] == nil {
				changes = append(changes, Kept{Doc: Doc{Key: key}})
				room -= old.size()
			}
		}
	}
	if full && m.bytes+room > m.o.MaxBytes {
		defer m.mu.Unlock()
		return 0, fmt.Errorf("store: %d bytes of documents, at most %d: %w", m.bytes+room, m.o.MaxBytes, ErrFull)
	}
	m.bytes += room
	m.rev = max(m.rev, k.Rev)
	if swept {
		m.sweep = m.rev + uint64(len(m.docs)) + sweepMin
	}
	if m.o.Keep == nil {
		defer m.mu.Unlock()
		m.made(changes)
		return k.Rev, nil
	}
	if m.next == nil {
		m.next = &batch{}
	}
	b := m.next
	b.changes = append(b.changes, changes...)
	b.room += room
	for _, c := range changes {
		m.open[c.Key] = b
	}
	m.mu.Unlock()
	if err := m.keep(b); err != nil {
		return 0, err
	}
	return k.Rev, nil
}

// batch is the changes of one call of Keep.
type batch struct {
	changes []Kept
	room    int64 // that the changes need more
	over    bool  // guarded by Memory.disk, like err
	err     error
}

// keep waits until the changes of a batch are made, or have failed. The first caller that gets the disk
// works for all.
func (m *Memory) keep(b *batch) error {
	m.disk.Lock()
	defer m.disk.Unlock()
	if b.over {
		return b.err
	}
	m.mu.Lock()
	m.next = nil
	m.mu.Unlock()
	b.err = m.o.Keep(b.changes)
	b.over = true
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range b.changes {
		delete(m.open, c.Key)
	}
	if b.err != nil {
		m.bytes -= b.room
		return b.err
	}
	m.made(b.changes)
	b.changes = nil
	return nil
}

// made makes changes, and tells their followers. The caller holds mu.
func (m *Memory) made(changes []Kept) {
	for _, c := range changes {
		m.put(c)
		m.changed(c.Key)
	}
}

func copied(d Doc) Doc {
	d.Value = slices.Clone(d.Value)
	return d
}

// Get implements Docs.
func (m *Memory) Get(ctx context.Context, key string) (Doc, error) {
	if err := CheckKey(key, false); err != nil {
		return Doc{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return copied(m.get(key)), ctx.Err()
}

// Set implements Docs.
func (m *Memory) Set(ctx context.Context, key string, value []byte, rev uint64, ttl time.Duration) (uint64, error) {
	if err := checkSet(key, value, m.o.MaxValue); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	k := Kept{Doc: Doc{Key: key, Value: append([]byte{}, value...)}}
	if ttl > 0 {
		k.Ends = time.Now().Add(max(ttl, MinTTL))
	}
	return m.change(k, rev)
}

// Delete implements Docs.
func (m *Memory) Delete(ctx context.Context, key string, rev uint64) error {
	if err := CheckKey(key, false); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if rev == 0 {
		return ErrConflict
	}
	_, err := m.change(Kept{Doc: Doc{Key: key}}, rev)
	return err
}

// List implements Docs.
func (m *Memory) List(ctx context.Context, prefix string) iter.Seq2[Doc, error] {
	return func(yield func(Doc, error) bool) {
		if err := CheckKey(prefix, true); err != nil {
			yield(Doc{}, err)
			return
		}
		m.mu.Lock()
		keys := slices.Collect(maps.Keys(m.docs))
		m.mu.Unlock()
		for _, key := range keys {
			if !strings.HasPrefix(key, prefix) {
				continue
			}
			switch d, err := m.Get(ctx, key); {
			case err != nil:
				yield(Doc{}, err)
				return
			case d.Rev != 0 && !yield(d, nil):
				return
			}
		}
	}
}
