package approval

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

func open() bool { return true }

func whole(Call) error { return nil }

// TestDecisions: a call ends with the operator's decision, when its time is up, or when its caller
// withdraws it, and then waits no longer.
func TestDecisions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Open: open})
		withdrawn, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, c := range []struct {
			tool  string
			ctx   context.Context
			want  error
			after time.Duration
		}{
			{"approved", t.Context(), nil, 25 * time.Second}, {"denied", t.Context(), nil, 25 * time.Second},
			{"late", t.Context(), ErrTooLate, time.Minute}, {"withdrawn", withdrawn, context.Canceled, 25 * time.Second},
		} {
			all.Go(func() {
				began, told := time.Now(), 0
				a, err := r.Ask(c.ctx, Question{Tool: c.tool}, time.Minute, func(id string, waited time.Duration) {
					if waited != time.Duration(told)*progressGap || len(id) != 6 {
						t.Errorf("%s: told %q after %s", c.tool, id, waited)
					}
					told++
				})
				if !errors.Is(err, c.want) || a.Approved != (c.tool == "approved") || c.tool == "denied" && a.Reason != "because" || time.Since(began) != c.after || told < 3 {
					t.Errorf("%s: %+v, %v after %s, told %d times", c.tool, a, err, time.Since(began), told)
				}
			})
		}
		time.Sleep(25 * time.Second)
		ids := map[string]string{}
		for _, c := range r.List() {
			ids[c.Tool] = c.ID
			if c.Until.Sub(c.Since) != time.Minute {
				t.Errorf("%+v", c)
			}
		}
		if len(ids) != 4 {
			t.Fatalf("waiting: %v", ids)
		}
		refused := errors.New("refused")
		if _, err := r.Decide(ids["approved"], Answer{Approved: true}, func(Call) error { return refused }); err != refused {
			t.Error(err)
		}
		for tool, a := range map[string]Answer{"approved": {Approved: true}, "denied": {Reason: "because"}} {
			if c, err := r.Decide(ids[tool], a, whole); err != nil || c.Tool != tool {
				t.Errorf("%s: %+v, %v", tool, c, err)
			}
			if _, err := r.Decide(ids[tool], a, whole); err != ErrUnknown {
				t.Errorf("%s twice: %v", tool, err)
			}
		}
		cancel()
		all.Wait()
		if left := r.List(); len(left) != 0 {
			t.Errorf("still there: %+v", left)
		}
	})
}

// TestBounds: without an operator nothing waits, and only so many calls do.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if _, err := New(Options{}).Ask(t.Context(), Question{}, time.Minute, nil); err != ErrNoOperator {
			t.Error(err)
		}
		r := New(Options{Open: open})
		var all sync.WaitGroup
		for range maxWaiting {
			all.Go(func() {
				if _, err := r.Ask(t.Context(), Question{}, time.Minute, nil); err != ErrTooLate {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if _, err := r.Ask(t.Context(), Question{}, time.Minute, nil); err != ErrFull {
			t.Error(err)
		}
		all.Wait()
		if len(r.List()) != 0 {
			t.Error("the room is not empty")
		}
	})
}

// TestOnePrincipal: one principal takes a part of the room, and leaves it to others.
func TestOnePrincipal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := New(Options{Open: func() bool { return true }})
		ask := func(principal string) error {
			_, err := r.Ask(t.Context(), Question{Principal: principal}, time.Minute, nil)
			return err
		}
		var all sync.WaitGroup
		for range maxOwn {
			all.Go(func() {
				if err := ask("loud"); err != ErrTooLate {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		if err := ask("loud"); err != ErrFull {
			t.Error(err)
		}
		if err := ask("quiet"); err != ErrTooLate {
			t.Error(err)
		}
		all.Wait()
	})
}
