package history

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

func call(session string, took time.Duration, at time.Time) telemetry.Event {
	return telemetry.Event{Time: at, Name: telemetry.ExecuteCompleted, Session: session, MetaTool: "tool_execute", Duration: took, Counted: true, TokensRead: 2, TokensRaw: 20}
}

var morning = time.Date(2026, 11, 22, 8, 1, 0, 0, time.UTC)

// TestRecent pages through the newest events of one session, over the bound of the Book.
func TestRecent(t *testing.T) {
	var b Book
	for i := range Kept + 50 {
		e := call([]string{"even", "odd"}[i%2], time.Millisecond, morning)
		e.ToolID = fmt.Sprint(i)
		b.Observe(e)
	}
	odd := func(e *telemetry.Event) bool { return e.Session == "odd" }
	next, seen := uint64(math.MaxUint64), 0
	for more := true; more; {
		var found []Numbered
		found, more = b.Recent(next, 7, odd)
		for _, e := range found {
			if want := Kept + 49 - 2*seen; e.ToolID != fmt.Sprint(want) || e.Number != uint64(want) {
				t.Fatalf("event %d is %s, number %d; want %d", seen, e.ToolID, e.Number, want)
			}
			seen++
			next = e.Number
		}
	}
	if seen != Kept/2 {
		t.Errorf("%d events, want %d", seen, Kept/2)
	}
	if n, ok := b.Number(b.ID(7)); !ok || n != 7 {
		t.Errorf("the id of event 7 is that of %d, %t", n, ok)
	}
	var other Book
	if _, ok := other.Number(b.ID(7)); ok {
		t.Error("an id is known to another Book")
	}
}

// TestDay counts calls in steps of five minutes, forgets those older than a day, and tells bounds of
// the durations.
func TestDay(t *testing.T) {
	var b Book
	for i := range 100 {
		b.Observe(call("s", time.Duration(i+1)*time.Millisecond, morning))
	}
	failed := call("other", time.Second, morning.Add(5*time.Minute))
	failed.Code = "UPSTREAM_ERROR"
	b.Observe(failed)
	b.Observe(telemetry.Event{Time: morning, Name: telemetry.CatalogRefresh, Upstream: "files"})
	total, steps := b.Day(morning.Add(time.Hour))
	if total.Calls != 101 || total.Errors != 1 || total.TokensRead != 202 || total.TokensRaw != 2020 || len(steps) != 2 {
		t.Fatalf("%+v in %d steps", total, len(steps))
	}
	if first := steps[0]; !first.Start.Equal(morning.Truncate(Step)) || first.Calls != 100 || first.Errors != 0 {
		t.Errorf("the first step is %+v", first)
	}
	for _, p := range []struct{ got, exact time.Duration }{{steps[0].P50, 50 * time.Millisecond}, {steps[0].P95, 95 * time.Millisecond}} {
		if p.got < p.exact || float64(p.got) > 1.42*float64(p.exact) {
			t.Errorf("%v stands for %v", p.got, p.exact)
		}
	}
	own, _ := b.DayOf(morning.Add(time.Hour), func(e *telemetry.Event) bool { return e.Session == "other" })
	if own.Calls != 1 || own.Errors != 1 {
		t.Errorf("of one session: %+v", own)
	}
	b.Observe(call("s", time.Millisecond, morning.Add(25*time.Hour)))
	if total, steps := b.Day(morning.Add(25 * time.Hour)); total.Calls != 1 || len(steps) != 1 {
		t.Errorf("a day later: %+v in %d steps", total, len(steps))
	}
	b.Observe(call("s", time.Millisecond, morning.Add(-48*time.Hour))) // the clock was set back
	if total, _ := b.Day(morning.Add(25 * time.Hour)); total.Calls != 1 {
		t.Errorf("with an event of the past: %+v", total)
	}
}

func TestBuckets(t *testing.T) {
	for _, d := range []time.Duration{0, 1, firstEdge, firstEdge + 1, time.Millisecond, time.Second, time.Minute, 30 * time.Minute} {
		i := bucketOf(d)
		if edgeOf(i) < d || i > 0 && edgeOf(i-1) >= d {
			t.Errorf("%v is in the range from %v to %v", d, edgeOf(max(i-1, 0)), edgeOf(i))
		}
	}
	if i := bucketOf(1000 * time.Hour); i != buckets-1 {
		t.Errorf("very long calls are in range %d", i)
	}
}

// TestBounds: an event costs no allocation once the Book is full, and the memory of a Book is small.
func TestBounds(t *testing.T) {
	var b Book
	e := call("s", time.Millisecond, morning)
	e.Detail = strings.Repeat("x", maxDetail)
	for range Kept {
		b.Observe(e)
	}
	if n := testing.AllocsPerRun(100, func() { b.Observe(e) }); n != 0 {
		t.Errorf("%v allocations for an event", n)
	}
	if size := Kept*unsafe.Sizeof(e) + Steps*unsafe.Sizeof(step{}); size > 512<<10 {
		t.Errorf("a full Book has %d bytes", size)
	}
	long := e
	long.Detail = strings.Repeat("x", 10*maxDetail)
	b.Observe(long)
	if found, _ := b.Recent(math.MaxUint64, 1, func(*telemetry.Event) bool { return true }); len(found[0].Detail) > maxDetail+3 {
		t.Errorf("a detail of %d bytes is kept", len(found[0].Detail))
	}
}

// BenchmarkObserve prints what an event costs next to a function that does nothing with it.
func BenchmarkObserve(b *testing.B) {
	e := call("s", time.Millisecond, morning)
	const rounds = 1_000_000
	began := time.Now()
	for range rounds {
		discard(e)
	}
	baseline := float64(time.Since(began).Nanoseconds()) / rounds
	var book Book
	b.ReportAllocs()
	for b.Loop() {
		book.Observe(e)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/baseline, "x_baseline")
}

//go:noinline
func discard(telemetry.Event) {}
