package store

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Memory is Docs that last as long as the process. Tests of rooms use it. It bounds neither the number
// of documents nor their bytes.
type Memory struct {
	mu   sync.Mutex // guards below
	rev  uint64
	docs map[string]entry
	// sweep is the revision at which documents that have ended are removed, even if no caller asks
	// for them: as many changes apart as there are documents.
	sweep uint64

	follows map[*follow]struct{}
}

type entry struct {
	doc     Doc
	expires time.Time // zero: never
}

// sweepMin is the least number of changes between two sweeps.
const sweepMin = 1000

func (e entry) ended() bool { return !e.expires.IsZero() && !time.Now().Before(e.expires) }

var _ Docs = (*Memory)(nil)

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{docs: map[string]entry{}, follows: map[*follow]struct{}{}, sweep: sweepMin}
}

// get returns the document of a key that has not expired. The caller holds mu.
func (m *Memory) get(key string) Doc {
	e, ok := m.docs[key]
	if ok && e.ended() {
		delete(m.docs, key)
		ok = false
	}
	if !ok {
		return Doc{Key: key}
	}
	return e.doc
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
	if m.rev++; m.rev >= m.sweep {
		maps.DeleteFunc(m.docs, func(_ string, e entry) bool { return e.ended() })
		m.sweep = m.rev + uint64(len(m.docs)) + sweepMin
	}
	e := entry{doc: copied(Doc{Key: key, Rev: m.rev, Value: value})}
	if ttl > 0 {
		e.expires = time.Now().Add(max(ttl, MinTTL))
	}
	m.docs[key] = e
	m.changed(key)
	return m.rev, nil
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
	delete(m.docs, key)
	m.changed(key)
	return nil
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
