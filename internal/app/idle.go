package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go's runtime keeps the memory of a busy period for later use. A gateway on a desktop is idle most
// of the day, so ReturnMemory returns unused memory to the system after each busy period.
const (
	idleEvery = 5 * time.Second
	// quietBytes is the largest allocation within idleEvery that counts as idle: keep-alives,
	// timers, a log line.
	quietBytes = 1 << 20
	// worthBytes is the allocation since the last collection that makes another one worth its cost.
	worthBytes = 4 << 20
)

// ReturnMemory returns unused memory to the system after each busy period, until ctx ends.
func ReturnMemory(ctx context.Context) { returnWhenQuiet(ctx, heapAllocated, debug.FreeOSMemory) }

// returnWhenQuiet calls free once after each busy period, until ctx ends. allocated returns the
// bytes allocated since the process started.
func returnWhenQuiet(ctx context.Context, allocated func() uint64, free func()) {
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	last, freed := allocated(), uint64(0) // memory that only the start needed is returned, too
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := allocated()
		if now-last <= quietBytes && now-freed >= worthBytes {
			free()
			freed = allocated()
			now = freed
		}
		last = now
	}
}

// heapAllocated returns the bytes allocated since the process started.
func heapAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0 // the runtime does not have this metric: never free
	}
	return sample[0].Value.Uint64()
}
