package app

import (
	"testing"
	"time"
)

// TestOddListings: a server that lists something else to each node is not listed for ever, and one whose definitions
// change now and then is listed at once.
func TestOddListings(t *testing.T) {
	t.Parallel()
	m := &nodeListing{server: "s", hash: "mine"}
	n := &nodeListings{mine: map[string]*nodeListing{"l.s": m}, there: map[string]string{"l.s": "another"}}
	began := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	now, lists := began, 0
	for now.Sub(began) < 24*time.Hour {
		if m.due.IsZero() {
			m.due = m.next(now) // the other node has answered with another listing
		}
		now = m.due
		todo, _ := n.take(now)
		lists += len(todo)
	}
	if lists < 20 || lists > 170 {
		t.Errorf("%d lists in a day", lists)
	}
	for range 3 {
		now = now.Add(time.Hour)
		if next := m.next(now); next != now {
			t.Errorf("after a quiet hour, the next listing waits for %v", next.Sub(now))
		}
		m.due = now
		if todo, _ := n.take(now); len(todo) != 1 || m.pause != relistPause {
			t.Errorf("%v, then a pause of %v", todo, m.pause)
		}
	}
	m.due = now.Add(time.Second)
	n.there["l.s"] = m.hash
	if todo, _ := n.take(now.Add(time.Minute)); len(todo) != 0 || !m.due.IsZero() {
		t.Errorf("what all nodes list is listed again: %v", todo)
	}
}
