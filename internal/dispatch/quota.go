package dispatch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-mcp/weir/internal/json/rawjson"
	"github.com/weir-mcp/weir/internal/result"
	"github.com/weir-mcp/weir/internal/store"
)

// RateLimit bounds calls of one kind in one session. Zero means no bound.
type RateLimit struct {
	PerMinute  int // in any 60 seconds
	PerSession int // in total
}

// RateLimits are the quotas of each session (spec/gateway §4.5). The modern era has no sessions;
// there, they count per principal.
type RateLimits struct {
	MetaTools map[string]RateLimit // by name of the meta-tool
	Tools     map[string]RateLimit // by tool_id, in addition to the limit of tool_execute
}

func (l *RateLimits) empty() bool { return len(l.MetaTools) == 0 && len(l.Tools) == 0 }

// quotaWindow is the span of a sliding window.
const quotaWindow = time.Minute

// bucket counts the calls of one scope in one session. Its memory is bounded by the limit.
type bucket struct {
	recent []time.Duration // call times since the State's start: a ring
	head   int             // index of the oldest
	n      int
	total  int
}

// expire removes calls that have left the window.
func (b *bucket) expire(now time.Duration) {
	for b.n > 0 && now-b.recent[b.head] >= quotaWindow {
		b.head = (b.head + 1) % len(b.recent)
		b.n--
	}
}

func (b *bucket) add(now time.Duration, limit RateLimit) {
	if limit.PerSession > 0 {
		b.total++
	}
	if limit.PerMinute == 0 {
		return
	}
	if b.n == len(b.recent) {
		grown := make([]time.Duration, min(max(8, 2*b.n), limit.PerMinute))
		for i := range b.n {
			grown[i] = b.recent[(b.head+i)%b.n]
		}
		b.recent, b.head = grown, 0
	}
	b.recent[(b.head+b.n)%len(b.recent)] = now
	b.n++
}

// scope is one quota that applies to a call.
type scope struct {
	name  string
	limit RateLimit
}

// breach is an exhausted quota.
type breach struct {
	scope      string
	limit      int
	retryAfter time.Duration // negative: never in this session
	away       bool          // the store does not answer
}

// Ledger counts the calls of one session. The zero value is empty. It is safe for
// concurrent use.
type Ledger struct {
	Started time.Time // when the session started; set before the first use
	// Leases make the counts of quotas outlast the process; nil: they end with it. Set before the
	// first use.
	Leases *Leases
	share  *principalShare // counts with other nodes; nil: this process counts. [Grants.Principal] sets it
	calls  atomic.Int64
	heard  atomic.Pointer[func()] // of each call that is counted; nil: none

	mu      sync.Mutex // guards below
	buckets map[string]*bucket
}

// Resume continues the count of calls of an earlier process. heard is called after each call that is
// counted; it must be fast.
func (l *Ledger) Resume(calls int64, heard func()) {
	l.calls.Add(calls)
	l.heard.Store(&heard)
}

// Calls returns the number of calls that were counted for conditions.
func (l *Ledger) Calls() int64 { return l.calls.Load() }

// called counts a call for conditions.
func (l *Ledger) called() {
	l.calls.Add(1)
	if heard := l.heard.Load(); heard != nil {
		(*heard)()
	}
}

