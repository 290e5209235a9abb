package leak

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// Peak runs f and returns by how many bytes the heap grew at most meanwhile. The collector runs often,
// so bytes that f has dropped count little. Nothing else may run at the same time.
func Peak(f func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	heap := func() int64 {
		s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
		metrics.Read(s)
		return int64(s[0].Value.Uint64())
	}
	runtime.GC()
	before, most := heap(), int64(0)
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				most = max(most, heap())
			case <-done:
				return
			}
		}
	}()
	f()
	last := heap()
	close(done)
	<-ended
	return max(most, last) - before
}
