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
