package memory

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// want checks what a pool holds.
func want(t *testing.T, p *Pool, u Usage) {
	t.Helper()
	u.Limit = p.Limit()
	if got := p.Usage(); got != u {
		t.Errorf("it holds %+v, want %+v", got, u)
	}
}

const mb = 1 << 20

// A small message has room, whatever else there is.
func TestSmallMessagesAreFree(t *testing.T) {
	p := NewPool(Options{Limit: mb})
	full := p.Account("kept")
	for full.Keep(1000) {
	}
	a := p.Account("a")
	hold := a.Hold()
	if err := hold.Grow(t.Context(), mb/4); err != nil {
		t.Fatal(err)
	}
	before := p.Usage()
	for range 100 {
		small := p.Account("b").Hold()
		if err := small.Grow(t.Context(), Free); err != nil {
			t.Fatal(err)
		}
		b := p.Account("b").NewBuffer(t.Context(), mb)
		if _, err := b.Write(make([]byte, Free)); err != nil {
			t.Fatal(err)
		}
		block, err := b.Block()
		if err != nil {
			t.Fatal(err)
		}
		defer block.Release()
	}
	want(t, p, before)
}

// What has no room waits for it, and not for ever.
func TestHoldWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: mb, Wait: time.Minute})
		first, second := p.Account("a").Hold(), p.Account("a").Hold()
		if err := first.Grow(t.Context(), mb/2); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err := second.Grow(t.Context(), mb/4)
		var full *Error
		if !errors.As(err, &full) || time.Since(began) < time.Minute {
			t.Errorf("an owner has more than half: %v after %v", err, time.Since(began))
		}
		other := p.Account("b").Hold()
		if err := other.Grow(t.Context(), mb/4); err != nil {
			t.Errorf("another owner: %v", err)
		}
		released := make(chan struct{})
		go func() {
			defer close(released)
			time.Sleep(time.Second)
			first.Release()
		}()
		began = time.Now()
		if err := second.Grow(t.Context(), mb/4); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		<-released
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := first.Grow(ctx, mb); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		other.Release()
		second.Release()
		second.Release()
		want(t, p, Usage{})
	})
}

// What is kept leaves room for what arrives.
func TestKept(t *testing.T) {
	p := NewPool(Options{Limit: 100})
	a := p.Account("results")
	if !a.Keep(50) || a.Keep(1) {
		t.Error("half of the limit is for what is kept")
	}
	a.Drop(50)
	want(t, p, Usage{})
}

// Owners have turns: who wants much does not shut out who wants little, and the
// largest has its turn, too.
func TestTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: 80 * mb, Wait: time.Hour})
		if p.mostOpen() != 30*mb {
			t.Fatal(p.mostOpen())
		}
		if err := p.wait(t.Context(), "first", 30*mb, false); err != nil {
			t.Fatal(err)
		}
		var mu sync.Mutex
		var order []string
		var all sync.WaitGroup
		enter := func(owner string, size int64) {
			all.Go(func() {
				if err := p.wait(t.Context(), owner, size, false); err != nil {
					t.Error(err)
				}
				mu.Lock()
				order = append(order, fmt.Sprint(owner, size/mb))
				mu.Unlock()
				time.Sleep(time.Second)
				p.giveOpen(size)
			})
			synctest.Wait()
		}
		for range 3 {
			enter("greedy", 25*mb)
		}
		enter("huge", 1000*mb)
		enter("other", 20*mb)
		enter("other", 10*mb)
		if p.Usage().Waiting != 6 {
			t.Errorf("%+v", p.Usage())
		}
		// While others wait, an arriving message has an eighth.
		if a := p.Account("arriving").Hold(); a.TryGrow(11*mb) || !a.TryGrow(10*mb) {
			t.Error("arriving messages are bounded by what waits")
		} else {
			a.Release()
		}
		p.giveOpen(30 * mb)
		all.Wait()
		if got := fmt.Sprint(order); got != "[greedy25 huge1000 other20 other10 greedy25 greedy25]" && got != "[greedy25 huge1000 other20 greedy25 other10 greedy25]" {
			t.Errorf("%s", got)
		}
		want(t, p, Usage{})
	})
}

