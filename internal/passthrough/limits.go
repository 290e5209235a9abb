package passthrough

import (
	"encoding/json"
	"math"
	"sync"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

// Limits bound the requests to one upstream. Zero sets no bound.
type Limits struct {
	// InFlight is how many requests may wait for an answer at a time. Streams and subscriptions do
	// not count.
	InFlight int
	// PerMinute is the rate of requests per minute. After an idle minute, all of them may come at
	// once.
	PerMinute int
	// MaxBody is the size of a request body in bytes, unless Options.MaxBody is smaller.
	MaxBody int64
}

// limiter counts the requests to an upstream.
type limiter struct {
	mu       sync.Mutex // guards below
	inFlight int
	tokens   float64 // requests that may be sent now
	at       time.Time
	rate     int // the PerMinute that tokens belong to
}

// enter counts n requests, all or none, or returns the reason why they cannot be sent now. Each
// success needs one leave with the same n.
func (l *limiter) enter(name string, o Limits, now time.Time, n int) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.InFlight > 0 && n > o.InFlight {
		return overBatch(name, "in_flight", o.InFlight, n)
	}
	if o.PerMinute > 0 && n > o.PerMinute {
		return overBatch(name, "per_minute", o.PerMinute, n)
	}
	if o.InFlight > 0 && l.inFlight+n > o.InFlight {
		return overLimit(mcp.KindOverloaded, name, "in_flight", o.InFlight, time.Second,
			"agent %q has %d requests in flight, which is its bound: try again when one is answered (agents.limits.in_flight)")
	}
	if o.PerMinute > 0 {
		most := float64(o.PerMinute)
		if l.rate != o.PerMinute {
			l.rate, l.tokens, l.at = o.PerMinute, most, now
		}
		l.tokens = min(most, l.tokens+now.Sub(l.at).Minutes()*most)
		l.at = now
		if l.tokens < float64(n) {
			wait := time.Duration((float64(n) - l.tokens) / most * float64(time.Minute))
			return overLimit(mcp.KindRateLimited, name, "per_minute", o.PerMinute, wait,
				"agent %q takes %d requests a minute, which it has had: try again later (agents.limits.per_minute)")
		}
		l.tokens -= float64(n)
	}
	l.inFlight += n
	return nil
}

func (l *limiter) leave(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight -= n
}

// overBatch returns the error for a batch that exceeds a bound by itself, so that waiting does not
// help.
func overBatch(name, which string, bound, n int) error {
	e := mcp.Errorf(mcp.KindTooLarge, "a batch of %d requests is over what agent %q takes at once, %d: send fewer in one batch (agents.limits.%s)", n, name, bound, which)
	e.Data, _ = json.Marshal(map[string]any{"kind": e.Kind.String(), "agent": name, "limit": which, "bound": bound})
	return e
}

// overLimit returns the error for a request over a bound.
func overLimit(k mcp.Kind, name, which string, bound int, wait time.Duration, format string) error {
	e := mcp.Errorf(k, format, name, bound)
	data := map[string]any{"kind": k.String(), "agent": name, "limit": which, "bound": bound, "retry_after": seconds(wait)}
	e.Data, _ = json.Marshal(data)
	return e
}

// seconds rounds a time up to the whole seconds of Retry-After.
func seconds(d time.Duration) int { return int(math.Ceil(max(d.Seconds(), 1))) }
