package store

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// A follow is one Follow of a Memory. Its goroutine reads the documents that have changed, so a slow
// f makes it skip states and holds no writer up.
type follow struct {
	what string
	f    func(Doc)

	// The mutex of the Memory guards the rest.
	changed []string             // keys whose state f has not seen, in the order of their changes
	pending map[string]struct{}  // the same keys
	told    map[string]time.Time // the documents that f knows, and when they end by themselves
	soonest time.Time            // no document of told ends before; zero if none ends
	stopped bool
	wake    chan struct{} // capacity 1
}

func (w *follow) matches(key string) bool {
	return key == w.what || strings.HasSuffix(w.what, ".") && strings.HasPrefix(key, w.what)
}

func (w *follow) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// changed tells the followers of a key. The caller holds mu.
func (m *Memory) changed(key string) {
	for w := range m.follows {
		if w.matches(key) {
			w.mark(key)
			w.signal()
		}
	}
}

// mark notes that f has to hear of a key. The caller holds the Memory's mutex.
func (w *follow) mark(key string) {
	if _, ok := w.pending[key]; !ok {
		w.pending[key] = struct{}{}
		w.changed = append(w.changed, key)
	}
}

// Follow implements Docs.
func (m *Memory) Follow(keyOrPrefix string, f func(Doc)) (stop func(), err error) {
	if err := CheckFollow(keyOrPrefix); err != nil {
		return nil, err
	}
	w := &follow{what: keyOrPrefix, f: f, told: map[string]time.Time{}, pending: map[string]struct{}{}, wake: make(chan struct{}, 1)}
	m.mu.Lock()
	var now []Doc
	for key := range m.docs {
		if w.matches(key) {
			if d := m.state(w, key); d.Rev != 0 {
				now = append(now, d)
			}
		}
	}
	if len(now) == 0 && !strings.HasSuffix(keyOrPrefix, ".") {
		now = []Doc{{Key: keyOrPrefix}}
	}
	m.follows[w] = struct{}{}
	m.mu.Unlock()
	slices.SortFunc(now, func(a, b Doc) int { return cmp.Compare(a.Rev, b.Rev) })
	for _, d := range now {
		f(d)
	}
	go m.run(w)
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		w.stopped = true
		delete(m.follows, w)
		w.signal()
	}, nil
}

// state returns what f is told of a key, and notes it. The caller holds mu.
func (m *Memory) state(w *follow, key string) Doc {
	d := copied(m.get(key))
	if d.Rev == 0 {
		delete(w.told, key)
	} else {
		ends := m.docs[key].Ends
		w.told[key] = ends
		if !ends.IsZero() && (w.soonest.IsZero() || ends.Before(w.soonest)) {
			w.soonest = ends
		}
	}
	return d
}

// run tells f of changes, until the follow is stopped.
func (m *Memory) run(w *follow) {
	for {
		m.mu.Lock()
		if w.stopped {
			m.mu.Unlock()
			return
		}
		var wait <-chan time.Time
		if len(w.changed) == 0 {
			wait = w.expire()
		}
		if len(w.changed) > 0 {
			key := w.changed[0]
			w.changed = w.changed[1:]
			delete(w.pending, key)
			_, known := w.told[key]
			d := m.state(w, key)
			m.mu.Unlock()
			if known || d.Rev != 0 {
				w.f(d)
			}
			continue
		}
		m.mu.Unlock()
		select {
		case <-w.wake:
		case <-wait:
		}
	}
}

// expire notes the documents that have ended by themselves as changed, and returns when the next one
// ends. The caller holds the Memory's mutex.
func (w *follow) expire() <-chan time.Time {
	now := time.Now()
	if !w.soonest.IsZero() && !now.Before(w.soonest) {
		w.soonest = time.Time{}
		for key, at := range w.told {
			switch {
			case at.IsZero():
			case !now.Before(at):
				w.mark(key)
			case w.soonest.IsZero() || at.Before(w.soonest):
				w.soonest = at
			}
		}
	}
	if w.soonest.IsZero() {
		return nil
	}
	return time.After(w.soonest.Sub(now))
}
