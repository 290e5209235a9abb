package redact

import (
	"container/list"
	"slices"
	"sync"
)

// Recent is a set of secrets that come and go, such as tokens. It keeps the secrets that were added
// last, within a bound, and those that are held. All methods are safe for concurrent use. The nil Recent is empty.
type Recent struct {
	max int

	mu    sync.RWMutex             // guards below
	set   *Set                     // of the secrets in order
	order *list.List               // of texts that are not held, the oldest first
	known map[string]*list.Element // by secret; nil for one that is held
	holds map[string]int           // by secret
	uses  map[string]int           // how many secrets have a form
}

// NewRecent returns a Recent of at most max secrets.
func NewRecent(max int) *Recent {
	return &Recent{max: max, set: &Set{forms: map[[2]byte][]written{}}, order: list.New(), known: map[string]*list.Element{}, holds: map[string]int{}, uses: map[string]int{}}
}

// Add adds a secret, or makes it the newest. Secrets shorter than MinSecret are left out. The oldest
// secret leaves if there are too many.
func (r *Recent) Add(secret string) {
	if r == nil || len(secret) < MinSecret {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(secret)
}

// add is Add. The caller holds mu.
func (r *Recent) add(secret string) {
	if at, known := r.known[secret]; known {
		if at != nil {
			r.order.MoveToBack(at)
		}
		return
	}
	for r.order.Len() >= r.max {
		oldest := r.order.Front()
		text := r.order.Remove(oldest).(string)
		delete(r.known, text)
		r.change(text, -1)
	}
	r.known[secret] = r.order.PushBack(secret)
	r.change(secret, +1)
}

// Hold adds a secret that stays until release is called, whatever is added after it. It is the newest
// then. The caller bounds how many secrets it holds.
func (r *Recent) Hold(secret string) (release func()) {
	if r == nil || len(secret) < MinSecret {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.add(secret)
	if at := r.known[secret]; at != nil {
		r.order.Remove(at)
		r.known[secret] = nil
	}
	r.holds[secret]++
	return sync.OnceFunc(func() { r.release(secret) })
}

// release ends one hold of a secret.
func (r *Recent) release(secret string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holds[secret]--; r.holds[secret] > 0 {
		return
	}
	delete(r.holds, secret)
	delete(r.known, secret)
	r.change(secret, -1)
	r.add(secret) // texts with it may be on their way
}

// change counts the forms of a secret that comes or leaves. The caller holds mu.
func (r *Recent) change(secret string, by int) {
	seen := map[string]bool{}
	for _, w := range forms(secret) {
		if len(w.text) < MinSecret || seen[w.text] {
			continue
		}
		seen[w.text] = true
		before := r.uses[w.text]
		if r.uses[w.text] = before + by; before+by == 0 {
			delete(r.uses, w.text)
			r.set.remove(w)
		}
		if before == 0 {
			r.set.add(w)
		}
	}
}

// Len returns how many secrets there are.
func (r *Recent) Len() int {
	if r == nil {
		return 0
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return len(r.known)
}

// Replace returns text with Mark in place of each secret, as [Set.Replace] does.
func (r *Recent) Replace(text string) string {
	if r == nil {
		return text
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.known) == 0 {
		return text
	}
	return r.set.Replace(text)
}

// Next returns the first place in text, from an offset on, where a secret stands, as [Set.Next] does.
func (r *Recent) Next(text string, from int) (start, end int, found bool) {
	if r == nil {
		return 0, 0, false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	if len(r.known) == 0 {
		return 0, 0, false
	}
	return r.set.Next(text, from)
}

// Holds reports whether a secret stands in text.
func (r *Recent) Holds(text string) bool {
	if r == nil {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.set.Holds(text)
}

// add puts a form in its place: the longest form is first.
func (s *Set) add(w written) {
	first := [2]byte{w.text[0], w.text[1]}
	same := s.forms[first]
	at, _ := slices.BinarySearchFunc(same, w, func(a, b written) int { return len(b.text) - len(a.text) })
	s.forms[first] = slices.Insert(same, at, w)
	bit := uint(first[0])<<8 | uint(first[1])
	s.starts[bit/64] |= 1 << (bit % 64)
}

// remove takes a form out.
func (s *Set) remove(w written) {
	first := [2]byte{w.text[0], w.text[1]}
	s.forms[first] = slices.DeleteFunc(s.forms[first], func(have written) bool { return have.text == w.text })
	if len(s.forms[first]) == 0 {
		delete(s.forms, first)
		bit := uint(first[0])<<8 | uint(first[1])
		s.starts[bit/64] &^= 1 << (bit % 64)
	}
}
