package memory

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
	// againFor is how many ticks after the end of a busy period memory is last returned once more.
	againFor = 7
)

// ReturnMemory returns unused memory to the system after each busy period, until ctx ends.
func ReturnMemory(ctx context.Context) { returnWhenQuiet(ctx, heapAllocated, debug.FreeOSMemory) }

// returnWhenQuiet calls free after each busy period, until ctx ends: at the first quiet tick, and 1, 3
// and 7 ticks later. At the first, a large result may still be on its way to a file or to a client, and
// its memory is free later without a further allocation. After that, the runtime's own collection every
// two minutes serves. What was allocated little by little is returned once. allocated returns the bytes
// allocated since the process started.
func returnWhenQuiet(ctx context.Context, allocated func() uint64, free func()) {
	tick := time.NewTicker(idleEvery)
	defer tick.Stop()
	last, freed := allocated(), uint64(0) // memory that only the start needed is returned, too
	busy, since := false, againFor        // since: ticks from the first return of a busy period
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := allocated()
		if now-last > quietBytes {
			busy, last = true, now
			continue
		}
		again := false
		switch {
		case now-freed >= worthBytes:
			again = true
			if busy {
				busy, since = false, 0
			}
		case since < againFor:
			since++
			again = since&(since+1) == 0 // 1, 3, 7
		}
		if again {
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
