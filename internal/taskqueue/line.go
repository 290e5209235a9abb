package taskqueue

// fairEvery is how often the task that has waited longest goes before one of
// higher priority.
const fairEvery = 8

// line holds the items that wait: one list for each priority. All its methods
// take constant time.
type line struct {
	lists [2*maxPriority + 1]list
	n     int
	taken int // since the one that waited longest was taken
}

// list is a doubly linked list through the items.
type list struct{ first, last *item }

func slot(priority int) int { return min(max(priority, -maxPriority), maxPriority) + maxPriority }

func (l *line) push(it *item) {
	q := &l.lists[slot(it.rec.Priority)]
	it.prev, it.next = q.last, nil
	if q.last != nil {
		q.last.next = it
	} else {
		q.first = it
	}
	q.last = it
	it.waiting = true
	l.n++
}

func (l *line) remove(it *item) {
	q := &l.lists[slot(it.rec.Priority)]
	if it.prev != nil {
		it.prev.next = it.next
	} else {
		q.first = it.next
	}
	if it.next != nil {
		it.next.prev = it.prev
	} else {
		q.last = it.prev
	}
	it.prev, it.next = nil, nil
	it.waiting = false
	l.n--
}

// pop takes the next item, nil where none waits.
func (l *line) pop() *item {
	var best, oldest *item
	for i := len(l.lists) - 1; i >= 0; i-- {
		it := l.lists[i].first
		if it == nil {
			continue
		}
		if best == nil {
			best = it
		}
		if oldest == nil || it.rec.Seq < oldest.rec.Seq {
			oldest = it
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