// Who gives up is in no other's way.
func TestGivingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: 80, Wait: time.Hour})
		if err := p.wait(t.Context(), "a", 20, false); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		gone, there := make(chan error), make(chan error)
		go func() { gone <- p.wait(ctx, "b", 30, false) }()
		synctest.Wait()
		go func() { there <- p.wait(t.Context(), "c", 10, false) }()
		synctest.Wait()
		cancel()
		if err := <-gone; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		if err := <-there; err != nil {
			t.Error(err)
		}
		want(t, p, Usage{Memory: 30})
		if err := p.wait(t.Context(), "a", 1000, true); err != nil {
			t.Errorf("who holds a file already waits for its own: %v", err)
		}
		p.giveOpen(1000)
		p.giveOpen(10)
		p.giveOpen(20)
		want(t, p, Usage{})
		if len(p.owners) != 0 {
			t.Errorf("%d owners are left", len(p.owners))
		}
	})
}

// Whatever many goroutines do, the sums come out even and no limit is broken.
func TestSums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(Options{Limit: 64 * mb, Wait: time.Second})
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				random := rand.New(rand.NewPCG(1, uint64(i)))
				name := fmt.Sprint(i % 5)
				for range 200 {
					switch random.IntN(3) {
					case 0:
						size := random.Int64N(60 * mb)
						ctx, cancel := context.WithTimeout(t.Context(), time.Duration(random.Int64N(int64(time.Second))))
						if p.wait(ctx, name, size, false) == nil {
							time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
							p.giveOpen(size)
						}
						cancel()
					case 1:
						h := p.Account(name).Hold()
						if h.Grow(t.Context(), random.Int64N(8*mb)) == nil {
							time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
						}
						h.Release()
					case 2:
						if n := random.Int64N(8 * mb); p.Account(name).Keep(n) {
							time.Sleep(time.Duration(random.Int64N(int64(100 * time.Millisecond))))
							p.Account(name).Drop(n)
						}
					}
					if u := p.Usage(); u.Memory > u.Limit || u.Kept > u.Limit/2 || u.Memory < 0 {
						t.Errorf("%+v", u)
					}
				}
			})
		}
		all.Wait()
		want(t, p, Usage{})
		if len(p.owners) != 0 || len(p.turns) != 0 {
			t.Errorf("%d owners and %d turns are left", len(p.owners), len(p.turns))
		}
	})
}

// Without a pool nothing is bounded.
func TestNoPool(t *testing.T) {
	var p *Pool
	h := p.Account("a").Hold()
	if err := h.Grow(t.Context(), 1<<40); err != nil {
		t.Error(err)
	}
	h.Release()
	if !p.Account("a").Keep(1 << 40) {
		t.Error("nothing is kept")
	}
	p.Account("a").Drop(1 << 40)
	p.Close()
	if p.Usage() != (Usage{}) || p.Limit() != 0 {
		t.Error("it holds something")
	}
}

func TestGroupLimit(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	for name, test := range map[string]struct {
		files fstest.MapFS
		want  int64
	}{
		"nothing":            {fstest.MapFS{}, 0},
		"two, own":           {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1000\n")}, 1000},
		"two, above":         {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("700\n")}, 700},
		"two, the least":     {fstest.MapFS{"proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("900\n"), "sys/fs/cgroup/a/memory.max": file("800\n")}, 800},
		"two, a container":   {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("536870912\n")}, 536870912},
		"two, path outside":  {fstest.MapFS{"proc/self/cgroup": file("0::/../../other\n"), "sys/fs/cgroup/memory.max": file("600\n")}, 600},
		"two, no limit":      {fstest.MapFS{"proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n")}, 0},
		"one":                {fstest.MapFS{"proc/self/cgroup": file("9:cpu,cpuacct:/x\n5:memory:/docker/1\n1:name=systemd:/y\n"), "sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes": file("500\n")}, 500},
		"one, a container":   {fstest.MapFS{"proc/self/cgroup": file("5:memory:/docker/1\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("400\n")}, 400},
		"one, no limit":      {fstest.MapFS{"proc/self/cgroup": file("5:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, 0},
		"no lines of a kind": {fstest.MapFS{"proc/self/cgroup": file("nonsense\n\n:\n"), "sys/fs/cgroup/memory.max": file("1\n")}, 0},
	} {
		if got := groupLimit(test.files); got != test.want {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
