package authserver

import (
	"sync"
	"time"

	"github.com/weir-mcp/weir/internal/limit/bounded"
)

// tries bounds what strangers may ask for at this node.
type tries struct {
	now  func() time.Time
	turn chan struct{} // of checks of passwords

	mu       sync.Mutex // guards below
	failures *bounded.Map[string, *failures]
	buckets  *bounded.Map[string, *bucket]
}

// failures are wrong passwords for one name, or from one source.
type failures struct {
	count int
	until time.Time
}

// bucket is a bound on requests: so many at once, and one more in each interval.
type bucket struct {
	left float64
	at   time.Time
}

const (
	maxTries    = 10_000
	longestWait = 5 * time.Minute
)

func newTries(now func() time.Time) *tries {
	t := &tries{now: now, turn: make(chan struct{}, 1)}
	t.failures = bounded.New(bounded.Options[string, *failures]{MaxCount: maxTries, TTL: time.Hour, KeepUsed: true, Now: now})
	t.buckets = bounded.New(bounded.Options[string, *bucket]{MaxCount: maxTries, TTL: time.Hour, KeepUsed: true, Now: now})
	return t
}

// wait returns how long a name or a source must not try a password.
func (t *tries) wait(key string) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	if f, ok := t.failures.Get(key); ok {
		return max(0, f.until.Sub(t.now()))
	}
	return 0
}

// failed notes a wrong password. After so many free ones, each doubles the wait.
func (t *tries) failed(key string, free int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f, ok := t.failures.Get(key)
	if !ok {
		f = &failures{}
	}
	if f.count++; f.count > free {
		f.until = t.now().Add(min(longestWait, time.Second<<min(f.count-free, 10)))
	}
	t.failures.Put(key, f, 0)
}

func (t *tries) reset(key string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures.Take(key)
}

// take takes one request of a bound, and returns how long to wait if there is none.
func (t *tries) take(key string, burst int, each time.Duration) (wait time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.now()
	b, ok := t.buckets.Get(key)
	if !ok {
		b = &bucket{left: float64(burst), at: now}
		t.buckets.Put(key, b, 0)
	}
	b.left = min(float64(burst), b.left+float64(now.Sub(b.at))/float64(each))
	if b.at = now; b.left < 1 {
		return time.Duration((1 - b.left) * float64(each))
	}
	b.left--
	return 0
}
