package bounded

import (
	"container/list"
	"sync"
	"time"
)

// Options bound a Map. A field of value zero does not bound anything.
type Options[K comparable, V any] struct {
	MaxCount int           // entries
	MaxBytes int64         // sum of the sizes given to Put
	TTL      time.Duration // age of an entry since Put

	// KeepUsed orders entries by use, so that Get makes an entry the last to be evicted. Without it
	// entries are ordered by Put.
	KeepUsed bool

	Now func() time.Time // the clock; nil is time.Now
}

// Map is a map with bounds. All methods may be called concurrently. The zero value is not usable;
// call New.
type Map[K comparable, V any] struct {
	opts Options[K, V]

	mu    sync.Mutex // guards below
	byKey map[K]*entry[K, V]
	byUse list.List // of *entry, the next to be evicted in front
	byAge list.List // of *entry, the first to expire in front; empty without a TTL
	bytes int64
}

type entry[K comparable, V any] struct {
	key      K
	value    V
	size     int64
	put      time.Time
	use, age *list.Element
}

// New returns an empty Map.
func New[K comparable, V any](opts Options[K, V]) *Map[K, V] {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	return &Map[K, V]{opts: opts, byKey: map[K]*entry[K, V]{}}
}

// Put stores a value of size bytes under key, in the place of an earlier one, and evicts until all
// bounds hold. It returns false, and changes nothing, if size by itself is over MaxBytes.
func (m *Map[K, V]) Put(key K, value V, size int64) bool {
	if m.opts.MaxBytes > 0 && size > m.opts.MaxBytes {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if old := m.byKey[key]; old != nil {
		m.remove(old)
	}
	e := &entry[K, V]{key: key, value: value, size: size}
	m.byKey[key] = e
	m.bytes += size
	e.use = m.byUse.PushBack(e)
	if m.opts.TTL > 0 {
		e.put = m.opts.Now()
		e.age = m.byAge.PushBack(e)
	}
	for m.opts.MaxCount > 0 && len(m.byKey) > m.opts.MaxCount || m.opts.MaxBytes > 0 && m.bytes > m.opts.MaxBytes {
		m.remove(m.byUse.Front().Value.(*entry[K, V]))
	}
	return true
}

// Get returns the value under key, and false if there is none.
func (m *Map[K, V]) Get(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if e := m.byKey[key]; e != nil {
		value, ok = e.value, true
		if m.opts.KeepUsed {
			m.byUse.MoveToBack(e.use)
		}
	}
	return value, ok
}

// Take removes the value under key and returns it, and false if there is none.
func (m *Map[K, V]) Take(key K) (value V, ok bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if e := m.byKey[key]; e != nil {
		m.remove(e)
		value, ok = e.value, true
	}
	return value, ok
}

// Expire removes the entries whose time is over and returns the time until the next entry expires,
// 0 if no entry does. Every other method removes expired entries too. A Map that must free memory
// without being called needs a timer of its owner.
func (m *Map[K, V]) Expire() (next time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if e := m.byAge.Front(); e != nil {
		next = e.Value.(*entry[K, V]).put.Add(m.opts.TTL).Sub(m.opts.Now())
	}
	return next
}

// Len returns how many entries there are.
func (m *Map[K, V]) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return len(m.byKey)
}

// Clear removes all entries.
func (m *Map[K, V]) Clear() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for m.byUse.Len() > 0 {
		m.remove(m.byUse.Front().Value.(*entry[K, V]))
	}
}

// expire removes the entries whose time is over. The caller holds mu.
func (m *Map[K, V]) expire() {
	if m.byAge.Len() == 0 {
		return
	}
	now := m.opts.Now()
	for at := m.byAge.Front(); at != nil; at = m.byAge.Front() {
		e := at.Value.(*entry[K, V])
		if e.put.Add(m.opts.TTL).After(now) {
			break
		}
		m.remove(e)
	}
}

// remove takes an entry out. The caller holds mu.
func (m *Map[K, V]) remove(e *entry[K, V]) {
	delete(m.byKey, e.key)
	m.bytes -= e.size
	m.byUse.Remove(e.use)
	if e.age != nil {
		m.byAge.Remove(e.age)
	}
}
