package clustertest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/clustertest"
)

// TestBrokenLinks: a call is answered within its timeout and five seconds while the link from its entry node to the
// node of its session is broken, whether it began before that or after. When the link is open again, the session goes
// on.
func TestBrokenLinks(t *testing.T) {
	tool, url := serveCounter(t)
	c := clustertest.Start(t, clustertest.Options{Weir: weirBin, Config: fmt.Sprintf("mode: gateway\nmcpServers: {counter: {url: %q, required: true, timeout: %v}}", url, callTimeout)})
	_, patience := lasts()
	states := []clustertest.State{clustertest.Cut, clustertest.Stalled, clustertest.HalfOpen}
	var all sync.WaitGroup
	for i, state := range states { // each at a link of its own, to a node of its own
		entry, owner := c.Nodes[i], c.Nodes[(i+1)%len(c.Nodes)]
		s := open(t, owner, "/mcp")
		id := toolID(t, s, entry)
		number := 0
		call := func(name string, ms int) {
			number++
			ctx, cancel := context.WithTimeout(t.Context(), callTimeout+callSlack+patience())
			defer cancel()
			began := time.Now()
			status, answer, _, err := s.post(ctx, entry, s.call(number, id, name, ms))
			if err != nil {
				t.Errorf("a call over a link that is %v: %v after %v", state, err, time.Since(began))
				return
			}
			t.Logf("%v: %s after %v", state, outcome(status, answer), time.Since(began).Round(time.Millisecond))
		}
		call(fmt.Sprint(state, " works"), 0)
		all.Go(func() {
			link := c.Link(entry, owner)
			name := fmt.Sprint(state, " during")
			over := make(chan struct{})
			go func() {
				defer close(over)
				call(name, 500)
			}()
			for end := time.Now().Add(20 * time.Second); tool.count(name) == 0 && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			link.Set(state)
			<-over
			call(fmt.Sprint(state, " after"), 0)
			link.Set(clustertest.Open)
			settles(t, c, s, id)
		})
	}
	all.Wait()
	for _, name := range tool.ranTwice() {
		t.Error(name)
	}
	for _, state := range states {
		if name := fmt.Sprint(state, " works"); tool.count(name) != 1 {
			t.Errorf("%s ran %d times", name, tool.count(name))
		}
	}
}
