package memory

import "slices"

// waiter is a call that waits for room.
type waiter struct {
	n      int64         // bytes that it waits for
	room   room          // where they are to come from
	owner  string        // of the copies that it wants to make, or of the message in reception
	lost   bool          // if it gives up, the answer of a server is lost
	has    holding       // what only this call gives back
	ready  chan struct{} // closed when n is granted
	giveUp chan struct{} // closed when the call has to give back what it has
}

// room is the part of the limit that a waiter needs.
type room int

const (
	roomToOpen   room = iota // for a message in a file
	roomToMake               // for copies of a call
	roomToArrive             // for a message in reception
)

// holding are bytes that one call keeps from others.
type holding struct {
	all  int64
	made int64 // of them, its own copies
	part int64 // of them, the message in reception that waits for the rest
	open int64 // of them, open messages
}

// Within says that the call of the Scope, until its end, keeps the bytes of h from others, as its request has
// them. Without it, the call could wait for room that others wait for in turn.
func (s *Scope) Within(h *Hold) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.request = h.n
}

// holding returns the bytes that the call keeps from others.
func (s *Scope) holding() (has holding) {
	if s == nil {
		return has
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	has.made = s.made.held
	has.all = s.request
	for _, b := range s.blocks {
		has.all += b.hold.n
		has.made += b.made.held
		if b.opened {
			has.open += b.a.p.share(b.size)
		}
	}
	has.all += has.made + has.open
	return has
}

// enqueue adds a call that waits. The caller holds mu.
func (p *Pool) enqueue(w *waiter) {
	w.giveUp = make(chan struct{})
	p.queue = append(p.queue, w)
	p.resolve()
}

func (p *Pool) join(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.enqueue(w)
}

// dequeue removes a call that does not wait any more. The caller holds mu.
func (p *Pool) dequeue(w *waiter) {
	if i := slices.Index(p.queue, w); i >= 0 {
		p.queue = slices.Delete(p.queue, i, i+1)
	}
}

func (p *Pool) leaveQueue(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dequeue(w)
}

// resolve makes waiting calls give up as long as all of them wait for room that only they could free. The newest goes
// first, and before all others the newest whose server has not got its message. The caller holds mu.
func (p *Pool) resolve() {
	for p.standstill() {
		var last *waiter
		for _, w := range p.queue {
			if w.has.all > 0 && (last == nil || !w.lost || last.lost) {
				last = w
			}
		}
		if last == nil {
			return
		}
		p.dequeue(last)
		close(last.giveUp)
	}
}

// standstill reports whether no waiting call could have its bytes even if all others had ended that do not wait. The
// caller holds mu.
func (p *Pool) standstill() bool {
	stays := holding{all: p.kept}
	made, parts := map[string]int64{}, map[string]int64{} // of owners
	for _, w := range p.queue {
		stays.all += w.has.all
		stays.made += w.has.made
		stays.open += w.has.open
		made[w.owner] += w.has.made
		parts[w.owner] += w.has.part
	}
	for _, w := range p.queue {
		others := stays.all - stays.made + w.n // that no call makes
		fits := false
		switch w.room {
		case roomToMake:
			fits = made[w.owner]+w.n <= p.mostOwned()
		case roomToOpen:
			fits = p.turns[0].waiters[0] == w && stays.open+w.n <= p.mostOpen() && others <= p.o.Limit-p.toCalls()
		case roomToArrive:
			fits = parts[w.owner]+w.n <= p.mostOwned() && others <= p.o.Limit-p.o.Limit/4 &&
				(p.waiting == 0 || others-p.kept-stays.open <= p.mostInQueue())
		}
		if fits && stays.all+w.n <= p.o.Limit {
			return false
		}
	}
	return len(p.queue) > 0
}
