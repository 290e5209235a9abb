package app_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// watch takes nodes out of the balancer when /readyz says so, and ends with ctx.
func (c *nodes) watch(ctx context.Context) {
	for ctx.Err() == nil {
		c.mu.Lock()
		all := append([]*node(nil), c.all...)
		c.mu.Unlock()
		for _, n := range all {
			resp, err := http.Get(n.front.URL + "/readyz")
			if err == nil {
				resp.Body.Close()
			}
			if err != nil || resp.StatusCode != http.StatusOK {
				c.mu.Lock()
				n.out = true
				c.mu.Unlock()
			}
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

// patience bounds a request of a test, and the waits for requests.
const patience = time.Minute

// tryCall makes a request in a session through the balancer, and returns what was wrong.
func (c *nodes) tryCall(session, body string) (id string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.next().front.URL+c.path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	r.Header.Set("Authorization", "Bearer "+clusterToken)
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && (resp.StatusCode != http.StatusOK || !strings.Contains(string(raw), `"result"`)) {
		err = fmt.Errorf("status %d: %.400s", resp.StatusCode, raw)
	}
	return resp.Header.Get("Mcp-Session-Id"), err
}

// TestDrainUnderLoad: two nodes behind a balancer end one after another, and new ones come, while clients
// begin sessions and call tools that take a while. No request fails.
func TestDrainUnderLoad(t *testing.T) {
	c := startNodes(t, 2)
	c.path = "/mcps/up/mcp"
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var work sync.WaitGroup
	var calls atomic.Int64
	work.Go(func() { c.watch(ctx) })
	for i := range 3 {
		work.Go(func() {
			session := ""
			for n := 0; ctx.Err() == nil; n++ {
				if n%8 == 0 {
					id, err := c.tryCall("", `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
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
				if _, err := c.tryCall(session, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, n+1, call)); err != nil {
					t.Errorf("client %d, call %d: %v", i, n, err)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i, n := range c.all[:2] {
		had, until := calls.Load(), time.Now().Add(patience)
		for calls.Load() < had+6 && !t.Failed() {
			if time.Now().After(until) {
				t.Errorf("%d calls in %v", calls.Load()-had, patience)
			}
			time.Sleep(5 * time.Millisecond)
		}
		c.start(fmt.Sprint("next", i))
		c.mu.Lock()
		n.ended = true
		c.mu.Unlock()
		ending, done := context.WithTimeout(context.Background(), patience)
		if err := n.server.Shutdown(ending); err != nil {
			t.Errorf("%s: %v", n.name, err)
		}
		n.front.Close() // waits for requests that other nodes answer
		n.engine.Close(ending)
		done()
	}
	cancel()
	work.Wait()
	t.Logf("%d calls", calls.Load())
}

// TestRequestsToADrainingNode: a node that ends answers requests that still come, in its sessions and new ones.
// The other node serves them.
func TestRequestsToADrainingNode(t *testing.T) {
	c := startNodes(t, 2)
	ending, other := c.all[0], c.all[1]
	session := c.open(ending)
	ending.ended = true // the test ends it
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	over := make(chan error)
	go func() { over <- ending.server.Shutdown(ctx) }()
	for !ending.node.Draining() && ctx.Err() == nil {
		time.Sleep(time.Millisecond)
	}
	asks := func(when string) {
		resp, body := c.postTo(ending, session, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)
		if resp.StatusCode != http.StatusOK || !strings.Contains(body, `"result"`) {
			t.Errorf("%s, in a session: %d %s", when, resp.StatusCode, body)
		}
		if id := c.open(ending); !strings.HasPrefix(id, "w1."+other.node.Inc()+".") {
			t.Errorf("%s: the new session %.20q is not at the other node", when, id)
		}
	}
	asks("while the node drains")
	if err := <-over; err != nil {
		t.Error(err)
	}
	asks("at the end")
	ending.front.Close()
	ending.engine.Close(ctx)
}
