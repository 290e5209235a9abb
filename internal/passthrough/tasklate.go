package passthrough

import (
	"context"
	"sync"
	"time"

	"github.com/weir-mcp/weir/mcp"
)

const (
	// lateWait is when a store that did not answer is asked again.
	lateWait = 2 * time.Second
	// maxLate bounds the owners that wait for the store.
	maxLate = 10_000
)

// lateOwners are the owners of tasks that the store could not keep. The store may still have an
// earlier owner of such a task, so it is not asked about it. A goroutine writes them again until
// none is left. The zero value is ready to use.
type lateOwners struct {
	mu      sync.Mutex // guards below
	owners  map[string]taskOwner
	over    time.Time // until then the store may be outdated: an owner had no room
	running bool
	closed  bool
	ctx     context.Context // ends with close; made by the first add
	stop    context.CancelFunc
	done    sync.WaitGroup
}

// waits reports whether owners wait for the store.
func (l *lateOwners) waits() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.owners) > 0
}

// find returns an owner that waits. The error says that the store may be outdated about the task.
func (l *lateOwners) find(id string) (t taskOwner, ok bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t, ok = l.owners[id]; !ok && time.Now().Before(l.over) {
		err = mcp.Errorf(mcp.KindStoreUnavailable, "the store of this gateway did not keep whose tasks these are; try again")
	}
	return t, ok, err
}

// add keeps an owner until write has written it.
func (l *lateOwners) add(t taskOwner, write func(context.Context, taskOwner) error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.owners == nil {
		l.owners = map[string]taskOwner{}
	}
	if _, there := l.owners[t.id]; !there && len(l.owners) >= maxLate {
		l.over = time.Now().Add(taskTTL)
		return
	}
	l.owners[t.id] = t.clone()
	if l.running || l.closed {
		return
	}
	if l.stop == nil {
		l.ctx, l.stop = context.WithCancel(context.Background())
	}
	l.running = true
	l.done.Go(func() { l.run(write) })
}

// run writes the owners until none is left. When close is called, it tries once more.
func (l *lateOwners) run(write func(context.Context, taskOwner) error) {
	ticks := time.NewTicker(lateWait)
	defer ticks.Stop()
	for {
		select {
		case <-ticks.C:
			if l.sweep(l.ctx, write) {
				return
			}
		case <-l.ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), taskTime)
			defer cancel()
			l.sweep(ctx, write)
			return
		}
	}
}

// sweep writes the owners up to the first that the store does not keep. It reports whether none is
// left: then the goroutine ends.
func (l *lateOwners) sweep(ctx context.Context, write func(context.Context, taskOwner) error) (none bool) {
	for {
		l.mu.Lock()
		var t taskOwner
		for _, t = range l.owners {
			break
		}
		if len(l.owners) == 0 {
			l.running = false
			l.mu.Unlock()
			return true
		}
		l.mu.Unlock()
		if ctx.Err() != nil || write(ctx, t) != nil {
			return false
		}
		l.mu.Lock()
		if l.owners[t.id] == t { // else the task has another owner since
			delete(l.owners, t.id)
		}
		l.mu.Unlock()
	}
}

// close ends the goroutine and waits for it.
func (l *lateOwners) close() {
	l.mu.Lock()
	if l.closed = true; l.stop != nil {
		l.stop()
	}
	l.mu.Unlock()
	l.done.Wait()
}
