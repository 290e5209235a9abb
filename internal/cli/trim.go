package cli

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go's runtime keeps what a busy hour took, in the expectation of the next one. A
// gateway that runs on somebody's desk is idle most of the day, so what is free
// goes back to the system as soon as nothing happens.
const (
	trimEvery = 5 * time.Second
	// quietBytes is what is allocated at most within trimEvery when nobody calls:
	// keep-alives, timers, a log line.
	quietBytes = 1 << 20
	// worthBytes is how much must have been allocated since the last time for
	// another to be worth a collection.
	worthBytes = 4 << 20
)

// trimMemory keeps this process small until ctx ends.
func (a *app) trimMemory(ctx context.Context) {
	a.boundHeap(groupLimit())
	busy := func(bool) {}
	if _, set := a.lookupEnv("GOGC"); !set { // who sets it wants it
		heap := newHeapKeeper()
		defer heap.stop()
		busy = heap.setBusy
	}
	trim(ctx, heapAllocated, freeMemory, busy)
}

// trim calls free once after each busy time, until ctx ends, and busy with
// whether it is one. allocated is the number of bytes allocated since the start
// of the process.
func trim(ctx context.Context, allocated func() uint64, free func(), busy func(bool)) {
	tick := time.NewTicker(trimEvery)
	defer tick.Stop()
	last, freed := allocated(), uint64(0) // what the start took is given back as well
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := allocated()
		busy(now-last > quietBytes)
		if now-last <= quietBytes && now-freed >= worthBytes {
			free()
			freed = allocated()
			now = freed
		}
		last = now
	}
}

// freeMemory gives back what is free. What a sync.Pool holds is free only after
// the second collection.
func freeMemory() {
	debug.FreeOSMemory()
	debug.FreeOSMemory()
	forgetCode()
}

// heapAllocated is for trim.
func heapAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0 // a runtime without it is left alone
	}
	return sample[0].Value.Uint64()
}
