package hop

import (
	"slices"
	"sync"
	"time"
)

// pool keeps idle connections within bounds of number and time.
type pool struct {
	perHost, total int           // negative or, for total, zero: no bound
	after          time.Duration // after which an idle connection is closed; zero: never

	mu     sync.Mutex         // guards below
	conns  map[origin][]*conn // the one that became idle last is at the end
	count  int
	closed bool // since close, until the next get
	sweep  *time.Timer
	armed  bool
}

// origin is where connections go.
type origin struct {
	scheme, host string // as in the URL
}

// get returns the connection to an origin that became idle last, nil if there is none.
func (p *pool) get(to origin) *conn {
	for {
		c := p.pop(to)
		if c == nil || c.fresh() {
			return c
		}
		c.nc.Close()
	}
}

func (p *pool) pop(to origin) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	list := p.conns[to]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	p.conns[to] = list[:len(list)-1]
	p.count--
	return c
}

// put makes a connection idle, or closes it if there are enough for its origin.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.perHost < 0 || len(p.conns[c.to]) >= p.perHost {
		c.nc.Close()
		return
	}
	if p.total > 0 && p.count >= p.total {
		p.dropOldest()
	}
	if p.conns == nil {
		p.conns = map[origin][]*conn{}
	}
	c.used, c.since = true, time.Now()
	p.conns[c.to] = append(p.conns[c.to], c)
	p.count++
	if p.after > 0 && !p.armed {
		p.arm(p.after)
	}
}

// dropOldest closes the connection that was idle for longest. The caller holds mu.
func (p *pool) dropOldest() {
	var oldest *conn
	for _, list := range p.conns {
		if len(list) > 0 && (oldest == nil || list[0].since.Before(oldest.since)) {
			oldest = list[0]
		}
	}
	p.drop(oldest.to, 1)
}

// drop closes the n connections to an origin that were idle for longest. The caller holds mu.
func (p *pool) drop(to origin, n int) {
	list := p.conns[to]
	for _, c := range list[:n] {
		c.nc.Close()
	}
	p.count -= n
	if list = slices.Delete(list, 0, n); len(list) == 0 {
		delete(p.conns, to)
		return
	}
	p.conns[to] = list
}

// arm makes expire run after d. The caller holds mu.
func (p *pool) arm(d time.Duration) {
	p.armed = true
	if p.sweep == nil {
		p.sweep = time.AfterFunc(d, p.expire)
		return
	}
	p.sweep.Reset(d)
}

// expire closes the connections that were idle for too long.
func (p *pool) expire() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	now := time.Now()
	wait := time.Duration(-1)
	for to, list := range p.conns {
		n := 0
		for n < len(list) && now.Sub(list[n].since) >= p.after {
			n++
		}
		if n < len(list) { // drop moves the rest of the list
			if left := p.after - now.Sub(list[n].since); wait < 0 || left < wait {
				wait = left
			}
		}
		p.drop(to, n)
	}
	if wait >= 0 {
		p.arm(wait)
	}
}

// close closes all idle connections, and those that become idle before the next request.
func (p *pool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for to, list := range p.conns {
		p.drop(to, len(list))
	}
	if p.armed {
		p.armed = false
		p.sweep.Stop()
	}
}
