package queue

// fairEvery is how often the waiter that came first goes before one of higher priority.
const fairEvery = 8

// waiter waits for a place to run: a call, or a task of a Queue.
type waiter struct {
	priority int
	task     bool
	// start takes the place. It is called under Places.mu and returns at once.
	start func()

	// Places.mu guards the rest.
	order      int64 // of arrival
	coming     bool  // there is room for it, and it is not in the line yet
	waiting    bool  // it is in the line
	prev, next *waiter
}

// line holds those who wait: a list for each priority, of calls and of tasks. All its methods take
// constant time, unless a waiter returns that came before others.
type line struct {
	calls, tasks [2*maxPriority + 1]list
	n            int
	taken        int // since the one that came first was taken
}

// list is a doubly linked list of waiters in the order of their arrival.
type list struct{ first, last *waiter }

func slot(priority int) int { return min(max(priority, -maxPriority), maxPriority) + maxPriority }

// list returns the list of a waiter.
func (l *line) list(w *waiter) *list {
	if w.task {
		return &l.tasks[slot(w.priority)]
	}
	return &l.calls[slot(w.priority)]
}

func (l *line) push(w *waiter) {
	q := l.list(w)
	w.prev, w.next = q.last, nil
	for w.prev != nil && w.prev.order > w.order {
		w.prev, w.next = w.prev.prev, w.prev
	}
	*q.after(w.prev), *q.before(w.next) = w, w
	w.waiting = true
	l.n++
}

// after returns the link that leads on from a waiter, nil for the start of the list, and before the one
// that leads back.
func (q *list) after(w *waiter) **waiter {
	if w == nil {
		return &q.first
	}
	return &w.next
}

func (q *list) before(w *waiter) **waiter {
	if w == nil {
		return &q.last
	}
	return &w.prev
}

func (l *line) remove(w *waiter) {
	q := l.list(w)
	*q.after(w.prev), *q.before(w.next) = w.next, w.prev
	w.prev, w.next = nil, nil
	w.waiting = false
	l.n--
}

// pop takes the next one, of the calls only if tasks is false. It returns nil if none waits.
func (l *line) pop(tasks bool) *waiter {
	var best, oldest *waiter
	for i := len(l.calls) - 1; i >= 0; i-- {
		first := l.calls[i].first
		if t := l.tasks[i].first; tasks && t != nil && (first == nil || t.order < first.order) {
			first = t
		}
		if first == nil {
			continue
		}
		if best == nil {
			best = first
		}
		if oldest == nil || first.order < oldest.order {
			oldest = first
		}
	}
	if best == nil {
		l.taken = 0
		return nil
	}
	if l.taken++; l.taken >= fairEvery || best == oldest {
		best, l.taken = oldest, 0
	}
	l.remove(best)
	return best
}
