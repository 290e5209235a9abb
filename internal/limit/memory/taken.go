package memory

import (
	"context"
	"math"
	"time"
)

// taken are the bytes that a call has taken for copies that it makes.
type taken struct {
	p          *Pool  // nil: nothing is counted
	kind, name string // of the owner
	n          int64  // of the bytes that there are, or are about to be
	held       int64  // counted in the Pool: the highest n so far, and the reserved bytes
}

// Count makes the call of the Scope take the bytes that it makes from a Pool, on behalf of an owner of some
// kind, such as "principal ", "ann"; see Take. Only the first Count of a Scope counts. It does not allocate.
func (s *Scope) Count(p *Pool, kind, name string) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made.p == nil {
		s.made.p, s.made.kind, s.made.name = p, kind, name
	}
}

// CountAs makes the Scope take its bytes from the Pool and on behalf of the owner of another Scope, which may be nil.
func (s *Scope) CountAs(other *Scope) {
	if other == nil {
		return
	}
	other.mu.Lock()
	p, kind, name := other.made.p, other.made.kind, other.made.name
	other.mu.Unlock()
	s.Count(p, kind, name)
}

// Limit returns the limit of the Pool from which the call of ctx takes bytes, math.MaxInt64 if there is none.
func Limit(ctx context.Context) int64 {
	s := FromContext(ctx)
	if s == nil {
		return math.MaxInt64
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made.p == nil {
		return math.MaxInt64
	}
	return s.made.p.o.Limit
}

// Owner returns the account of messages of the owner for whom the call of ctx takes bytes, nil if nothing is
// counted.
func Owner(ctx context.Context) *Account {
	s := FromContext(ctx)
	if s == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.made.p.Account(s.made.kind + s.made.name)
}

// Take counts n more bytes on the heap, which the caller is about to make for the call of ctx, until Give
// or the end of the call's Scope. Up to Free bytes of a call cost nothing. If there is no room, Take waits
// at most Options.Wait, much less if the call holds some already, and returns an *Error or the error of ctx.
// Without a Scope that counts, there is no bound.
func Take(ctx context.Context, n int64) error { return FromContext(ctx).take(ctx, n, 0) }

// Taker returns Take for the call of ctx, for what makes its bytes step by step, such as the index of a table.
func Taker(ctx context.Context) func(n int64) error {
	return func(n int64) error { return Take(ctx, n) }
}

// TakeShare is Take for bytes that have to be made however many they are, such as another form of a result. It
// returns the counted bytes, for Give: as many of n as one owner may have, if they are free. Otherwise it waits
// for the part that kept results and open messages leave to calls. More may never be free: the message of the
// result is in the account until the call ends, and kept results stay.
func TakeShare(ctx context.Context, n int64) (int64, error) {
	s := FromContext(ctx)
	if s == nil {
		return 0, nil
	}
	s.mu.Lock()
	least := n
	if s.made.p != nil {
		n = max(min(n, s.made.p.mostOwned()-s.made.n), 0)
		least = max(min(n, s.made.p.toCalls()-s.made.n), 0)
	}
	s.mu.Unlock()
	if ok, err := s.tryTake(n, 0); ok {
		return n, err
	}
	return least, s.take(ctx, least, 0)
}

// Reserve makes sure that Take of n more bytes in total does not have to wait. A call that takes bytes in
// several steps reserves all of them before the first: two calls that each hold a part and wait for the
// rest of it would wait for each other.
func Reserve(ctx context.Context, n int64) error { return FromContext(ctx).take(ctx, 0, n) }

// Give says that n bytes of Take are garbage now. The same call can take them again.
func Give(ctx context.Context, n int64) {
	s := FromContext(ctx)
	if s == nil || n == 0 {
		return
	}
	s.mu.Lock()
	s.made.n -= n
	if s.made.held > 0 {
		s.made.p.discard(n)
	}
	s.mu.Unlock()
}

func (s *Scope) take(ctx context.Context, n, reserved int64) error {
	if s == nil {
		return nil
	}
	ok, err := s.tryTake(n, reserved)
	if ok || err != nil {
		return err
	}
	timer := time.NewTimer(s.patience())
	defer timer.Stop()
	tick := time.NewTicker(retryEvery)
	defer tick.Stop()
	w := s.queue(n + reserved)
	defer s.made.p.leaveQueue(w)
	for {
		select {
		case <-tick.C:
			if ok, err := s.tryTake(n, reserved); ok || err != nil {
				return err
			}
			continue
		case <-ctx.Done():
			return ctx.Err()
		case <-timer.C:
		case <-w.giveUp:
		}
		return &Error{Size: max(n, reserved), Limit: s.made.p.o.Limit, Unmade: true}
	}
}

// queue adds the call to those that wait, for n more bytes than it has.
func (s *Scope) queue(n int64) *waiter {
	w := &waiter{room: roomToMake, has: s.holding()}
	s.mu.Lock()
	defer s.mu.Unlock()
	w.n, w.owner = s.made.n+n-s.made.held, s.made.owner()
	s.made.p.join(w)
	return w
}

// patience is how long a call waits for room. A call that holds some may be in the way of one that waits for
// something else, such as a place at a server, so that one of them has to give up soon.
func (s *Scope) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.made.held > 0 {
		return s.made.p.o.Wait / 30
	}
	return s.made.p.o.Wait
}

// tryTake is take without waiting. The error is for bytes that never have room.
func (s *Scope) tryTake(n, reserved int64) (ok bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := &s.made
	want := m.n + n + reserved
	if m.p == nil || s.ended || want <= Free || want <= m.held {
		if n > Free && m.p != nil {
			m.p.sweep(0)
		}
		m.n += n
		return true, nil
	}
	if most := m.p.mostOwned(); want > most {
		return false, &Error{Size: want, Limit: m.p.o.Limit, Unmade: true, Most: most}
	}
	if !m.p.takeMade(m.owner(), want-m.held) {
		return false, nil
	}
	m.held = want
	m.n += n
	return true, nil
}

// owner has a share of its own, apart from messages in reception: the copies of a call must not wait for
// the messages that wait for the call.
func (m *taken) owner() string { return "calls of " + m.kind + m.name }

// release returns the counted bytes. It may be called more than once.
func (m *taken) release() {
	if m.held > 0 {
		m.p.discard(m.n)
		m.p.giveMade(m.owner(), m.held)
		m.held = 0
	}
}

// takeMade takes n bytes that calls of an owner make, if they are free.
func (p *Pool) takeMade(name string, n int64) bool {
	p.sweep(n)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.used+n > p.o.Limit || !p.own(name, n) {
		return false
	}
	p.used += n
	p.made += n
	return true
}

func (p *Pool) giveMade(name string, n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made -= n
	p.drop(name, n)
}
