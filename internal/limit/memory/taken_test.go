package memory

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// counting returns the context of a call of an owner.
func counting(p *Pool, name string) (context.Context, *Scope) {
	ctx, s := WithScope(context.Background())
	s.Count(p, "principal ", name)
	return ctx, s
}

// A call takes what it makes, can take again what it gives, and returns all of it with its Scope.
func TestTake(t *testing.T) {
	p := NewPool(Options{Limit: mb})
	ctx, s := counting(p, "a")
	for _, step := range []struct {
		take, give, held int64
	}{
		{take: Free, held: 0},
		{take: 1, held: Free + 1},
		{take: Free, held: 2*Free + 1},
		{give: Free, held: 2*Free + 1},
		{take: Free, held: 2*Free + 1},
		{take: 1, held: 2*Free + 2},
	} {
		if step.take > 0 {
			if err := Take(ctx, step.take); err != nil {
				t.Fatal(err)
			}
		}
		Give(ctx, step.give)
		want(t, p, Usage{Memory: step.held})
	}
	if err := Reserve(ctx, mb/4); err != nil {
		t.Fatal(err)
	}
	held := p.Usage().Memory
	if err := Take(ctx, mb/4); err != nil || p.Usage().Memory != held {
		t.Errorf("what was reserved is taken again: %v, %+v", err, p.Usage())
	}
	s.End()
	s.End()
	want(t, p, Usage{})
}

// What a call makes has no room while others have it, and gets it when they end. What no call can have is
// refused at once.
func TestTakeWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: mb, Wait: time.Minute})
		first, end := counting(p, "a")
		second, s := counting(p, "a")
		defer s.End()
		if err := Take(first, mb/2); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		var full *Error
		if err := Take(second, mb/4); !errors.As(err, &full) || full.Most != 0 || time.Since(began) < time.Minute {
			t.Errorf("one owner has more than half: %v after %v", err, time.Since(began))
		}
		time.AfterFunc(time.Second, end.End)
		if err := Take(second, mb/4); err != nil {
			t.Errorf("the room of a call that has ended: %v", err)
		}
		began = time.Now()
		if err := Take(second, mb); !errors.As(err, &full) || full.Most != mb/2 || time.Since(began) > 0 {
			t.Errorf("more than there ever is: %v after %v", err, time.Since(began))
		}
	})
}

// Messages in reception leave room for what calls make of those that have arrived.
func TestTakeBesideFullReception(t *testing.T) {
	p := NewPool(Options{Limit: mb})
	full := []Hold{p.Account("a").Hold(), p.Account("b").Hold()}
	for i := range full {
		for n := int64(Free); full[i].TryGrow(n); n += Free {
		}
		defer full[i].Release()
	}
	ctx, s := counting(p, "a")
	defer s.End()
	if err := Take(ctx, mb/4); err != nil {
		t.Error(err)
	}
}

// Bytes that have to be made do not wait for room that kept results and the open message of the call never leave.
func TestTakeShareBesideKeptAndOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: mb, Wait: time.Minute})
		ctx, s := counting(p, "a")
		defer s.End()
		if n, err := TakeShare(ctx, mb); err != nil || n != mb/2 {
			t.Errorf("of an empty account %d bytes are counted: %v", n, err)
		}
		s.End()
		if !p.Account("a").Keep(mb / 2) {
			t.Fatal("half of the limit cannot be kept")
		}
		if err := p.wait(t.Context(), "server up", mb, false); err != nil {
			t.Fatal(err)
		}
		defer p.giveOpen(mb)
		ctx, s = counting(p, "a")
		defer s.End()
		began := time.Now()
		if n, err := TakeShare(ctx, mb); err != nil || n != mb/8 || time.Since(began) > 0 {
			t.Errorf("%d bytes are counted after %v: %v", n, time.Since(began), err)
		}
		next, end := counting(p, "b")
		time.AfterFunc(time.Second, s.End)
		if n, err := TakeShare(next, mb); err != nil || n != mb/8 {
			t.Errorf("the next call counts %d bytes: %v", n, err)
		}
		end.End()
	})
}

// What was taken goes on with the bytes of a result that is handed to another call.
func TestHandTaken(t *testing.T) {
	p := NewPool(Options{Limit: mb})
	inner, s := counting(p, "a")
	if err := Take(inner, mb/4); err != nil {
		t.Fatal(err)
	}
	outer, end := WithScope(context.Background())
	s.Hand(outer, nil)
	s.End()
	want(t, p, Usage{Memory: mb / 4})
	end.End()
	want(t, p, Usage{})
}

// TestDetach: bytes that wait after their call count until their Block is released, and not in the call.
func TestDetach(t *testing.T) {
	p := NewPool(Options{Limit: 4 << 20})
	ctx, scope := WithScope(t.Context())
	scope.Count(p, "principal ", "ann")
	if err := Take(ctx, 1<<20); err != nil {
		t.Fatal(err)
	}
	waits, moved := Detach(ctx, 600<<10)
	Give(ctx, 1<<20-moved)
	scope.End()
	if u := p.Usage(); moved != 600<<10 || u.Memory != moved {
		t.Errorf("%d bytes are moved, and there is %+v", moved, u)
	}
	waits.Release()
	waits.Release()
	if u := p.Usage(); u.Memory != 0 {
		t.Errorf("in the end there is %+v", u)
	}
	if none, moved := Detach(t.Context(), 1<<20); none != nil || moved != 0 {
		t.Errorf("without a Scope: %v, %d", none, moved)
	}
}
