package work

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

func TestSpend(t *testing.T) {
	var none *Meter
	if none.Spend(1<<60) != nil || none.Err() != nil {
		t.Error("a nil Meter counts")
	}
	none.Close()
	m := NewMeter(t.Context(), Options{Limit: 1000})
	for range 1000 {
		if err := m.Spend(1); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if err := m.Spend(1); !errors.Is(err, ErrLimit) {
			t.Errorf("over the limit: %v", err)
		}
	}
	m = NewMeter(t.Context(), Options{})
	m.Limit(10)
	if err := m.Spend(10); err != nil || m.Spent() != 10 {
		t.Errorf("%v, %d spent", err, m.Spent())
	}
	m.Limit(0)
	if err := m.Spend(5 * look); err != nil {
		t.Error(err)
	}
	m.Limit(10)
	if err := m.Spend(11); !errors.Is(err, ErrLimit) {
		t.Errorf("over a limit that was set later: %v", err)
	}
	if m.Limit(0); !errors.Is(m.Spend(0), ErrLimit) {
		t.Error("a limit that is lifted takes the error back")
	}
	ctx, cancel := context.WithCancel(t.Context())
	m = NewMeter(ctx, Options{})
	if err := m.Spend(20 * look); err != nil {
		t.Error(err)
	}
	cancel()
	if err := m.Spend(2 * look); !errors.Is(err, context.Canceled) {
		t.Errorf("after the end of the context: %v", err)
	}
	if err := NewMeter(ctx, Options{}).Spend(1); !errors.Is(err, context.Canceled) {
		t.Errorf("after it from the beginning: %v", err)
	}
	m = NewMeter(ctx, Options{})
	for range 2 * look {
		m.Limit(100)
		if err := m.Spend(1); err != nil {
			break
		}
	}
	if m.Err() == nil {
		t.Error("limits that are set often keep the context from being looked at")
	}
	if err := m.Spend(0); !errors.Is(err, context.Canceled) || !errors.Is(m.Err(), context.Canceled) {
		t.Errorf("and again: %v", err)
	}
}

func TestTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMeter(t.Context(), Options{Timeout: 2 * time.Second})
		if err := m.Spend(2 * look); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		if err := m.Spend(2 * look); !errors.Is(err, ErrTime) {
			t.Errorf("%v", err)
		}
		// Waiting for a turn counts as well.
		turns := NewTurns(1)
		first := NewMeter(t.Context(), Options{Turns: turns})
		if err := first.Spend(2 * Small); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		second := NewMeter(t.Context(), Options{Turns: turns, Timeout: 3 * time.Second})
		if err := second.Spend(2 * Small); !errors.Is(err, ErrTime) || time.Since(began) != 3*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		// A small computation does not wait.
		third := NewMeter(t.Context(), Options{Turns: turns, Timeout: 3 * time.Second})
		if err := third.Spend(Small); err != nil {
			t.Error(err)
		}
		first.Close()
		first.Close()
		if err := third.Spend(Small); err != nil || !third.held {
			t.Errorf("%v, held %v", err, third.held)
		}
		third.Close()
		second.Close() // has none
		if len(turns.free) != 1 {
			t.Errorf("%d turns are free", len(turns.free))
		}
	})
}

// TestTurns: large computations come to their turns in order, and one that is
// abandoned in the line takes none with it.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := NewTurns(1)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 3 {
			wg.Go(func() {
				time.Sleep(time.Duration(i) * time.Millisecond) // the order of arrival
				m := NewMeter(t.Context(), Options{Turns: turns})
				defer m.Close()
				for m.spent < 3*share {
					if err := m.Spend(share); err != nil {
						t.Error(err)
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		wg.Go(func() {
			time.Sleep(3 * time.Millisecond)
			m := NewMeter(ctx, Options{Turns: turns})
			defer m.Close()
			if err := m.Spend(share); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%v", err)
			}
		})
		wg.Wait()
		want := []int{0, 1, 2, 0, 1, 2, 0, 1, 2}
		for i := range want {
			if len(order) != len(want) || order[i] != want[i] {
				t.Fatalf("order %v, want %v", order, want)
			}
		}
		if len(turns.free) != 1 {
			t.Errorf("%d turns are free", len(turns.free))
		}
	})
}

func BenchmarkSpend(b *testing.B) {
	m := NewMeter(b.Context(), Options{Turns: NewTurns(1), Timeout: time.Hour})
	defer m.Close()
	for b.Loop() {
		if err := m.Spend(100); err != nil {
			b.Fatal(err)
		}
	}
}

// TestTake: Room is asked before the bytes are held, seldom, with all that is held; its error ends
// the computation.
func TestTake(t *testing.T) {
	var none *Meter
	if none.Take(1<<60) != nil || none.Taken() != 0 {
		t.Error("a nil Meter counts")
	}
	full := errors.New("full")
	var asked []int64
	m := NewMeter(t.Context(), Options{Room: func(n int64) error {
		if asked = append(asked, n); n > 1<<20 {
			return full
		}
		return nil
	}})
	if err := m.Take(freeBytes); err != nil || len(asked) > 0 {
		t.Errorf("%v, asked for %v", err, asked)
	}
	var list []uint32
	var err error
	for err == nil {
		list, err = Append(m, list, 7)
	}
	if !errors.Is(err, full) || !errors.Is(m.Spend(1), full) || !errors.Is(m.Take(0), full) {
		t.Errorf("%v", err)
	}
	if held := int64(cap(list)) * 4; held > 1<<20 || held < 1<<18 {
		t.Errorf("%d bytes are held", held)
	}
	if len(asked) > 12 || asked[len(asked)-1] <= 1<<20 {
		t.Errorf("asked for %v", asked)
	}
}
