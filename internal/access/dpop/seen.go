package dpop

import (
	"sync"
	"time"
)

// maxSeen bounds the proofs of one generation, about 4 MB.
const maxSeen = 100_000

// moment is when a proof was made.
type moment struct {
	at   time.Time
	said bool // by the client (iat), whose clock may be ahead, not by a nonce of this server
}

// latest has the latest moment by a nonce, and the latest one that clients said.
type latest struct{ nonce, said time.Time }

func (l *latest) of(m moment) *time.Time {
	if m.said {
		return &l.said
	}
	return &l.nonce
}

func (l *latest) add(m moment) {
	if at := l.of(m); m.at.After(*at) {
		*at = m.at
	}
}

// seen has the proofs that were used, in two generations. A generation goes when all of its proofs are too old to be
// accepted, or when there is no room: then the proofs up to its latest one are refused, and a nonce asks for later ones.
type seen struct {
	mu       sync.Mutex // guards below
	now, old generation
	floor    latest // it is not known which proofs up to here were used
}

// generation has the proofs of a time.
type generation struct {
	start  time.Time
	latest latest
	proofs map[[16]byte]struct{}
}

// newSeen returns a seen of a process that starts now. An earlier process may have used the proofs that were made until
// now, also those of clients whose clocks are ahead.
func newSeen(now time.Time) *seen {
	return &seen{now: newGeneration(now), floor: latest{nonce: now.Truncate(time.Millisecond).Add(-time.Millisecond), said: now.Add(ahead)}}
}

func newGeneration(start time.Time) generation {
	return generation{start: start, proofs: map[[16]byte]struct{}{}}
}

// add notes a proof. known is false if it is not remembered whether proofs of this moment were used.
func (s *seen) add(proof [16]byte, m moment, now time.Time) (first, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	full := len(s.now.proofs) >= maxSeen
	if full || now.Sub(s.now.start) >= kept {
		if full {
			s.floor.add(moment{at: s.old.latest.nonce})
			s.floor.add(moment{at: s.old.latest.said, said: true})
		}
		s.old, s.now = s.now, newGeneration(now)
	}
	if !m.at.After(*s.floor.of(m)) {
		return false, false
	}
	if _, there := s.now.proofs[proof]; there {
		return false, true
	}
	if _, there := s.old.proofs[proof]; there {
		return false, true
	}
	s.now.proofs[proof] = struct{}{}
	s.now.latest.add(m)
	return true, true
}
