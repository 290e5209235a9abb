package cli

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Go collects when the heap has doubled. What a gateway keeps is small, a few
// megabytes, and a large call allocates a tenth of that: the heap would double
// every few calls. So in a busy time the heap may first grow to heapFloor, however
// little of it is in use; above, nothing changes. What was taken goes back once
// the gateway is quiet, and the next collection is Go's again (trim.go).
const (
	heapFloor = 24 << 20

	usualPercent = 100 // Go's own
	mostPercent  = 800
)

// heapKeeper sets the collector's target after each collection in a busy time.
type heapKeeper struct {
	live func() uint64 // bytes in use at the last collection
	set  func(percent int) (before int)

	mu      sync.Mutex // guards below
	busy    bool
	stopped bool
	waits   bool // for the end of a collection
	percent int
}

// collection is garbage from the start: that it is collected tells that a
// collection has ended.
type collection struct{ keeper *heapKeeper }

func newHeapKeeper() *heapKeeper {
	return &heapKeeper{live: heapLive, set: debug.SetGCPercent, percent: usualPercent}
}

// setBusy says whether it is a busy time.
func (k *heapKeeper) setBusy(busy bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy = busy
	k.adjustLocked()
}

// stop restores what was and ends everything.
func (k *heapKeeper) stop() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.busy, k.stopped = false, true
	k.adjustLocked()
}

// adjustLocked sets the target for what is in use now, and sees to it that it is
// called again after the next collection of a busy time. Small steps are not
// worth the stop that each takes.
func (k *heapKeeper) adjustLocked() {
	percent := usualPercent
	if k.busy && !k.stopped {
		percent = percentFor(k.live())
		if !k.waits {
			k.waits = true
			runtime.SetFinalizer(&collection{k}, (*collection).ended)
		}
	}
	diff := percent - k.percent
	if diff > k.percent/8 || diff < -k.percent/8 || diff != 0 && percent == usualPercent {
		k.percent = percent
		k.set(percent)
	}
}

func (c *collection) ended() {
	k := c.keeper
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waits = false
	k.adjustLocked()
}

// percentFor is by how much a heap of this size may grow until the next
// collection.
func percentFor(live uint64) int {
	if live == 0 {
		return mostPercent
	}
	if live >= heapFloor {
		return usualPercent
	}
	return int(min(max((heapFloor-live)*100/live, usualPercent), mostPercent))
}

// heapLive is the number of bytes that the last collection found in use.
func heapLive() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return heapFloor // a runtime without it is left alone
	}
	return sample[0].Value.Uint64()
}
