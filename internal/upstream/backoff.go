package upstream

import (
	"math/rand/v2"
	"time"
)

// How attempts are spaced.
const (
	firstBackoff = 100 * time.Millisecond
	maxBackoff   = 30 * time.Second
	// stableAfter is how long a connection must have lived for its end to count
	// as the first failure again.
	stableAfter = 30 * time.Second
	// kickAfter is how long after an attempt a call may start the next one
	// without waiting for the back-off.
	kickAfter = 2 * time.Second
)

// backoff returns how long to wait after so many failures in a row: twice as
// long each time, and a little more or less, so that what died together does
// not come back together.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if n := max(failures-1, 0); n < 9 {
		d = min(firstBackoff<<n, maxBackoff)
	}
	return time.Duration(float64(d) * (0.75 + rand.Float64()/2))
}
