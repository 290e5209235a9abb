package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weir-mcp/weir/internal/identity"
	"github.com/weir-mcp/weir/internal/link"
	"github.com/weir-mcp/weir/internal/store"
)

// TestGoneIsBounded: the ends of nodes that strict claims wait for are bounded like all others.
func TestGoneIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		a := w.join("a")
		over, cancel := context.WithCancel(t.Context())
		cancel()
		for i := range 2 * maxGone {
			_ = a.nodes.outwait(over, fmt.Sprintf("i%05d", i))
		}
		a.nodes.mu.Lock()
		defer a.nodes.mu.Unlock()
		if len(a.nodes.gone) > maxGone {
			t.Errorf("%d ends of nodes are remembered, more than %d", len(a.nodes.gone), maxGone)
		}
	})
}

// TestPassOnFails: a third node that cannot reach the owner either says so, and whether the owner may have
// got the request. The entry node then answers its client, by the request's id.
func TestPassOnFails(t *testing.T) {
	docs, bus := store.NewMemory(store.MemoryOptions{}), store.NewMemoryBus()
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	broken := listen() // it takes requests and answers nothing
	defer broken.Close()
	go func() {
		for {
			conn, err := broken.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, 1))
			_ = conn.Close()
		}
	}()
	owner := listen()
	start := func(name, url string, dial func(context.Context, string, string) (net.Conn, error)) *Node {
		n, err := Start(t.Context(), Options{Docs: docs, Bus: bus, Name: name, URL: url, Dial: dial})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { n.Close(context.Background()) })
		return n
	}
	refuse := func(ctx context.Context, network, address string) (net.Conn, error) {
		if address == owner.Addr().String() {
			return nil, errors.New("refused")
		}
		return link.Dialer().DialContext(ctx, network, address)
	}
	b := start("b", "http://"+owner.Addr().String(), nil)
	linkB := b.Serve(owner, nil, http.NotFoundHandler())
	defer linkB.Shutdown(context.Background())
	var breaks atomic.Bool // the way from c to b; connections may be dialed late
	third := listen()
	c := start("c", "http://"+third.Addr().String(), func(ctx context.Context, network, address string) (net.Conn, error) {
		if breaks.Load() {
			return link.Dialer().DialContext(ctx, network, broken.Addr().String())
		}
		return refuse(ctx, network, address)
	})
	linkC := c.Serve(third, nil, http.NotFoundHandler())
	defer linkC.Shutdown(context.Background())
	a := start("a", "http://127.0.0.1:1", refuse)
	for name, sent := range map[string]bool{"unreachable": false, "broken off": true} {
		breaks.Store(sent)
		r, err := http.NewRequestWithContext(t.Context(), http.MethodDelete, "http://weir/mcp", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		link.SetCaller(r.Header, &identity.Identity{Principal: "ann"})
		resp, err := a.link.RoundTrip(b.Inc(), r)
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			t.Errorf("%s: %d %s", name, resp.StatusCode, body)
			continue
		}
		if errors.Is(err, link.ErrNotSent) == sent {
			t.Errorf("%s: %v", name, err)
		}
	}
}
