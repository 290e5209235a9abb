package upstream

import (
	"errors"
	"testing"
	"time"
)

// TestAttempts: what a call may expect of the next attempt, after failures and losses of a connection.
func TestAttempts(t *testing.T) {
	t.Parallel()
	began := time.Unix(1000, 0)
	refused, gone := errors.New("refused"), errors.New("gone")
	var a attempts
	expect := func(after time.Duration, seen int, want expectation) {
		t.Helper()
		wait, got := a.next(began.Add(after), seen, 10*time.Second)
		if got != want || (want == tryLater) != (wait > 0) {
			t.Errorf("%v later, with %d attempts seen, the call expects %d after %v, want %d", after, seen, got, wait, want)
		}
	}
	if _, same := a.fail(refused, began); same {
		t.Error("the first failure is like one before")
	}
	expect(0, 0, tryNever) // the attempt was for this call
	expect(0, 1, tryLater)
	expect(time.Second, 1, tryNow)
	for range 8 {
		if _, same := a.fail(refused, began); !same {
			t.Error("the same failure is another one")
		}
	}
	expect(time.Second, 9, tryNever) // the wait is long, and the last attempt just over
	expect(kickAfter, 9, tryNow)     // a call may start one before its time
	expect(time.Minute, 9, tryNow)   // it is due
	if a.succeed() || a.err != nil {
		t.Error("the first connection replaces another one")
	}
	a.lose(gone, began.Add(time.Hour), began)
	if a.failures != 1 || a.failed != 9 {
		t.Errorf("after a stable connection: %d failures, %d failed attempts", a.failures, a.failed)
	}
	expect(time.Hour, 8, tryLater) // it may be back, though the call has seen a failure
	expect(time.Hour+time.Second, 9, tryNow)
	expect(time.Hour+time.Minute, 8, tryNever)
	if !a.succeed() || a.succeed() {
		t.Error("a connection after a loss replaces the lost one, once")
	}
	a.lose(gone, began.Add(time.Hour+time.Second), began.Add(time.Hour))
	if a.failures != 2 {
		t.Errorf("after a short connection: %d failures", a.failures)
	}
}
