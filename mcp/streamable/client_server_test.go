package streamable_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weir-mcp/weir/mcp"
	"github.com/weir-mcp/weir/mcp/streamable"
)

// TestClientWithServer runs both sides of this package in every version: a
// passthrough through another client and server in between must not be told
// from the server itself.
func TestClientWithServer(t *testing.T) {
	for _, version := range mcp.Versions {
		for _, hops := range []int{0, 1} {
			t.Run(fmt.Sprintf("%s/%d hops", version, hops), func(t *testing.T) {
				connect := func(url string) *streamable.Client {
					c, err := streamable.Dial(t.Context(), streamable.ClientOptions{
						URL: url, ProtocolVersion: version, Capabilities: json.RawMessage(`{"sampling":{}}`),
					})
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					return c
				}
				hs, _ := startServer(t, streamable.ServerOptions{})
				c := connect(hs.URL)
				for range hops {
					hs, _ := startServer(t, streamable.ServerOptions{Handler: &mcp.Lifecycle{
						ServerInfo:   c.Hello().ServerInfo,
						Capabilities: func(*mcp.Request) json.RawMessage { return c.Hello().Capabilities },
						Next:         mcp.Forward(c),
					}})
					c = connect(hs.URL)
				}
				if h := c.Hello(); h.Version != version || h.Modern != mcp.IsModern(version) {
					t.Errorf("hello %+v", h)
				}
				testBothSides(t, c)
			})
		}
	}
}

func testBothSides(t *testing.T, c *streamable.Client) {
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			const odd = `{ "b":12345678901234567890, "a":[1.0,"\u00e9"] }`
			got, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"echo","arguments":`+odd+`}`), nil)
			if err != nil || !strings.Contains(string(got), `12345678901234567890, \"a\":[1.0,\"\\u00e9\"]`) {
				t.Errorf("got %s, %v", got, err)
			}
			var mu sync.Mutex
			var progress []string
			back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
				mu.Lock()
				defer mu.Unlock()
				progress = append(progress, string(r.Params))
				return nil, nil
			})
			params := fmt.Sprintf(`{"name":"progress","arguments":{"n":20},"_meta":{"progressToken":"t%d"}}`, i)
			if _, err := c.Call(t.Context(), "tools/call", json.RawMessage(params), back); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(progress) != 20 {
				t.Errorf("%d progress notifications at the response", len(progress))
			}
			for n, p := range progress {
				if p != fmt.Sprintf(`{"progressToken":"t%d","progress":%d}`, i, n+1) {
					t.Errorf("number %d is %s", n, p)
				}
			}
		})
	}
	wg.Wait()
	if !c.Hello().Modern {
		back := mcp.HandlerFunc(func(_ context.Context, r *mcp.Request) (json.RawMessage, error) {
			return json.RawMessage(`{"model":"asked ` + r.Method + `"}`), nil
		})
		got, err := c.Call(t.Context(), "tools/call", json.RawMessage(`{"name":"ask"}`), back)
		if err != nil || !strings.Contains(string(got), "asked sampling/createMessage") {
			t.Errorf("got %s, %v", got, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := c.Call(ctx, "tools/call", json.RawMessage(`{"name":"sleep"}`), nil); err != context.DeadlineExceeded {
		t.Errorf("err = %v", err)
	}
}
