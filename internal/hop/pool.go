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
	conns  map[string][]*conn // by host; the one that became idle last is at the end
	count  int
	closed bool // since close, until the next get
	sweep  *time.Timer
	armed  bool
}

// get returns the connection to a host that became idle last, nil if there is none.
func (p *pool) get(host string) *conn {
	for {
		c := p.pop(host)
		if c == nil || c.fresh() {
			return c
		}
		c.nc.Close()
	}
}

func (p *pool) pop(host string) *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = false
	list := p.conns[host]
	if len(list) == 0 {
		return nil
	}
	c := list[len(list)-1]
	list[len(list)-1] = nil
	p.conns[host] = list[:len(list)-1]
	p.count--
	return c
}

// put makes a connection idle, or closes it if there are enough for its host.
func (p *pool) put(c *conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.perHost < 0 || len(p.conns[c.host]) >= p.perHost {
		c.nc.Close()
		return
	}
	if p.total > 0 && p.count >= p.total {
		p.dropOldest()
	}
	if p.conns == nil {
		p.conns = map[string][]*conn{}
	}
	c.used, c.since = true, time.Now()
	p.conns[c.host] = append(p.conns[c.host], c)
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
	p.drop(oldest.host, 1)
}

// drop closes the n connections of a host that were idle for longest. The caller holds mu.
func (p *pool) drop(host string, n int) {
	list := p.conns[host]
	for _, c := range list[:n] {
		c.nc.Close()
	}
	p.count -= n
	if list = slices.Delete(list, 0, n); len(list) == 0 {
		delete(p.conns, host)
		return
	}
	p.conns[host] = list
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
	for host, list := range p.conns {
		n := 0
		for n < len(list) && now.Sub(list[n].since) >= p.after {
			n++
		}
		p.drop(host, n)
		if n < len(list) {
			if left := p.after - now.Sub(list[n].since); wait < 0 || left < wait {
				wait = left
			}
		}
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
	for host, list := range p.conns {
		p.drop(host, len(list))
	}
	if p.armed {
		p.armed = false
		p.sweep.Stop()
	}
}
