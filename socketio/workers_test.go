package socketio

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorkers()
		var ran atomic.Int64
		waiting := func() int64 { synctest.Wait(); return w.waiting.Load() }

		// One after the other takes one goroutine; each of many at once has its own.
		for range 5 {
			w.run(func() { ran.Add(1) })
			if n := waiting(); n != 1 {
				t.Fatalf("%d goroutines wait, want 1", n)
			}
		}
		release := make(chan struct{})
		var begun atomic.Int64
		// One that runs again takes no place from those that wait.
		w.run(func() { begun.Add(1); <-release; ran.Add(1) })
		if n := waiting(); n != 0 || begun.Swap(0) != 1 {
			t.Fatalf("%d goroutines wait, want 0", n)
		}
		for range 3 * maxIdle {
			w.run(func() { begun.Add(1); <-release; ran.Add(1) })
		}
		if synctest.Wait(); begun.Load() != 3*maxIdle {
			t.Errorf("%d run, want %d", begun.Load(), 3*maxIdle)
		}
		close(release)
		if n := waiting(); n != maxIdle {
			t.Errorf("%d goroutines wait, want %d", n, maxIdle)
		}
		time.Sleep(2 * workerWaits)
		if n := waiting(); n != 0 {
			t.Errorf("%d goroutines wait on", n)
		}

		// Who ends it waits for what runs, and for nobody who waits.
		w.run(func() { time.Sleep(time.Second); ran.Add(1) })
		start := time.Now()
		w.wait()
		if took := time.Since(start); took != time.Second {
			t.Errorf("the end took %s, want 1s", took)
		}
		if n := ran.Load(); n != 5+1+3*maxIdle+1 {
			t.Errorf("%d have run", n)
		}
	})
}
