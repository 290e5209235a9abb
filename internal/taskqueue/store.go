package taskqueue

import (
	"cmp"
	"errors"
	"slices"
	"sync"
)

// Store keeps the records of submitted tasks. Save and Remove are called
// concurrently, but never at once for the same task; what they are given belongs to the caller and
// does not change.
type Store interface {
	// Load returns what was saved and not removed, in order of Seq. It is
	// called once, before anything else.
	Load() ([]Record, error)
	// Save writes a record over the one with its id. When it returns nil, the
	// record will be there after a restart, as far as the Store promises.
	Save(Record) error
	// Remove forgets records. Ids that are not there are no error.
	Remove(ids ...string) error
	// Close ends the Store. Nothing is called afterwards.
	Close() error
}

var (
	_ Store = (*Memory)(nil)
	_ Store = (*File)(nil)
)

var errStoreClosed = errors.New("the task store is closed")

// Memory is a Store that lasts as long as the process. Closing it keeps the
// records, so that another Queue in the same process may go on with them.
type Memory struct {
	mu      sync.Mutex // guards below
	records map[string]Record
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory { return &Memory{records: map[string]Record{}} }

// Load implements Store.
func (m *Memory) Load() ([]Record, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]Record, 0, len(m.records))
	for _, r := range m.records {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b Record) int { return cmp.Compare(a.Seq, b.Seq) })
	return all, nil
}

// Save implements Store.
func (m *Memory) Save(r Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.records[r.ID] = r
	return nil
}

// Remove implements Store.
func (m *Memory) Remove(ids ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, id := range ids {
		delete(m.records, id)
	}
	return nil
}

// Close implements Store.
func (m *Memory) Close() error { return nil }
