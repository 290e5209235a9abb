package usage

import (
	"sync"
	"time"
)

// Bounds of the queue, and of the processor time that counting takes from calls: after each result,
// the counter rests countingRest times as long as the count took. So a hundred results of 100 KB
// are counted in a second.
const (
	maxCounting      = 256
	maxCountingBytes = 16 << 20
	countingRest     = 9
)

// counter runs work in one goroutine, which ends when the queue is empty.
type counter struct {
	wg sync.WaitGroup

	mu      sync.Mutex // guards below
	closed  bool
	closing chan struct{} // closed with it; there once the goroutine has been
	running bool
	queue   []countJob
	bytes   int64
}

type countJob struct {
	size int64
	run  func()
}

// push queues run. It returns false if the queue is full.
func (k *counter) push(size int64, run func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	// A single item of any size is accepted; otherwise the largest would never be counted.
	if k.closed || len(k.queue) >= maxCounting || k.bytes > 0 && k.bytes+size > maxCountingBytes {
		return false
	}
	k.queue = append(k.queue, countJob{size, run})
	k.bytes += size
	if !k.running {
		k.running = true
		if k.closing == nil {
			k.closing = make(chan struct{})
		}
		k.wg.Go(k.work)
	}
	return true
}

func (k *counter) work() {
	for {
		k.mu.Lock()
		if len(k.queue) == 0 {
			k.running, k.queue = false, nil
			k.mu.Unlock()
			return
		}
		job := k.queue[0]
		k.queue[0] = countJob{}
		k.queue = k.queue[1:]
		k.mu.Unlock()
		start := time.Now()
		job.run()
		took := time.Since(start)
		k.mu.Lock()
		k.bytes -= job.size
		more := len(k.queue) > 0
		k.mu.Unlock()
		if more {
			k.rest(countingRest * took)
		}
	}
}

// rest waits, unless the counter is closed.
func (k *counter) rest(d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.closing:
	}
}

// close accepts no more work and waits for the queued work.
func (k *counter) close() {
	k.mu.Lock()
	if !k.closed && k.closing != nil {
		close(k.closing)
	}
	k.closed = true
	k.mu.Unlock()
	k.wg.Wait()
}
