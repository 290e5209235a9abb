package clustertest_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/clustertest"
)

// healTime bounds the time in which a session at a node whose link to the entry node is broken answers again.
const healTime = 8 * time.Second

// TestLinkHeals: while the link from the entry node to the node of a session loses everything, calls in the session go
// on through a third node, with all the connections of before dead.
func TestLinkHeals(t *testing.T) {
	_, url := serveCounter(t)
	c := clustertest.Start(t, clustertest.Options{Weir: weirBin, Config: fmt.Sprintf("mode: gateway\nmcpServers: {counter: {url: %q, required: true, timeout: %v}}", url, callTimeout)})
	_, patience := lasts()
	entry, owner := c.Nodes[0], c.Nodes[1]
	s := open(t, owner, "/mcp")
	id := toolID(t, s, entry)
	var number atomic.Int64
	call := func(ms int) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		_, answer, _, err := s.post(ctx, entry, s.call(int(number.Add(1)), id, settled, ms))
		return err == nil && strings.Contains(answer, "counted "+settled)
	}
	var many sync.WaitGroup
	for range 12 { // so many connections are there
		many.Go(func() {
			if !call(300) {
				t.Error("a call over a link that is open failed")
			}
		})
	}
	many.Wait()
	c.Link(entry, owner).Set(clustertest.Stalled)
	began := time.Now()
	last, longest, failed := began, time.Duration(0), 0
	for time.Since(began) < 20*time.Second {
		if ok := call(0); ok {
			longest, last = max(longest, time.Since(last)), time.Now()
		} else {
			failed++
		}
		time.Sleep(50 * time.Millisecond)
	}
	longest = max(longest, time.Since(last))
	t.Logf("the longest gap was %v; %d calls failed", longest.Round(time.Millisecond), failed)
	bound := healTime + 4*time.Second
	if *chaosTime > 0 {
		bound = healTime + patience()
	}
	if longest > bound {
		t.Errorf("no call was answered for %v", longest)
	}
	c.Link(entry, owner).Set(clustertest.Open)
	settles(t, c, s, id)
	for end := time.Now().Add(30 * time.Second); !strings.Contains(entry.Log(), "the peer link of a node answers again"); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("requests go through a third node for good\n%s", entry.Log())
		}
	}
}

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
