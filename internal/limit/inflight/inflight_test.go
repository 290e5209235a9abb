package inflight_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-mcp/weir/internal/limit/inflight"
)

func TestDrainWaitsForTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g inflight.Group
		if left := g.Drain(nil); left != 0 {
			t.Fatalf("an empty group: %d left", left)
		}
		for i := range 3 {
			if !g.Enter() {
				t.Fatal("an open group refuses")
			}
			time.AfterFunc(time.Duration(i+1)*time.Second, g.Leave)
		}
		g.Close()
		if g.Enter() || !g.Closed() {
			t.Error("a closed group admits")
		}
		time.AfterFunc(5*time.Second, g.Leave)
		over := make(chan struct{})
		time.AfterFunc(1500*time.Millisecond, func() { close(over) })
		start := time.Now()
		if left := g.Drain(over); left != 3 || time.Since(start) != 1500*time.Millisecond {
			t.Errorf("%d left after %v, want 3 after 1.5s", left, time.Since(start))
		}
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if left := g.Drain(nil); left != 0 || time.Since(start) != 5*time.Second {
					t.Errorf("%d left after %v, want 0 after 5s", left, time.Since(start))
				}
			})
		}
		all.Wait()
		if g.Len() != 0 {
			t.Errorf("%d in progress", g.Len())
		}
	})
}

// TestDrainMissesNoLeave has work end at the very moment at which a Drain begins to wait.
func TestDrainMissesNoLeave(t *testing.T) {
	for range 2000 {
		var g inflight.Group
		var done atomic.Int64
		g.Enter()
		g.Enter()
		for range 2 {
			go func() {
				done.Add(1)
				g.Leave()
			}()
		}
		over := make(chan struct{})
		timer := time.AfterFunc(10*time.Second, func() { close(over) })
		if left := g.Drain(over); left != 0 || done.Load() != 2 {
			t.Fatalf("%d left, %d done", left, done.Load())
		}
		timer.Stop()
	}
}

func BenchmarkEnterLeave(b *testing.B) {
	var g inflight.Group
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			g.Enter()
			g.Leave()
		}
	})
}

func ExampleGroup() {
	var g inflight.Group
	for range 3 {
		g.Enter()
		go func() {
			defer g.Leave()
			// serve a request
		}()
	}
	g.Close() // no new requests
	fmt.Println(g.Drain(nil), "left")
	// Output: 0 left
}
