package memory

import (
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// garbage are returned bytes that may still be on the heap. The runtime collects when the heap has doubled, so
// the process could have twice the limit, and as much as everything else in it has. A Pool therefore collects
// earlier: bytes in use and garbage together are half as many again as the limit, at most.
type garbage struct {
	collecting sync.Mutex // held by the goroutine that collects; before Pool.mu

	// Guarded by Pool.mu.
	cycle      uint64 // completed collections at the time of the last count
	young, old int64  // since then, and in the cycle before, which may have been under way already
	all        int64  // ever
}

// collect frees unreachable bytes. collections returns how often that was done. They are variables for tests.
var (
	collect     = debug.FreeOSMemory
	collections = func() uint64 {
		s := [1]metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
		metrics.Read(s[:])
		return s[0].Value.Uint64()
	}
)

// age forgets the bytes that the runtime has collected. The caller holds mu.
func (p *Pool) age() {
	g := &p.garbage
	switch now := collections(); now - g.cycle {
	case 0:
	case 1:
		g.cycle, g.old, g.young = now, g.young, 0
	default:
		g.cycle, g.old, g.young = now, 0, 0
	}
}

// discard counts n bytes that are garbage now, or soon.
func (p *Pool) discard(n int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age()
	p.garbage.young += n
	p.garbage.all += n
}

// sweep makes room on the heap for n bytes that are about to be taken.
func (p *Pool) sweep(n int64) {
	if _, much := p.litter(n); !much {
		return
	}
	p.garbage.collecting.Lock()
	defer p.garbage.collecting.Unlock()
	before, much := p.litter(n) // another goroutine may have collected meanwhile
	if !much {
		return
	}
	collect()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age()
	g := &p.garbage
	g.young, g.old = min(g.young+g.old, g.all-before), 0
}

// litter returns all garbage ever, and whether there is too much now for n more bytes.
func (p *Pool) litter(n int64) (all int64, much bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.age()
	garbage := p.garbage.young + p.garbage.old
	return p.garbage.all, garbage > p.o.Limit/4 && p.used-p.open+garbage+n > p.o.Limit/2*3
}
