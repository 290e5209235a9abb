package gateway_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-mcp/weir/internal/testkit/gatewaytest"
)

// TestDrainUnderLoad: two nodes behind a balancer end one after another, and new ones come, while clients
// begin sessions and call tools that take a while. No request fails.
func TestDrainUnderLoad(t *testing.T) {
	c := gatewaytest.StartNodes(t, 2)
	c.Path = "/mcps/up/mcp"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	var calls atomic.Int64
	work.Go(func() { c.Watch(ctx) })
	for i := range 3 {
		work.Go(func() {
			session := ""
			for n := 0; ctx.Err() == nil; n++ {
				if n%8 == 0 {
					id, err := c.TryCall("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
					if err != nil || id == "" {
						t.Errorf("client %d begins a session: %v", i, err)
						return
					}
					session = id
				}
				call := `{"name":"echo","arguments":{"text":"echo"}}`
				if n%4 == 1 {
					call = `{"name":"sleep","arguments":{"sleep_ms":150}}`
				}
				if _, err := c.TryCall(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, n+1, call)); err != nil {
					t.Errorf("client %d, call %d: %v", i, n, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i, n := range c.All[:2] {
		had, until := calls.Load(), time.Now().Add(gatewaytest.Patience)
		for calls.Load() < had+6 && !t.Failed() {
			if time.Now().After(until) {
				t.Errorf("%d calls in %v", calls.Load()-had, gatewaytest.Patience)
			}
			time.Sleep(5 * time.Millisecond)
		}
		c.Start(fmt.Sprint("next", i))
		c.Mu.Lock()
		n.Ended = true
		c.Mu.Unlock()
		ending, done := context.WithTimeout(context.Background(), gatewaytest.Patience)
		if err := n.Server.Shutdown(ending); err != nil {
			t.Errorf("%s: %v", n.Name, err)
		}
		n.Front.Close() // waits for requests that other nodes answer
		n.Gateway.Close(ending)
		done()
	}
	cancel()
	work.Wait()
	t.Logf("%d calls", calls.Load())
}

// TestRequestsToADrainingNode: a node that ends answers requests that still come, in its sessions and new ones.
// The other node serves them.
func TestRequestsToADrainingNode(t *testing.T) {
	c := gatewaytest.StartNodes(t, 2)
	ending, other := c.All[0], c.All[1]
	session := c.Open(ending)
	ending.Ended = true // the test ends it
	ctx, cancel := context.WithTimeout(context.Background(), gatewaytest.Patience)
	defer cancel()
	over := make(chan error)
	go func() { over <- ending.Server.Shutdown(ctx) }()
	for !ending.Node.Draining() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	asks := func(when string) {
		resp, body := c.PostTo(ending, session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) {
			t.Errorf("%s, in a session: %d %s", when, resp.StatusCode, body)
		}
		if id := c.Open(ending); !strings.HasPrefix(id, "w1."+other.Node.Inc()+".") {
			t.Errorf("%s: the new session %.20q is not at the other node", when, id)
		}
	}
	asks("while the node drains")
	if err := <-over; err != nil {
		t.Error(err)
	}
	asks("at the end")
	ending.Front.Close()
	ending.Gateway.Close(ctx)
}
