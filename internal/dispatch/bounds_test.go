package dispatch

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/catalog"
	"github.com/weir-mcp/weir/internal/flow"
)

func TestCacheIsBounded(t *testing.T) {
	newest := sampleCatalog(t)
	k := NewCache(CacheOptions{MaxBytes: 3 * (1000 + cacheOverhead)}, func() *catalog.Catalog { return newest })
	of := k.current()
	for i := range 10 {
		k.put(cacheKey{toolID: fmt.Sprint(i)}, of, make(json.RawMessage, 1000), flow.Label{})
	}
	k.put(cacheKey{toolID: "large"}, of, make(json.RawMessage, 10_000), flow.Label{})
	if k.recent.Len() != 3 || len(k.entries) != 3 || k.bytes > k.opts.MaxBytes || k.get(new(Call), cacheKey{toolID: "large"}, of) {
		t.Errorf("%d entries, %d bytes", k.recent.Len(), k.bytes)
	}
}

func TestBucketMemoryIsBounded(t *testing.T) {
	st := new(Ledger)
	scopes := []scope{{"x", RateLimit{PerMinute: 10}}}
	for i := range 10_000 {
		st.take(time.Duration(i)*time.Second, true, scopes)
	}
	if n := cap(st.buckets["x"].recent); n > 10 {
		t.Errorf("%d times are remembered for a limit of 10", n)
	}
}

func TestRetryDelays(t *testing.T) {
	p := RetryPolicy{BaseDelay: 100 * time.Millisecond, MaxDelay: time.Second}.withDefaults()
	for n, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
		if got := p.delay(n + 1); got != want*time.Millisecond {
			t.Errorf("before attempt %d: %s", n+2, got)
		}
	}
	if got := p.delay(1000); got != time.Second {
		t.Errorf("after many: %s", got)
	}
	p.Jitter, p.Random = .5, func() float64 { return .5 }
	if got := p.delay(1); got != 75*time.Millisecond {
		t.Errorf("with jitter: %s", got)
	}
	if p = (RetryPolicy{Jitter: 7}).withDefaults(); p.Jitter != 1 || p.BaseDelay != defaultRetryBase || p.MaxDelay != defaultRetryMax {
		t.Errorf("%+v", p)
	}
	if got := (RetryPolicy{BaseDelay: time.Minute, MaxDelay: time.Second, Random: func() float64 { return 0 }}).delay(1); got != time.Second {
		t.Errorf("a base over the bound: %s", got)
	}
}

// TestEndsMeet: both ends of a text are the whole text where nothing is hidden.
func TestEndsMeet(t *testing.T) {
	for n := range shownHead + shownTail + 50 {
		text := strings.Repeat("é", n)
		head, tail, hidden := ends(text, true)
		if strings.Count(head, "é")+strings.Count(tail, "é")+hidden != n || hidden == 0 && (tail != "" || head != text) {
			t.Fatalf("%d: %d + %d + %d hidden", n, len(head), len(tail), hidden)
		}
	}
}
