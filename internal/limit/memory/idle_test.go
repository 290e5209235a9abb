package memory

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Memory is given back after each busy time, and never within one. What was still in use then is given
// back later.
func TestReturnMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var total, frees atomic.Uint64
		total.Store(10 << 20)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			defer close(done)
			returnWhenQuiet(ctx, total.Load, func() { frees.Add(1); total.Add(1000) })
		}()
		time.Sleep(time.Second) // so that no tick is at the moment of a change
		pass := func(ticks int, each, want uint64) {
			t.Helper()
			for range ticks {
				time.Sleep(idleEvery)
				synctest.Wait()
				total.Add(each)
			}
			if got := frees.Load(); got != want {
				t.Fatalf("%d times, want %d", got, want)
			}
		}
		pass(1, 0, 1)       // what the start took
		pass(5, 0, 1)       // nothing to give
		pass(10, 20<<20, 1) // busy
		pass(1, 0, 1)       // the end of it
		pass(1, 0, 2)       // quiet
		pass(1, 0, 3)       // once more for what was in use
		pass(2, 0, 4)       // and once more
		pass(4, 0, 5)       // and a last time
		pass(9, 0, 5)
		pass(4, quietBytes, 5) // keep-alives
		pass(1, 0, 6)          // which add up
		pass(9, 0, 6)
		pass(1, 20<<20, 6)
		pass(2, 0, 7)
		pass(2, 20<<20, 8) // busy again after the second return
		pass(1, 0, 8)
		pass(1, 0, 9)
		cancel()
		<-done
	})
}

func TestHeapAllocated(t *testing.T) {
	before := heapAllocated()
	big := make([]byte, 8<<20)
	if got := heapAllocated() - before; before == 0 || got < 8<<20 || got > 64<<20 {
		t.Errorf("8 MB count as %d", got)
	}
	runtime.KeepAlive(big)
}
