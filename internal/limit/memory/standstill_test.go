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

// Messages that arrive without files, and that each hold a part, do not wait for each other's part: the newest is
// refused, so that the others have room.
func TestStandstillOfMessages(t *testing.T) {
	for _, owners := range [][]string{{"a", "a"}, {"a", "b", "c"}} {
		synctest.Test(t, func(t *testing.T) {
			p := NewPool(Options{Limit: 8 * mb, Wait: time.Hour})
			began := time.Now()
			out, start := make(chan error), make(chan bool)
			for _, name := range owners {
				b := p.Account(name).NewBuffer(t.Context(), 8*mb)
				if _, err := b.Write(pattern(2 * mb)); err != nil {
					t.Fatal(err)
				}
				go func() {
					<-start
					_, err := b.Write(pattern(mb))
					b.Drop()
					out <- err
				}()
			}
			close(start)
			served := 0
			for range owners {
				var full *Error
				switch err := <-out; {
				case err == nil:
					served++
				case !errors.As(err, &full):
					t.Error(err)
				}
			}
			if passed := time.Since(began); served == 0 || served == len(owners) || passed > time.Second {
				t.Errorf("%d of %d messages of %v have arrived after %v", served, len(owners), owners, passed)
			}
			want(t, p, Usage{})
		})
	}
}

// The body of a request that waits for the rest gives up before the answer of a server is lost.
func TestStandstillOfBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: 8 * mb, Wait: time.Hour})
		began := time.Now()
		b := p.Account("server up").NewBuffer(t.Context(), 8*mb)
		if _, err := b.Write(pattern(2 * mb)); err != nil {
			t.Fatal(err)
		}
		if !p.Account("artifacts").Keep(mb) {
			t.Fatal("there is no room for kept results")
		}
		body := p.Hold("principal ", "a")
		if !body.TryGrow(3 * mb) {
			t.Fatal("there is no room for the body")
		}
		go func() {
			var full *Error
			if err := body.Grow(t.Context(), 4*mb); !errors.As(err, &full) {
				t.Errorf("the body gets %v", err)
			}
			body.Release()
		}()
		synctest.Wait()
		if _, err := b.Write(pattern(mb)); err != nil {
			t.Errorf("the answer is lost: %v", err)
		}
		b.Drop()
		if passed := time.Since(began); passed > time.Second {
			t.Errorf("it took %v", passed)
		}
	})
}