// take counts a call in all scopes. If one of them is exhausted, take counts it in none and returns
// that one. With record false it only checks.
func (l *Ledger) take(now time.Duration, record bool, scopes []scope) *breach {
	if len(scopes) == 0 {
		return nil
	}
	if l.share != nil {
		return l.share.take(record, scopes)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Leases == nil {
		b := l.check(now, scopes)
		if b == nil && record {
			l.add(now, scopes)
		}
		return b
	}
	for range 3 {
		var err error
		if l.buckets, err = l.Leases.load(now, l.buckets); err != nil {
			break
		}
		if b := l.check(now, scopes); b != nil || !record {
			return b
		}
		if err = l.Leases.cover(scopes, l.buckets); err == nil {
			l.add(now, scopes)
			return nil
		}
		if !errors.Is(err, store.ErrConflict) {
			break
		}
	}
	return &breach{scope: scopes[0].name, retryAfter: leaseWait, away: true}
}

// check returns the first scope that is exhausted.
func (l *Ledger) check(now time.Duration, scopes []scope) *breach {
	for _, s := range scopes {
		b := l.buckets[s.name]
		if b == nil {
			continue
		}
		b.expire(now)
		if s.limit.PerSession > 0 && b.total >= s.limit.PerSession {
			return &breach{scope: s.name + "/session", limit: s.limit.PerSession, retryAfter: -1}
		}
		if s.limit.PerMinute > 0 && b.n >= s.limit.PerMinute {
			// After a reload, the window may hold more calls than are allowed now.
			last := b.recent[(b.head+b.n-s.limit.PerMinute)%len(b.recent)]
			return &breach{scope: s.name + "/minute", limit: s.limit.PerMinute, retryAfter: quotaWindow - (now - last)}
		}
	}
	return nil
}

// add counts a call in all scopes.
func (l *Ledger) add(now time.Duration, scopes []scope) {
	for _, s := range scopes {
		b := l.buckets[s.name]
		if b == nil {
			if l.buckets == nil {
				l.buckets = make(map[string]*bucket)
			}
			b = new(bucket)
			l.buckets[s.name] = b
		}
		b.add(now, s.limit)
	}
}

// End says that no call is expected any more: what the Leases have left does not count after a
// restart.
func (l *Ledger) End() {
	if l.share != nil {
		l.share.giveBack(true)
	}
	if l.Leases == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Leases.end(l.buckets)
}

// scopes returns the quotas of an act: for the name of a meta-tool, or "", and for its subjects. A
// limit of a short id applies to all tools that share it; otherwise a server could evade the limit
// by listing a second one. Tools without a limit have no scope, so the configuration bounds the
// memory of a session.
func (l *RateLimits) scopes(metaTool string, about []Subject) []scope {
	var list []scope
	if limit, ok := l.MetaTools[metaTool]; ok {
		list = append(list, scope{metaTool, limit})
	}
	add := func(id string) {
		name := "tool:" + id
		if limit, ok := l.Tools[id]; ok && !slices.ContainsFunc(list, func(s scope) bool { return s.name == name }) {
			list = append(list, scope{name, limit})
		}
	}
	for _, s := range about {
		if s.Entry == nil {
			continue
		}
		add(s.Entry.ID)
		if s.Entry.Short != "" && s.Entry.Short != s.Entry.ID {
			add(s.Entry.Short)
		}
	}
	return list
}

// error returns the error that an agent sees. retry_after is in seconds, rounded up to a
// millisecond; it is null if waiting does not help.
func (b *breach) error() error {
	details := append(rawjson.AppendString([]byte(`{"scope":`), b.scope), `,"retry_after":`...)
	e := &result.Error{Code: result.RateLimited, Scope: b.scope}
	switch {
	case b.away:
		details = strconv.AppendFloat(details, b.retryAfter.Seconds(), 'f', -1, 64)
		e.Message = fmt.Sprintf("quota %s: the store of this gateway cannot keep the count of calls now; wait %g seconds, or tell the operator of the gateway", b.scope, b.retryAfter.Seconds())
	case b.retryAfter < 0:
		details = append(details, "null"...)
		e.Message = fmt.Sprintf("quota %s: this session has made all calls that it may make (%d); no later call of this session will be let through", b.scope, b.limit)
	default:
		seconds := math.Ceil(b.retryAfter.Seconds()*1000) / 1000
		details = strconv.AppendFloat(details, seconds, 'f', -1, 64)
		e.Message = fmt.Sprintf("quota %s: calls allowed a minute: %d; wait %s seconds", b.scope, b.limit, strconv.FormatFloat(seconds, 'f', -1, 64))
	}
	e.Details = append(details, '}')
	return e
}
