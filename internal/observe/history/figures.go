package history

import (
	"math"
	"time"

	"github.com/weir-mcp/weir/internal/observe/telemetry"
)

const (
	// Step is the length of one step of Figures.
	Step = 5 * time.Minute
	// Steps is the number of steps that a Book keeps: one day.
	Steps = 288
	// buckets is the number of ranges of durations. Range i ends at 2^(i/2) × 100 µs, so that a
	// percentile is at most 41 % above the duration that it stands for, and the last range ends at
	// an hour.
	buckets   = 52
	firstEdge = 100 * time.Microsecond
)

// A step counts the calls of one step.
type step struct {
	number               int64 // since 1970; 0: never used
	calls, errors        int64
	tokensRead, tokenRaw int64
	took                 [buckets]uint32
}

// IsCall reports whether an event is a call of a client, in contrast to a change of the catalog.
func IsCall(e *telemetry.Event) bool { return e.MetaTool != "" || e.Method != "" }

// Failed reports whether a call ended with an error, of the gateway or of the tool.
func Failed(e *telemetry.Event) bool { return e.Code != "" || e.IsError }

// count adds an event to its step. The caller holds b.mu.
func (b *Book) count(e *telemetry.Event) {
	if !IsCall(e) {
		return
	}
	if b.steps == nil {
		b.steps = make([]step, Steps)
	}
	number := e.Time.Unix() / int64(Step/time.Second)
	s := &b.steps[((number%Steps)+Steps)%Steps]
	switch {
	case s.number > number:
		return // the clock was set back by more than a day
	case s.number < number:
		*s = step{number: number}
	}
	s.add(e)
}

func (s *step) add(e *telemetry.Event) {
	s.calls++
	if Failed(e) {
		s.errors++
	}
	if e.Counted {
		s.tokensRead += int64(e.TokensRead)
		s.tokenRaw += int64(e.TokensRaw)
	}
	s.took[bucketOf(e.Duration)]++
}

// bucketOf returns the range of a duration.
func bucketOf(d time.Duration) int {
	if d <= firstEdge {
		return 0
	}
	return min(int(math.Ceil(2*math.Log2(float64(d)/float64(firstEdge)))), buckets-1)
}

// edgeOf returns the end of a range.
func edgeOf(i int) time.Duration {
	return time.Duration(float64(firstEdge) * math.Pow(2, float64(i)/2))
}

// Figures are the sums of calls over some time.
type Figures struct {
	Calls, Errors         int64
	TokensRead, TokensRaw int64
	// P50 and P95 bound the durations of half of the calls and of 95 of 100, from above. They are 0
	// without a call.
	P50, P95 time.Duration
}

// A StepFigures is the Figures of one step, which starts at Start.
type StepFigures struct {
	Start time.Time
	Figures
}

// A tally makes Figures of steps.
type tally struct {
	step
}

func (t *tally) merge(s *step) {
	t.calls += s.calls
	t.errors += s.errors
	t.tokensRead += s.tokensRead
	t.tokenRaw += s.tokenRaw
	for i, n := range s.took {
		t.took[i] += n
	}
}

func (s *step) figures() Figures {
	return Figures{
		Calls: s.calls, Errors: s.errors, TokensRead: s.tokensRead, TokensRaw: s.tokenRaw, P50: s.percentile(50), P95: s.percentile(95),
	}
}

// percentile returns the end of the range in which p of 100 calls have ended.
func (s *step) percentile(p int64) time.Duration {
	var all, seen int64
	for _, n := range s.took {
		all += int64(n)
	}
	if all == 0 {
		return 0
	}
	rank := (all*p + 99) / 100
	for i, n := range s.took {
		if seen += int64(n); seen >= rank {
			return edgeOf(i)
		}
	}
	return edgeOf(buckets - 1)
}

// Day returns the figures of the day before now, in all and by step. Steps without a call are left
// out; the oldest is the first.
func (b *Book) Day(now time.Time) (total Figures, steps []StepFigures) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return day(b.steps, now)
}

// DayOf is Day of those remembered events for which fits reports true. Older events do not count.
func (b *Book) DayOf(now time.Time, fits func(*telemetry.Event) bool) (total Figures, steps []StepFigures) {
	var some Book
	found, _ := b.Recent(math.MaxUint64, Kept, fits)
	for i := range found {
		some.count(&found[i].Event)
	}
	return day(some.steps, now)
}

// day returns the figures of the steps of the day before now.
func day(all []step, now time.Time) (total Figures, steps []StepFigures) {
	if all == nil {
		return Figures{}, nil
	}
	var sum tally
	newest := now.Unix() / int64(Step/time.Second)
	for number := newest - Steps + 1; number <= newest; number++ {
		s := &all[((number%Steps)+Steps)%Steps]
		if s.number != number {
			continue
		}
		sum.merge(s)
		steps = append(steps, StepFigures{time.Unix(number*int64(Step/time.Second), 0).UTC(), s.figures()})
	}
	return sum.figures(), steps
}
