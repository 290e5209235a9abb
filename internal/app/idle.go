package app

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Go's runtime keeps the memory of a busy hour for the next one. A gateway on a desk is idle most of
// the day, so unused memory is returned to the system once after each busy time.
const (
	idleEvery = 5 * time.Second
	// quietBytes is the most that is allocated within idleEvery while there are no calls:
	// keep-alives, timers, a log line.
	quietBytes = 1 << 20
	// worthBytes is how much must have been allocated since the last time for another collection to be
	// worth its cost.
	worthBytes = 4 << 20
)

// ReturnMemory returns unused memory to the system after each busy time, until ctx ends.
func ReturnMemory(ctx context.Context) { returnWhenQuiet(ctx, heapAllocated, debug.FreeOSMemory) }

// returnWhenQuiet calls free once after each busy time, until ctx ends. allocated returns the number
// of bytes that were allocated since the start of the process.
func returnWhenQuiet(ctx context.Context, allocated func() uint64, free func()) {
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	last, freed := allocated(), uint64(0) // what the start took is returned as well
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

// heapAllocated returns the number of bytes that were allocated since the start of the process.
func heapAllocated() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0 // a runtime without it is left alone
	}
	return sample[0].Value.Uint64()
}
