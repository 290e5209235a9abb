package socketio

import (
	"testing"
	"testing/synctest"
)

// The room of the queue is used again: events that come one after the other take
// none of their own.
func TestQueueKeepsItsRoom(t *testing.T) {
	for name, concurrent := range map[string]bool{"in order": false, "concurrent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limits := newLimits(0, 0, 0, 0, nil)
				defer limits.workers.wait()
				s := newSocket(&conn{limits: limits}, "/", nil)
				j := job{entry: &entry{concurrent: concurrent, handle: func(*Event) {}}, event: &Event{}}
				rooms := map[*job]bool{}
				for range 10 {
					if s.jobs.push(j) {
						rooms[&s.jobs.queue[0]] = true
						s.jobs.start()
					}
					synctest.Wait()
				}
				if len(rooms) > 2 {
					t.Errorf("10 events took %d rooms", len(rooms))
				}
			})
		})
	}
}
