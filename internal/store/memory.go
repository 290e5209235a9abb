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

	mu    sync.Mutex // guards below
	rev   uint64
	docs  map[string]Kept
	bytes int64
	// sweep is the revision at which documents that have ended are removed, even if no caller asks
	// for them: as many changes apart as there are documents.
	sweep uint64

	follows map[*follow]struct{}
}

// MemoryOptions configures a Memory. The zero value keeps nothing beyond the process and has no bound.
type MemoryOptions struct {
	// MaxBytes bounds keys and values together. A change that has no room returns ErrFull. 0 is no bound.
	MaxBytes int64
	// Keep writes changes before they count. A document of revision 0 is deleted. If Keep returns an
	// error, the changes are not made, and their caller gets the error. Calls do not overlap.
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
	m := &Memory{o: o, docs: map[string]Kept{}, follows: map[*follow]struct{}{}}
	for _, k := range o.Docs {
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

// put makes a change. The caller holds mu.
func (m *Memory) put(k Kept) {
	m.bytes -= m.docs[k.Key].size()
	if k.Rev == 0 {
		delete(m.docs, k.Key)
		return
	}
	m.docs[k.Key] = k
	m.bytes += k.size()
}

// change makes a change, and removes documents that have ended when it is time for that, or when the
// change has no room without it. The caller holds mu.
func (m *Memory) change(k Kept) error {
	changes := []Kept{k}
	room := m.bytes + k.size() - m.docs[k.Key].size()
	full := m.o.MaxBytes > 0 && k.Rev != 0 && room > m.o.MaxBytes
	if full || m.rev >= m.sweep {
		for key, old := range m.docs {
			if key != k.Key && old.Ended() {
				changes = append(changes, Kept{Doc: Doc{Key: key}})
				room -= old.size()
			}
		}
		if full && room > m.o.MaxBytes {
			return fmt.Errorf("store: %d bytes of documents, at most %d: %w", room, m.o.MaxBytes, ErrFull)
		}
	}
	if m.o.Keep != nil {
		if err := m.o.Keep(changes); err != nil {
			return err
		}
	}
	for _, c := range changes {
		m.put(c)
	}
	if len(changes) > 1 || m.rev >= m.sweep {
		m.sweep = m.rev + uint64(len(m.docs)) + sweepMin
	}
	m.changed(k.Key)
	return nil
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
	if err := CheckSet(key, value); err != nil {
		return 0, err
	}
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.get(key).Rev != rev {
		return 0, ErrConflict
	}
	k := Kept{Doc: copied(Doc{Key: key, Rev: m.rev + 1, Value: value})}
	if ttl > 0 {
		k.Ends = time.Now().Add(max(ttl, MinTTL))
	}
	if err := m.change(k); err != nil {
		return 0, err
	}
	m.rev = k.Rev
	return k.Rev, nil
}

// Delete implements Docs.
func (m *Memory) Delete(ctx context.Context, key string, rev uint64) error {
	if err := CheckKey(key, false); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.get(key).Rev != rev || rev == 0 {
		return ErrConflict
	}
	return m.change(Kept{Doc: Doc{Key: key}})
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
