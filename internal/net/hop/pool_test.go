package hop

import (
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// TestExpiry: of the connections to one origin, those end that were idle for too long, whatever part of all they are,
// and the others end when their time comes.
func TestExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &pool{perHost: 8, after: time.Minute}
		to := origin{"http", "server"}
		put := func(n int) {
			for range n {
				near, _ := net.Pipe()
				p.put(&conn{nc: near, to: to})
			}
		}
		left := func(want int) {
			t.Helper()
			synctest.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			if len(p.conns[to]) != want || p.count != want {
				t.Errorf("%d connections are left and %d counted, want %d", len(p.conns[to]), p.count, want)
			}
		}
		put(3)
		time.Sleep(20 * time.Second)
		put(1)
		time.Sleep(10 * time.Second)
		put(1)
		left(5)
		time.Sleep(30 * time.Second)
		left(2)
		time.Sleep(20 * time.Second)
		left(1)
		time.Sleep(10 * time.Second)
		left(0)
		p.close()
	})
}
