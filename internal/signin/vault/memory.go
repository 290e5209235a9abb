package vault

import (
	"context"
	"slices"
	"sync"
	"time"
)

// Memory is a [Store] that ends with the process. The zero value is not usable; call [NewMemory].
type Memory struct {
	now func() time.Time

	mu      sync.Mutex // guards below
	records map[ID]kept
	locks   map[ID]*turn // of ids that are locked or waited for
}

type kept struct {
	Record
	changed time.Time
}

// turn is a lock with the number of its holder and of those that wait.
type turn struct {
	free  chan struct{} // capacity 1; full while the lock is free
	users int
}

var _ Store = (*Memory)(nil)

// NewMemory returns an empty store. A nil now is time.Now.
func NewMemory(now func() time.Time) *Memory {
	if now == nil {
		now = time.Now
	}
	return &Memory{now: now, records: map[ID]kept{}, locks: map[ID]*turn{}}
}

// Get implements Store.
func (m *Memory) Get(_ context.Context, id ID) (Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r, ok := m.records[id]
	if !ok {
		return Record{}, ErrMissing
	}
	return r.copy(), nil
}

// Swap implements Store.
func (m *Memory) Swap(_ context.Context, id ID, old, new Record) error {
	if err := check(id, new); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	is, ok := m.records[id]
	switch {
	case !is.equal(old):
		return ErrChanged
	case !ok && len(m.records) >= maxRecords:
		return full()
	}
	m.records[id] = kept{new.copy(), m.now()}
	return nil
}

// Delete implements Store.
func (m *Memory) Delete(_ context.Context, id ID) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.records[id]; !ok {
		return ErrMissing
	}
	delete(m.records, id)
	return nil
}

// List implements Store.
func (m *Memory) List(context.Context) ([]Entry, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []Entry
	for id, r := range m.records {
		all = append(all, Entry{ID: id, IssuedBy: r.Issuer, Changed: r.changed})
	}
	slices.SortFunc(all, compare)
	return all, nil
}

// Lock implements Store.
func (m *Memory) Lock(ctx context.Context, id ID) (func(), error) {
	m.mu.Lock()
	t := m.locks[id]
	if t == nil {
		t = &turn{free: make(chan struct{}, 1)}
		t.free <- struct{}{}
		m.locks[id] = t
	}
	t.users++
	m.mu.Unlock()
	leave := func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(m.locks, id)
		}
	}
	select {
	case <-t.free:
		return sync.OnceFunc(func() { t.free <- struct{}{}; leave() }), nil
	case <-ctx.Done():
		leave()
		return nil, ctx.Err()
	}
}

func (r Record) copy() Record { return Record{r.Issuer, append([]byte{}, r.Data...)} }
