package membership

import (
	"sync"
	"sync/atomic"
)

// rounds runs a function for callers that come at the same time: one round at a time, and one for all
// callers that wait for it. The zero value works.
//
//	run ─▶ a round runs already ─▶ wait ─▶ one round for all that wait
type rounds struct {
	asked atomic.Uint64 // calls of run

	mu   sync.Mutex // held by a round; guards below
	done uint64     // calls whose round has started
}

// run returns after a round of f that started after the call of run.
func (r *rounds) run(f func()) {
	turn := r.asked.Add(1)
	r.mu.Lock()
	defer r.mu.Unlock()
	if turn <= r.done {
		return // a round that started after this call has ended
	}
	r.done = r.asked.Load()
	f()
}
