package upstream

import (
	"math/rand/v2"
	"time"
)

// Times between attempts.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// stableAfter is the age of a connection from which its end counts as the first failure again.
	stableAfter = 30 * time.Second
	// kickAfter is how long after an attempt a call may start the next one regardless of the
	// back-off.
	kickAfter = 2 * time.Second
)

// backoff returns the wait after a number of consecutive failures. It doubles each time, with
// jitter, so that servers that died together do not restart together.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if n := max(failures-1, 0); n < 9 {
		d = min(firstBackoff<<n, maxBackoff)
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}

// attempts are the attempts to make one connection, and when the next one is due. The zero value has made none.
//
//	fail ─▶ fail … : the wait doubles          lose: the server may be back at once
//	succeed ─▶ lose after stableAfter: the wait starts again
type attempts struct {
	err      error     // of the last failure; nil while there is a connection
	failures int       // consecutive, losses included
	failed   int       // since the start, without losses
	tried    time.Time // end of the last failed attempt
	due      time.Time // no attempt before this time
	lost     time.Time // the last loss of a connection
	replaces bool      // the next connection replaces one that was lost
}

// fail notes a failed attempt. It returns the time until the next one, and whether the attempt before failed for the
// same reason.
func (t *attempts) fail(err error, now time.Time) (wait time.Duration, same bool) {
	same = t.err != nil && t.err.Error() == err.Error()
	t.failures++
	t.failed++
	wait = backoff(t.failures)
	t.err, t.tried, t.due = err, now, now.Add(wait)
	return wait, same
}

// succeed notes a connection, and reports whether it replaces one that was lost.
func (t *attempts) succeed() (replaces bool) {
	replaces, t.replaces, t.err = t.replaces, false, nil
	return replaces
}

// lose notes the loss of a connection that was made at since.
func (t *attempts) lose(err error, now, since time.Time) {
	if now.Sub(since) >= stableAfter {
		t.failures = 0
	}
	t.failures++
	t.err, t.lost, t.tried, t.due, t.replaces = err, now, time.Time{}, now.Add(backoff(t.failures)), true
}

// What a call that wants a connection may expect after a failure.
type expectation int

const (
	tryNow   expectation = iota // an attempt for this call
	tryLater                    // an attempt soon
	tryNever                    // none that is worth a wait
)

// next returns what a call may expect that has seen that many failed attempts, and how long it waits where an attempt
// comes later. comeback is the time in which a server may be back after a loss.
func (t *attempts) next(now time.Time, seen int, comeback time.Duration) (wait time.Duration, e expectation) {
	// A server that was there until a moment ago is given the time to come back;
	// of one that is down for longer, one attempt must be enough.
	recent := !t.lost.IsZero() && now.Sub(t.lost) < comeback
	wait = t.due.Sub(now)
	switch {
	case t.failed > seen && !recent:
		return 0, tryNever
	case wait <= 0, wait > kickAfter && now.Sub(t.tried) >= kickAfter:
		return 0, tryNow
	case wait > kickAfter && !recent:
		return 0, tryNever
	case wait > kickAfter:
		return t.tried.Add(kickAfter).Sub(now), tryLater
	}
	return wait, tryLater
}
