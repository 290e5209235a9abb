package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// requested returns the context of a call of an owner whose request has n bytes. end ends both.
func requested(t *testing.T, p *Pool, name string, n int64) (ctx context.Context, end func()) {
	t.Helper()
	h := p.Hold("principal ", name)
	if !h.TryGrow(n) {
		t.Fatalf("there is no room for the request of %s", name)
	}
	ctx, s := counting(p, name)
	s.Within(&h)
	return ctx, func() {
		s.End()
		h.Release()
	}
}

// Calls do not wait for room that only they can free: the newest is refused, until the others have room.
func TestStandstill(t *testing.T) {
	for _, c := range []struct {
		name                string
		owners              []string
		request, made, take int64
		kept                int64
	}{
		{"requests of one owner", []string{"a", "a", "a"}, mb * 3 / 20, 0, mb * 3 / 10, mb * 3 / 10},
		{"requests of several owners", []string{"a", "b", "c", "d"}, mb * 3 / 20, 0, mb * 9 / 20, 0},
		{"copies of one owner", []string{"a", "a"}, 0, mb / 5, mb / 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPool(Options{Limit: mb, Wait: time.Hour})
				if !p.Account("artifacts").Keep(c.kept) {
					t.Fatal("there is no room for kept results")
				}
				began := time.Now()
				out, start := make(chan error), make(chan bool)
				for _, name := range c.owners {
					ctx, end := requested(t, p, name, c.request)
					if err := Take(ctx, c.made); err != nil {
						t.Fatal(err)
					}
					go func() {
						<-start
						err := Take(ctx, c.take)
						if err == nil {
							time.Sleep(100 * time.Millisecond) // at the server
						}
						end()
						out <- err
					}()
				}
				close(start)
				served := 0
				for range c.owners {
					err := <-out
					var full *Error
					switch {
					case err == nil:
						served++
					case !errors.As(err, &full) || !full.Unmade:
						t.Error(err)
					}
				}
				if passed := time.Since(began); served == 0 || passed > time.Second {
					t.Errorf("%d of %d calls are served after %v", served, len(c.owners), passed)
				}
				want(t, p, Usage{Memory: c.kept, Kept: c.kept})
			})
		})
	}
}

// A message that is to be opened does not wait for a call that waits for the message's call: that one gives up, as
// its server has not got it.
func TestStandstillBeforeAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: mb, Wait: time.Hour})
		began := time.Now()
		answered, end := requested(t, p, "a", mb/5)
		defer end()
		if err := Take(answered, mb/5); err != nil {
			t.Fatal(err)
		}
		waiting, stop := requested(t, p, "b", mb*3/10)
		go func() {
			var full *Error
			if err := Take(waiting, mb/2); !errors.As(err, &full) || !full.Unmade {
				t.Errorf("the call that waits gets %v", err)
			}
			stop()
		}()
		synctest.Wait()
		if err := p.wait(answered, "server up", mb/3, false); err != nil {
			t.Errorf("the answer is lost: %v", err)
		}
		p.giveOpen(mb / 3)
		if passed := time.Since(began); passed > time.Second {
			t.Errorf("it took %v", passed)
		}
	})
}

// Of several messages that wait to be opened, while the requests of their calls have the room, the newest is lost.
func TestStandstillOfAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: mb, Wait: time.Hour})
		began := time.Now()
		lost, start := make(chan bool), make(chan bool)
		for _, name := range []string{"a", "b"} {
			ctx, end := requested(t, p, name, mb*3/10)
			go func() {
				<-start
				err := p.wait(ctx, "server "+name, mb*3/10, false)
				if err == nil {
					p.giveOpen(mb * 3 / 10)
				}
				end()
				lost <- err != nil
			}()
		}
		close(start)
		if a, b := <-lost, <-lost; a == b || time.Since(began) > time.Second {
			t.Errorf("lost: %v, %v, after %v", a, b, time.Since(began))
		}
	})
}
