package cli

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestPercentFor(t *testing.T) {
	for _, tt := range []struct {
		live uint64
		want int
	}{
		{0, mostPercent}, {1 << 20, mostPercent}, {heapFloor / 4, 300}, {heapFloor / 2, usualPercent}, {heapFloor, usualPercent}, {1 << 40, usualPercent},
	} {
		if got := percentFor(tt.live); got != tt.want {
			t.Errorf("percentFor(%d) = %d, want %d", tt.live, got, tt.want)
		}
	}
}

// The target follows what is in use from collection to collection while it is
// busy, and is Go's own at any other time.
func TestHeapKeeper(t *testing.T) {
	var live, percent atomic.Int64
	live.Store(heapFloor / 4)
	k := newHeapKeeper()
	k.live = func() uint64 { return uint64(live.Load()) }
	k.set = func(p int) int { return int(percent.Swap(int64(p))) }
	k.setBusy(false)
	if got := percent.Load(); got != 0 {
		t.Fatalf("quiet from the start: set to %d", got)
	}
	k.setBusy(true)
	if got := percent.Load(); got != 300 {
		t.Fatalf("busy: %d, want 300", got)
	}
	live.Store(heapFloor)
	after := func(want int64) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); percent.Load() != want; runtime.Gosched() {
			runtime.GC()
			if time.Now().After(deadline) {
				t.Fatalf("after a collection: %d, want %d", percent.Load(), want)
			}
		}
	}
	after(usualPercent)
	live.Store(heapFloor / 8)
	after(700)
	k.setBusy(false)
	if got := percent.Load(); got != usualPercent {
		t.Fatalf("quiet: %d", got)
	}
	k.setBusy(true)
	k.stop()
	k.setBusy(true)
	if got := percent.Load(); got != usualPercent {
		t.Fatalf("stopped: %d", got)
	}
}

func TestHeapLive(t *testing.T) {
	runtime.GC()
	if n := heapLive(); n == 0 || n >= 1<<40 {
		t.Errorf("%d bytes in use", n)
	}
}
