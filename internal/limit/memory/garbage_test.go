package memory

import (
	"runtime"
	"runtime/metrics"
	"sync"
	"testing"
)

// Returned bytes that the runtime has not collected count, until there is too much of them for the next taker.
func TestSweep(t *testing.T) {
	cycles, swept := uint64(7), 0
	defer func(c func(), n func() uint64) { collect, collections = c, n }(collect, collections)
	collect = func() { cycles++; swept++ }
	collections = func() uint64 { return cycles }
	p := NewPool(Options{Limit: mb})
	use := func(parts ...int64) {
		t.Helper()
		for _, n := range parts {
			h := p.Hold("", "a")
			if !h.TryGrow(n) {
				t.Fatalf("there is no room for %d bytes", n)
			}
			h.Release()
		}
	}
	for _, step := range []struct {
		name  string
		do    func()
		swept int
	}{
		{"half as much again as the limit", func() { use(mb/2, mb/2) }, 0},
		{"more than that", func() { use(mb / 2); use(mb / 2) }, 1},
		{"after it, again", func() { use(mb/2, mb/2) }, 1},
		{"the runtime has collected what was there before its last cycle", func() { cycles += 2; use(mb/2, mb/2, mb/2) }, 1},
		{"one cycle may have been under way", func() { cycles++; use(mb / 2) }, 2},
		{"copies that one call makes again and again", func() {
			cycles += 2
			ctx, s := counting(p, "a")
			defer s.End()
			for range 4 {
				if err := Take(ctx, mb/2); err != nil {
					t.Fatal(err)
				}
				Give(ctx, mb/2)
			}
		}, 3},
	} {
		if step.do(); swept != step.swept {
			t.Errorf("%s: collected %d times, want %d", step.name, swept, step.swept)
		}
	}
}

// The heap stays bounded however often bytes are taken and returned. The bound is loose: the collector keeps bytes that
// the stack of an interrupted goroutine seems to name.
func TestSweepBoundsTheHeap(t *testing.T) {
	const limit = 64 << 20
	heap := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	base := make([]byte, 64<<20) // as other data of the process, so that the runtime would collect late
	for i := range base {
		base[i] = 1
	}
	runtime.GC()
	idle := heap()
	p := NewPool(Options{Limit: limit})
	var mu sync.Mutex
	var most int64
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 40 {
				h := p.Hold("", string(rune('a'+i)))
				size := int64(5+i) << 20
				if h.Grow(t.Context(), size) != nil {
					continue
				}
				data := make([]byte, size)
				mu.Lock()
				most = max(most, heap())
				mu.Unlock()
				runtime.KeepAlive(data)
				h.Release()
			}
		})
	}
	all.Wait()
	runtime.KeepAlive(base)
	if over := most - idle; over > 3*limit {
		t.Errorf("the heap grew by %d MB, the limit is %d MB", over>>20, limit>>20)
	}
}
